// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/forecast"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/report"
)

// arePrintedTogether reports whether a plan prints two nodes as one group.
func arePrintedTogether(t *testing.T, a, b forecast.Outcome) bool {
	t.Helper()
	text := report.NewPlanDiff([]report.SimulatedNode{
		{Node: "node-a", Outcome: a}, {Node: "node-b", Outcome: b},
	}, nil).Text(report.Page{})
	together := strings.Contains(text, "node-a, node-b\n")
	if alone := strings.Contains(text, "node-a\n") && strings.Contains(text, "node-b\n"); alone == together {
		t.Errorf("a node is missing or printed twice:\n%s", text)
	}
	return together
}

// The IDs of interfaces, and the reason for a move, differ from node to node.
func TestPlanDiffPrintsNodesWithTheSameActionsTogether(t *testing.T) {
	do := func(calls ...plan.Call) []plan.Call { return calls }
	in := func(nodeENI, subnet string) plan.Call {
		return plan.Create{Key: identity.Interface{NodeENI: nodeENI}, SubnetID: subnet}
	}
	groups := func(id, group string) plan.Call { return changeOf(0, id, plan.Groups{group}) }
	for name, tc := range map[string]struct {
		a, b     []plan.Call
		together bool
	}{
		"the same creation":            {do(createAt(0, 1)), do(createAt(3, 1)), true},
		"creations in other subnets":   {do(in("data", "subnet-1")), do(in("data", "subnet-2")), false},
		"creations for other NodeENIs": {do(in("data", "subnet-1")), do(in("sig", "subnet-1")), false},
		"creations at other slots":     {do(createAt(0, 1)), do(createAt(0, 2)), false},
		"one creation and two":         {do(createAt(0, 1)), do(createAt(0, 1), createAt(1, 1)), false},
		"attachments at one slot":      {do(attachAt(0, "eni-1", 1)), do(attachAt(0, "eni-2", 1)), true},
		"attachments at other slots":   {do(attachAt(0, "eni-1", 1)), do(attachAt(0, "eni-1", 2)), false},
		"removals of other interfaces": {do(deleteOf("eni-1", "x")), do(deleteOf("eni-2", "x")), true},
		"removals for other reasons":   {do(deleteOf("eni-1", "x")), do(deleteOf("eni-1", "y")), false},
		"only one removal detaches": {
			do(deleteOf("eni-1", "x")), do(detachOf("eni-1", "x"), deleteOf("eni-1", "x")), false,
		},
		"the same change of other interfaces": {do(groups("eni-1", "sg-1")), do(groups("eni-2", "sg-1")), true},
		"changes to other values":             {do(groups("eni-1", "sg-1")), do(groups("eni-1", "sg-2")), false},
	} {
		t.Run(name, func(t *testing.T) {
			together := arePrintedTogether(t, forecast.Outcome{Calls: tc.a}, forecast.Outcome{Calls: tc.b})
			if together != tc.together {
				t.Errorf("together is %t, want %t", together, tc.together)
			}
		})
	}
}

