// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/forecast"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/report"
)

// dataMember is the member of NodeENI data with the ordinal.
func dataMember(ordinal int) identity.Member {
	return identity.Member{NodeENI: "data", Node: "node-a1", Key: identity.Key{Ordinal: ordinal}}
}

func createAt(ordinal, device int) plan.Action {
	return plan.Create{Member: dataMember(ordinal), SubnetID: "subnet-1", Slot: eni.Slot{Device: device}}
}

func attachAt(ordinal int, id string, device int) plan.Action {
	return plan.Attach{Member: dataMember(ordinal), InterfaceID: id, Slot: eni.Slot{Device: device}}
}

func detachOf(id, why string) plan.Action {
	return plan.Detach{Member: dataMember(0), InterfaceID: id, Why: why}
}

func deleteOf(id, why string) plan.Action {
	return plan.Delete{Member: dataMember(0), InterfaceID: id, Why: why}
}

func changeOf(ordinal int, id string, to plan.Attribute) plan.Action {
	return plan.Change{Member: dataMember(ordinal), InterfaceID: id, To: to}
}

// withInstance is the attribute that needs a separate call to EC2 after each attachment.
var withInstance = plan.DeleteOnTermination{Enabled: true}

// onNode is the outcome of a plan for a node.
func onNode(name string, actions ...plan.Action) report.SimulatedNode {
	return report.SimulatedNode{Node: name, Outcome: forecast.Outcome{Actions: actions}}
}

// counts are the numbers of a plan: create, change, move, remove, blocked, drifted, unchanged nodes.
func counts(v report.PlanDiff) [7]int {
	return [7]int{v.Create, v.Change, v.Move, v.Remove, v.Blocked, v.Drifted, v.Unchanged}
}

func TestPlanDiffSaysOneSentenceForEachInterface(t *testing.T) {
	for name, tc := range map[string]struct {
		actions []plan.Action
		counts  [7]int
		steps   []string
	}{
		"nothing": {nil, [7]int{6: 1}, nil},
		"an interface is created, attached and set up": {
			[]plan.Action{createAt(0, 2), attachAt(0, "eni-1", 2), changeOf(0, "eni-1", withInstance)},
			[7]int{1}, []string{"+ data: create an interface in subnet-1 for card 0 device 2"},
		},
		"two interfaces are created": {
			[]plan.Action{createAt(0, 2), createAt(1, 3)},
			[7]int{2}, []string{
				"+ data: create an interface in subnet-1 for card 0 device 2",
				"+ data: create an interface in subnet-1 for card 0 device 3",
			},
		},
		"a new interface gets more than its creation gives": {
			[]plan.Action{createAt(0, 2), changeOf(0, "eni-1", plan.SourceDestCheck(false))},
			[7]int{1, 1}, []string{
				"+ data: create an interface in subnet-1 for card 0 device 2", "~ data: set source/dest check false of eni-1",
			},
		},
		"an existing interface is attached": {
			[]plan.Action{attachAt(0, "eni-1", 2), changeOf(0, "eni-1", withInstance)},
			[7]int{0, 1}, []string{"~ data: attach eni-1 at card 0 device 2"},
		},
		"an attribute of a live interface": {
			[]plan.Action{changeOf(0, "eni-1", plan.Groups{"sg-1", "sg-2"})},
			[7]int{0, 1}, []string{"~ data: set security groups sg-1,sg-2 of eni-1"},
		},
		"the attribute of an attachment of a live interface, next to a new one": {
			[]plan.Action{createAt(0, 2), changeOf(1, "eni-1", withInstance)},
			[7]int{1, 1}, []string{
				"+ data: create an interface in subnet-1 for card 0 device 2", "~ data: set delete on termination true of eni-1",
			},
		},
		"an attached interface is removed": {
			[]plan.Action{detachOf("eni-1", "it is released"), deleteOf("eni-1", "it is released")},
			[7]int{3: 1}, []string{"- data: detach and delete eni-1: it is released"},
		},
		"an unattached interface is removed, and another one is detached": {
			[]plan.Action{detachOf("eni-2", "it is replaced"), deleteOf("eni-1", "it is released")},
			[7]int{2: 1, 3: 1}, []string{
				"- data: delete eni-1: it is released", "~ data: detach eni-2: it is replaced",
			},
		},
		"an interface moves": {
			[]plan.Action{
				detachOf("eni-1", "its slot changed"), attachAt(0, "eni-1", 3), changeOf(0, "eni-1", withInstance),
			},
			[7]int{2: 1}, []string{"~ data: detach eni-1 and attach it at card 0 device 3: its slot changed"},
		},
		"an interface moves twice": {
			[]plan.Action{
				detachOf("eni-1", "first"), attachAt(0, "eni-1", 3), detachOf("eni-1", "second"), attachAt(0, "eni-1", 2),
			},
			[7]int{2: 1}, []string{"~ data: detach eni-1 and attach it at card 0 device 2: first"},
		},
		"an interface moves and changes": {
			[]plan.Action{
				detachOf("eni-1", "its slot changed"), attachAt(0, "eni-1", 3), changeOf(0, "eni-1", plan.Description("d")),
			},
			[7]int{1: 1, 2: 1}, []string{
				"~ data: detach eni-1 and attach it at card 0 device 3: its slot changed", `~ data: set description "d" of eni-1`,
			},
		},
		"an interface is replaced": {
			[]plan.Action{
				detachOf("eni-1", "it is replaced"), deleteOf("eni-1", "it is replaced"), createAt(0, 2), attachAt(0, "eni-2", 2),
			},
			[7]int{1, 0, 0, 1}, []string{
				"- data: detach and delete eni-1: it is replaced", "+ data: create an interface in subnet-1 for card 0 device 2",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := report.NewPlanDiff([]report.SimulatedNode{onNode("node-a1", tc.actions...)}, nil)
			if diff := cmp.Diff(tc.counts, counts(v)); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
			want := []report.NodeDiff{{Name: "node-a1", Steps: tc.steps}}
			if tc.steps == nil {
				want = []report.NodeDiff{}
			}
			if diff := cmp.Diff(want, v.Nodes, cmpopts.IgnoreUnexported(report.NodeDiff{})); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
		})
	}
}