// The message of a blocked interface is that of the first node. Nodes with different pods or drift are not alike.
func TestPlanDiffPrintsNodesTogetherThatLackTheSame(t *testing.T) {
	member := func(phase plan.Phase, reason plan.Reason, message string, ordinal int, slots ...string) forecast.Outcome {
		i := forecast.Interface{State: plan.State{
			Key: ofData(ordinal), Goal: plan.Serve, Phase: phase, Problem: plan.Problem{Reason: reason, Message: message},
		}}
		for _, slot := range slots {
			i.Drift = append(i.Drift, plan.Drift{Field: "slot", Want: slot, Have: "1"})
		}
		return forecast.Outcome{Interfaces: []forecast.Interface{i}}
	}
	creating := func(o forecast.Outcome) forecast.Outcome {
		o.Calls = []plan.Call{createAt(1, 1)}
		return o
	}
	evicting := func(pod string) forecast.Outcome {
		return forecast.Outcome{Evictions: []forecast.Eviction{
			{Key: ofData(0), InterfaceID: "eni-1", Pods: []string{pod}},
		}}
	}
	full := member(plan.Blocked, plan.SubnetFull, "a", 0)
	drifted := member(plan.Attached, plan.Drifted, "eni-1", 0, "2")
	for name, tc := range map[string]struct {
		a, b     forecast.Outcome
		together bool
	}{
		"blocked for one reason":   {full, member(plan.Blocked, plan.SubnetFull, "b", 1), true},
		"blocked for two reasons":  {full, member(plan.Blocked, plan.SlotTaken, "a", 0), false},
		"blocked and not":          {creating(full), creating(forecast.Outcome{}), false},
		"blocked, and the same":    {creating(full), creating(full), true},
		"evictions of other pods":  {evicting("default/a"), evicting("default/b"), false},
		"evictions of one name":    {evicting("default/a"), evicting("default/a"), true},
		"the same drift":           {drifted, member(plan.Attached, plan.Drifted, "eni-2", 0, "2"), true},
		"other drift":              {drifted, member(plan.Attached, plan.Drifted, "eni-1", 0, "3"), false},
		"more drift":               {drifted, member(plan.Attached, plan.Drifted, "eni-1", 0, "2", "3"), false},
		"drift of another ordinal": {drifted, member(plan.Attached, plan.Drifted, "eni-1", 1, "2"), false},
		"used by other pods": {
			member(plan.Attached, plan.InUseByPods, "pod a", 0), member(plan.Attached, plan.InUseByPods, "pod b", 0), false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if together := arePrintedTogether(t, tc.a, tc.b); together != tc.together {
				t.Errorf("together is %t, want %t", together, tc.together)
			}
		})
	}
}