// What interrupts pods comes first: evictions, removals, moves.
func TestPlanDiffSaysFirstWhatInterruptsPods(t *testing.T) {
	node := onNode("node-a1", createAt(1, 4), changeOf(2, "eni-3", plan.SourceDestCheck(true)),
		detachOf("eni-2", "it moves"), attachAt(3, "eni-2", 5), detachOf("eni-1", "it goes"), deleteOf("eni-1", "it goes"))
	node.Outcome.Evictions = []plan.Eviction{{
		Member: dataMember(0), InterfaceID: "eni-1", Pods: []string{"default/upf", "default/smf"}, Why: "it goes",
	}}
	v := report.NewPlanDiff([]report.SimulatedNode{node}, nil)
	want := []string{
		"! data: evict the pods default/upf, default/smf, which use eni-1: it goes",
		"- data: detach and delete eni-1: it goes",
		"~ data: detach eni-2 and attach it at card 0 device 5: it moves",
		"+ data: create an interface in subnet-1 for card 0 device 4",
		"~ data: set source/dest check true of eni-3",
	}
	if diff := cmp.Diff(want, v.Nodes[0].Steps); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPlanDiffSaysWhichInterfacesAreNotAsDeclaredInTheEnd(t *testing.T) {
	drift := []plan.Drift{{Field: "subnet", Want: "a", Have: "b"}, {Field: "slot", Want: "1", Have: "2"}}
	why := func(reason plan.Reason, message string) plan.Problem {
		return plan.Problem{Reason: reason, Message: message}
	}
	for name, tc := range map[string]struct {
		members []plan.Member
		counts  [7]int
		want    report.NodeDiff
	}{
		"as declared": {[]plan.Member{{Phase: plan.Attached}}, [7]int{6: 1}, report.NodeDiff{}},
		"attached with a reason that is not of interest": {
			[]plan.Member{{Phase: plan.Attached, Why: why(plan.AddressesKept, "it has more")}}, [7]int{6: 1}, report.NodeDiff{},
		},
		"blocked": {
			[]plan.Member{{Phase: plan.Blocked, Why: why(plan.SubnetFull, "none is free")}}, [7]int{4: 1},
			report.NodeDiff{Blocked: []string{"data: SubnetFull: none is free"}},
		},
		"blocked and drifted counts once": {
			[]plan.Member{{Phase: plan.Blocked, Why: why(plan.SubnetFull, "none is free"), Drift: drift}}, [7]int{4: 1},
			report.NodeDiff{Blocked: []string{"data: SubnetFull: none is free"}},
		},
		"two for the same reason, one for another": {
			[]plan.Member{
				{Phase: plan.Blocked, Why: why(plan.SubnetFull, "none is free")},
				{Phase: plan.Blocked, Why: why(plan.SlotTaken, "it is taken")},
				{Phase: plan.Blocked, Why: why(plan.SubnetFull, "none is free")},
			}, [7]int{4: 3},
			report.NodeDiff{Blocked: []string{"data: SubnetFull: none is free", "data: SlotTaken: it is taken"}},
		},
		"pods use an interface that is to be removed": {
			[]plan.Member{{Phase: plan.Attached, Why: why(plan.InUseByPods, "pods use eni-1"), Drift: drift}}, [7]int{},
			report.NodeDiff{Steps: []string{"! data: InUseByPods: pods use eni-1"}},
		},
		"drifted, and the message says so": {
			[]plan.Member{{Phase: plan.Attached, Why: why(plan.Drifted, "eni-1 differs"), Drift: drift}}, [7]int{5: 1},
			report.NodeDiff{Drifted: []string{"data: Drifted: eni-1 differs"}},
		},
		"drifted, and the message is of something else": {
			[]plan.Member{{Phase: plan.Attached, Why: why(plan.Retained, "its node is paused"), Drift: drift}}, [7]int{5: 1},
			report.NodeDiff{Drifted: []string{
				"data: Retained: its node is paused, and it differs in subnet: want a, have b",
			}},
		},
		"drifted, and it is being removed": {
			[]plan.Member{{Phase: plan.Detaching, Why: why(plan.Removing, "it goes"), Drift: drift}}, [7]int{6: 1},
			report.NodeDiff{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range tc.members {
				tc.members[i].Member = dataMember(i)
			}
			v := report.NewPlanDiff([]report.SimulatedNode{
				{Node: "node-a1", Outcome: forecast.Outcome{Members: tc.members}},
			}, nil)
			if diff := cmp.Diff(tc.counts, counts(v)); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
			want := []report.NodeDiff{}
			if tc.want.Blocked != nil || tc.want.Drifted != nil || tc.want.Steps != nil {
				tc.want.Name = "node-a1"
				want = append(want, tc.want)
			}
			if diff := cmp.Diff(want, v.Nodes, cmpopts.IgnoreUnexported(report.NodeDiff{})); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
		})
	}
}

// Nodes that lose interfaces come first, then those whose interfaces move, each by name.
func TestPlanDiffOrdersNodesByWhatTheyLose(t *testing.T) {
	loses := func(name string, n int) report.SimulatedNode {
		node := onNode(name)
		for i := range n {
			node.Outcome.Actions = append(node.Outcome.Actions, deleteOf(fmt.Sprintf("eni-%d", i), "it goes"))
		}
		return node
	}
	moves := func(name string, n int) report.SimulatedNode {
		node := onNode(name)
		for i := range n {
			node.Outcome.Actions = append(node.Outcome.Actions, detachOf(fmt.Sprintf("eni-%d", i), "it moves"))
		}
		return node
	}
	both := moves("h-both", 1)
	both.Outcome.Actions = append(both.Outcome.Actions, deleteOf("eni-9", "it goes"))
	v := report.NewPlanDiff([]report.SimulatedNode{
		onNode("b", createAt(0, 1)), moves("d-moves", 2), loses("f-loses", 2), both, onNode("a", createAt(0, 1)),
		moves("c-moves", 1), loses("e-loses", 1), loses("g-loses", 3),
	}, nil)
	var got []string
	for _, n := range v.Nodes {
		got = append(got, n.Name)
	}
	want := []string{"h-both", "e-loses", "f-loses", "g-loses", "c-moves", "d-moves", "a", "b"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPlanDiffTakesTheTimeOfTheSlowestOperation(t *testing.T) {
	v := report.NewPlanDiff([]report.SimulatedNode{
		onNode("a", createAt(0, 2), attachAt(0, "eni-1", 2)), onNode("b", createAt(0, 2), createAt(1, 3)), onNode("c"),
	}, map[string]forecast.Rate{
		"CreateNetworkInterface": {Burst: 1, PerSecond: 0.5}, "AttachNetworkInterface": {PerSecond: 10},
	})
	want := map[string]int{"CreateNetworkInterface": 3, "AttachNetworkInterface": 1}
	if diff := cmp.Diff(want, v.Calls); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if v.Seconds != 4 || v.Slowest != "CreateNetworkInterface" {
		t.Errorf("%v seconds because of %s, want 4 because of CreateNetworkInterface", v.Seconds, v.Slowest)
	}
}

// anyPlanned draws the outcome of a plan for a node.
func anyPlanned(rt *rapid.T, name string) report.SimulatedNode {
	node := onNode(name)
	for i := range rapid.IntRange(0, 4).Draw(rt, "interfaces") {
		id := fmt.Sprintf("eni-%d", i)
		node.Outcome.Actions = append(node.Outcome.Actions, rapid.SampledFrom([][]plan.Action{
			nil,
			{createAt(i, i), attachAt(i, id, i), changeOf(i, id, withInstance)},
			{detachOf(id, "it goes"), deleteOf(id, "it goes")},
			{detachOf(id, "it moves"), attachAt(i, id, i), changeOf(i, id, withInstance)},
			{changeOf(i, id, plan.Tags{"a": "b"})},
			{attachAt(i, id, i)},
		}).Draw(rt, "actions")...)
		node.Outcome.Members = append(node.Outcome.Members, plan.Member{
			Member: dataMember(i), Phase: rapid.SampledFrom([]plan.Phase{plan.Attached, plan.Blocked}).Draw(rt, "phase"),
		})
	}
	return node
}

// Each call that a plan makes is in its sum, and each node is in the list or unchanged.
func TestPlanDiffOmitsNoCallAndNoNode(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var planned []report.SimulatedNode
		actions, blocked := 0, 0
		for i := range rapid.IntRange(0, 6).Draw(rt, "nodes") {
			planned = append(planned, anyPlanned(rt, fmt.Sprintf("node-%d", i)))
			actions += len(planned[i].Outcome.Actions)
			for _, m := range planned[i].Outcome.Members {
				if m.Phase == plan.Blocked {
					blocked++
				}
			}
		}
		shuffled := rapid.Permutation(planned).Draw(rt, "shuffled")
		v := report.NewPlanDiff(planned, nil)
		calls := 0
		for _, n := range v.Calls {
			calls += n
		}
		if calls != actions {
			rt.Fatalf("%d calls of %d: %v", calls, actions, v.Calls)
		}
		if len(v.Nodes)+v.Unchanged != len(planned) {
			rt.Fatalf("%d nodes and %d unchanged, of %d", len(v.Nodes), v.Unchanged, len(planned))
		}
		deletes, creates := v.Calls["DeleteNetworkInterface"], v.Calls["CreateNetworkInterface"]
		if v.Remove != deletes || v.Create != creates || v.Blocked != blocked {
			rt.Fatalf("%d to remove, %d to create, %d blocked of %d: %v", v.Remove, v.Create, v.Blocked, blocked, v.Calls)
		}
		page := report.Page{Width: 100}
		if diff := cmp.Diff(v.Text(page), report.NewPlanDiff(shuffled, nil).Text(page)); diff != "" {
			rt.Fatalf("(-in order +shuffled):\n%s", diff)
		}
	})
}