// Nodes with only blocked interfaces have no action, so the text does not say that others have the same one.
func TestPlanDiffCountsTheOtherNodesOnlyBelowActions(t *testing.T) {
	node := func(name string, calls ...plan.Call) report.SimulatedNode {
		planned := onNode(name, calls...)
		planned.Outcome.Interfaces = []forecast.Interface{{State: plan.State{
			Key: ofData(1), Phase: plan.Blocked, Problem: plan.Problem{Reason: plan.SubnetFull, Message: "none is free"},
		}}}
		return planned
	}
	for name, tc := range map[string]struct {
		planned []report.SimulatedNode
		want    string
	}{
		"blocked alone":  {[]report.SimulatedNode{node("a"), node("b")}, ""},
		"a node alone":   {[]report.SimulatedNode{node("a", createAt(0, 1))}, ""},
		"two with steps": {[]report.SimulatedNode{node("a", createAt(0, 1)), node("b", createAt(0, 1))}, " on 1 other node"},
	} {
		t.Run(name, func(t *testing.T) {
			_, after, _ := strings.Cut(report.NewPlanDiff(tc.planned, nil).Text(report.Page{}), "  and the same")
			if got, _, _ := strings.Cut(after, "\n\n"); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestPlanDiffWarnsOfWhatPodsLose(t *testing.T) {
	const end = ", where pods can use what is attached:\n\n"
	remove := func(id string) plan.Call { return deleteOf(id, "it goes") }
	for name, tc := range map[string]struct {
		planned []report.SimulatedNode
		want    string
	}{
		"nothing is lost": {[]report.SimulatedNode{onNode("a", createAt(0, 1))}, ""},
		"one interface": {
			[]report.SimulatedNode{onNode("a", remove("eni-1"))}, "! 1 interface would be removed from 1 node" + end,
		},
		"two of one node": {
			[]report.SimulatedNode{onNode("a", remove("eni-1"), remove("eni-2")), onNode("b", createAt(0, 1))},
			"! 2 interfaces would be removed from 1 node" + end,
		},
		"three of two nodes": {
			[]report.SimulatedNode{onNode("a", remove("eni-1"), remove("eni-2")), onNode("b", remove("eni-3"))},
			"! 3 interfaces would be removed from 2 nodes" + end,
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := report.NewPlanDiff(tc.planned, nil).Text(report.Page{})
			got := text[:strings.Index(text, "a\n")]
			if tc.want != "" {
				got = text[:strings.Index(text, "\n\n")+2]
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlanDiffPrintsItsCost(t *testing.T) {
	after := func(d time.Duration) map[string]forecast.Rate {
		return map[string]forecast.Rate{"CreateNetworkInterface": {Burst: 1, PerSecond: float64(time.Second) / float64(d)}}
	}
	two := []plan.Call{createAt(0, 1), createAt(1, 2)}
	for name, tc := range map[string]struct {
		calls []plan.Call
		rates map[string]forecast.Rate
		want  string
	}{
		"no call": {nil, nil, "No call to EC2."},
		"one call": {
			two[:1], after(time.Hour),
			"1 call to EC2: CreateNetworkInterface 1. EC2's request limits allow them at once.",
		},
		"calls by operation": {
			append([]plan.Call{detachOf("eni-1", "x"), deleteOf("eni-1", "x")}, two...), nil,
			"4 calls to EC2: CreateNetworkInterface 2, DeleteNetworkInterface 1, DetachNetworkInterface 1. EC2's request " +
				"limits allow them at once.",
		},
		"calls that wait": {
			two, after(90 * time.Second),
			"2 calls to EC2: CreateNetworkInterface 2. EC2's request limits make that at least 1m30s, because of " +
				"CreateNetworkInterface.",
		},
		"more than half a second": {
			two, after(600 * time.Millisecond),
			"2 calls to EC2: CreateNetworkInterface 2. EC2's request limits make that at least 1s, because of " +
				"CreateNetworkInterface.",
		},
		"less than half a second": {
			two, after(400 * time.Millisecond),
			"2 calls to EC2: CreateNetworkInterface 2. EC2's request limits allow them at once.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := report.NewPlanDiff([]report.SimulatedNode{onNode("a", tc.calls...)}, tc.rates).Text(report.Page{})
			lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
			if diff := cmp.Diff(tc.want, lines[len(lines)-1]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// fullPlan is a plan with every kind of line.
func fullPlan() report.PlanDiff {
	calls := []plan.Call{
		detachOf("eni-1", "its subnet changed"), deleteOf("eni-1", "its subnet changed"),
		createAt(0, 2), changeOf(2, "eni-3", plan.Tags{"a": "b"}),
	}
	interfaces := []forecast.Interface{
		{State: plan.State{
			Key: ofData(3), Phase: plan.Blocked, Problem: plan.Problem{Reason: plan.SubnetFull, Message: "no address; free one"},
		}},
		{
			State: plan.State{Key: ofData(4), Phase: plan.Attached, Interface: &eni.Interface{ID: "eni-4"}},
			Drift: []plan.Drift{{Field: "subnet", Want: "subnet-1", Have: "subnet-2"}},
		},
	}
	node := func(name string) report.SimulatedNode {
		return report.SimulatedNode{Node: name, Outcome: forecast.Outcome{
			Calls: calls, Interfaces: interfaces, Evictions: []forecast.Eviction{
				{Key: ofData(0), InterfaceID: "eni-1", Pods: []string{"default/upf"}, Why: "its subnet changed"},
			},
		}}
	}
	v := report.NewPlanDiff([]report.SimulatedNode{node("b"), node("a"), node("c"), {Node: "d"}}, map[string]forecast.Rate{
		"CreateNetworkInterface": {Burst: 1, PerSecond: 1},
	})
	v.Shortages = []report.Shortage{{
		SubnetID: "subnet-1", Zone: "us-east-1a", NodeENIs: []string{"data"}, Addresses: 3, FreeAddresses: 1,
	}}
	v.Skipped = []string{"fargate is passed over: it is no EC2 instance"}
	return v
}

func TestPlanDiffPrintsItsLinesInTheOrderOfImportance(t *testing.T) {
	const want = `! 3 interfaces would be removed from 3 nodes, where pods can use what is attached:

a, b, c
  ! data: evict the pods default/upf, which use eni-1: its subnet changed
  - data: detach and delete eni-1: its subnet changed
  + data: create an interface in subnet-1 for card 0 device 2
  ~ data: set tags a of eni-3
  ✗ data: SubnetFull: no address
    → free one
  ≠ data: Drifted: eni-4 differs in subnet: want subnet-1, have subnet-2
    → Set updatePolicy: Replace to have the interface replaced, or change the NodeENI back. The interface stays in use ` +
		`as it is.
  and the same on 2 other nodes

! subnet-1 (us-east-1a) is too small: data needs 3 addresses there, and 1 are free; the rest of the interfaces is ` +
		`created in another subnet of the zone, if there is one, and is blocked otherwise
· fargate is passed over: it is no EC2 instance
3 to create, 3 to change, 3 to remove, 3 blocked, 3 drifted; 1 node unchanged.
12 calls to EC2: CreateNetworkInterface 3, CreateTags 3, DeleteNetworkInterface 3, ` +
		`DetachNetworkInterface 3. EC2's request limits make that at least 2s, because of CreateNetworkInterface.
`
	if diff := cmp.Diff(want, fullPlan().Text(report.Page{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A line has the colour of its severity: red for what is lost or blocked, yellow for what changes, green for what is
// created.
func TestPlanDiffPaintsEachLineByItsSeverity(t *testing.T) {
	colours := map[string]string{}
	for _, painted := range strings.Split(fullPlan().Text(report.Page{Colours: true}), "\x1b[0m") {
		if at := strings.Index(painted, "\x1b["); at >= 0 {
			colour, text, _ := strings.Cut(painted[at+2:], "m")
			start, _, _ := strings.Cut(strings.TrimSpace(text), " ")
			colours[strings.TrimSpace(start)] += colour + " "
		}
	}
	want := map[string]string{
		"!": "31 31 31 ", // the warning, the eviction and the shortage
		"~": "33 ",
		"-": "31 ", "+": "32 ", "✗": "31 ", "≠": "33 ", "and": "2 ", "a,": "1 ",
	}
	if diff := cmp.Diff(want, colours); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Programs read the fields by these names. Numbers are printed even if they are zero.
func TestPlanDiffHasTheseFieldsInJSON(t *testing.T) {
	v := report.PlanDiff{
		Create: 1, Change: 2, Remove: 3, Blocked: 5, Drifted: 6, Unchanged: 7,
		Calls: map[string]int{"CreateTags": 8}, Seconds: 9.5, Slowest: "CreateTags", Skipped: []string{"fargate"},
		Nodes: []report.NodeDiff{
			{Name: "a", Steps: []string{"+"}, Blocked: []string{"x"}, Drifted: []string{"y"}}, {Name: "b"},
		},
		Shortages: []report.Shortage{{
			SubnetID: "subnet-1", Zone: "us-east-1a", NodeENIs: []string{"data"}, Addresses: 1, FreeAddresses: 2, Prefixes: 3,
			FreePrefixes: 4,
		}},
	}
	const want = `{
  "create": 1,
  "change": 2,
  "remove": 3,
  "blocked": 5,
  "drifted": 6,
  "nodes": [
    {
      "name": "a",
      "steps": [
        "+"
      ],
      "blocked": [
        "x"
      ],
      "drifted": [
        "y"
      ]
    },
    {
      "name": "b"
    }
  ],
  "unchanged": 7,
  "calls": {
    "CreateTags": 8
  },
  "seconds": 9.5,
  "slowest": "CreateTags",
  "shortages": [
    {
      "subnet": "subnet-1",
      "zone": "us-east-1a",
      "nodeENIs": [
        "data"
      ],
      "addresses": 1,
      "freeAddresses": 2,
      "prefixes": 3,
      "freePrefixes": 4
    }
  ],
  "skipped": [
    "fargate"
  ]
}`
	if diff := cmp.Diff(want, indented(t, v)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func ExampleNewPlanDiff() {
	node := func(name, id string) report.SimulatedNode {
		of := identity.Interface{NodeENI: "data", Node: name}
		return report.SimulatedNode{Node: name, Outcome: forecast.Outcome{Calls: []plan.Call{
			plan.Create{Key: of, SubnetID: "subnet-1", Slot: eni.Slot{Device: 2}},
			plan.Attach{Key: of, InterfaceID: id, Slot: eni.Slot{Device: 2}},
		}}}
	}
	rates := map[string]forecast.Rate{"AttachNetworkInterface": {Burst: 1, PerSecond: 0.1}}
	planned := report.NewPlanDiff([]report.SimulatedNode{node("b", "eni-2"), node("a", "eni-1")}, rates)
	fmt.Print(planned.Text(report.Page{Width: 90}))
	// Output:
	// a, b
	//   + data: create an interface in subnet-1 for card 0 device 2
	//   and the same on 1 other node
	//
	// 2 to create, 0 to change, 0 to remove, 0 blocked, 0 drifted; 0 nodes unchanged.
	// 4 calls to EC2: AttachNetworkInterface 2, CreateNetworkInterface 2. EC2's request limits
	// make that at least 10s, because of AttachNetworkInterface.
}
