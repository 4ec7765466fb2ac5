// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/report"
)

// stateful is a node with a state, and so many of its interfaces attached.
func stateful(name, ready string, attached, desired int) report.Node {
	return report.Node{
		Name: name, Concerned: true, Attached: attached, Desired: desired, Ready: report.Condition{Status: ready},
	}
}

func TestStatusCountsNodes(t *testing.T) {
	absent := stateful("gone", "False", 0, 1)
	absent.Absent = true
	for name, tc := range map[string]struct {
		nodes   []report.Node
		want    report.NodeCounts
		summary string
	}{
		"none": {
			nil, report.NodeCounts{}, "0 nodes, 0 with interfaces declared, 0 of these ready.",
		},
		"one without interfaces, although its condition is true": {
			[]report.Node{{Name: "a", Ready: report.Condition{Status: "True"}, Desired: 2}},
			report.NodeCounts{All: 1}, "1 node, 0 with interfaces declared, 0 of these ready.",
		},
		"all ready": {
			[]report.Node{stateful("a", "True", 2, 2), stateful("b", "True", 1, 1)},
			report.NodeCounts{All: 2, Concerned: 2, Ready: 2}, "2 nodes, 2 with interfaces declared, 2 of these ready.",
		},
		"one waits": {
			[]report.Node{stateful("a", "True", 2, 2), stateful("b", "False", 1, 3), stateful("c", "Unknown", 0, 1)},
			report.NodeCounts{All: 3, Concerned: 3, Ready: 1},
			"3 nodes, 3 with interfaces declared, 1 of these ready. 3 of 6 interfaces not attached.",
		},
		"the only one waits": {
			[]report.Node{stateful("a", "", 0, 1)}, report.NodeCounts{All: 1, Concerned: 1},
			"1 node, 1 with interfaces declared, 0 of these ready. 1 of 1 interface not attached.",
		},
		"a state without a Node": {
			[]report.Node{absent}, report.NodeCounts{Concerned: 1},
			"0 nodes, 1 with interfaces declared, 0 of these ready. 1 of 1 interface not attached.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := report.Fleet{NodeENIs: []report.NodeENI{nodeENI("multus", "True", 0, 0, 0)}, Nodes: tc.nodes}
			s := report.NewStatus(f, now)
			if diff := cmp.Diff(tc.want, s.Nodes); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if lines := strings.Split(s.Text(report.Page{}), "\n"); lines[3] != tc.summary {
				t.Errorf("got  %q\nwant %q", lines[3], tc.summary)
			}
		})
	}
}

// A fleet is empty only if neither a NodeENI nor the state of a node exists: states stay until EC2 confirms that the
// interfaces of a deleted NodeENI are gone.
func TestStatusSaysHowToDeclareTheFirstNodeENI(t *testing.T) {
	const none = "No NodeENI is declared, and none of "
	stateful := stateful("a", "True", 0, 0)
	absent := report.Node{Name: "a", Absent: true, Concerned: true}
	for name, tc := range map[string]struct {
		nodeENIs []report.NodeENI
		nodes    []report.Node
		want     string // the first line
		declare  bool
	}{
		"no node": {nil, nil, none + "0 nodes has interfaces of one.", true},
		"nodes without a state": {
			nil, []report.Node{{Name: "a"}, {Name: "b"}}, none + "2 nodes has interfaces of one.", true,
		},
		"a NodeENI without a node": {
			[]report.NodeENI{{Name: "multus"}}, nil,
			"NODEENI   READY       NODES   ATTACHED   BLOCKED   DRIFTED   REASON", false,
		},
		"the state of a node": {
			nil, []report.Node{stateful}, "1 node, 1 with interfaces declared, 1 of these ready.", false,
		},
		"the state of a node that does not exist any more": {
			nil, []report.Node{absent}, "0 nodes, 1 with interfaces declared, 0 of these ready.", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := report.NewStatus(report.Fleet{NodeENIs: tc.nodeENIs, Nodes: tc.nodes}, now).Text(report.Page{})
			first, _, _ := strings.Cut(text, "\n")
			if diff := cmp.Diff(tc.want, first); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if strings.Contains(text, "Declare one: kubectl apply -f examples/single-subnet.yaml") != tc.declare {
				t.Errorf("advice to declare one is to be printed: %t\n%s", tc.declare, text)
			}
		})
	}
}

// The sign of READY shows whether a user has to act: a condition can be false only for a while.
func TestStatusSignsAConditionByWhetherItPasses(t *testing.T) {
	for name, tc := range map[string]struct {
		ready report.Condition
		want  string
	}{
		"true":                         {report.Condition{Status: "True", Reason: "Attached"}, "● True"},
		"true, regardless of a reason": {report.Condition{Status: "True", Reason: "Throttled"}, "● True"},
		"none yet":                     {report.Condition{}, "◐ Unknown"},
		"unknown":                      {report.Condition{Status: "Unknown", Reason: "SubnetFull"}, "◐ Unknown"},
		"false until a user acts":      {report.Condition{Status: "False", Reason: "SubnetFull"}, "✗ False"},
		"false, and the rollout waits": {report.Condition{Status: "False", Reason: "Replacing"}, "◐ False"},
		"false while EC2 attaches":     {report.Condition{Status: "False", Reason: "Progressing"}, "◐ False"},
		"false during a deletion":      {report.Condition{Status: "False", Reason: "Deleting"}, "◐ False"},
		"false for a link that comes":  {report.Condition{Status: "False", Reason: "LinkMissing"}, "◐ False"},
		"false for a refused link":     {report.Condition{Status: "False", Reason: "LinkRefused"}, "✗ False"},
	} {
		t.Run(name, func(t *testing.T) {
			n, node := nodeENI("multus", "", 1, 1, 1), stateful("node-a1", "", 1, 1)
			n.Ready, node.Ready = tc.ready, tc.ready
			f := report.Fleet{NodeENIs: []report.NodeENI{n}, Nodes: []report.Node{node}}
			lines := strings.Split(report.NewStatus(f, now).Text(report.Page{Wide: true}), "\n")
			for _, row := range []string{lines[1], lines[6]} { // of the NodeENI and of the node
				if !strings.Contains(row, "   "+tc.want+"  ") {
					t.Errorf("got %q, want %q in it", row, tc.want)
				}
			}
		})
	}
}

func TestStatusPrintsTheColumnsOfANodeENI(t *testing.T) {
	n := report.NodeENI{
		Name: "multus", Created: now.Add(-26 * time.Hour), Accepted: true,
		Ready: report.Condition{Status: "False", Reason: "Blocked"},
		Nodes: 11, Desired: 13, Attached: 7, Blocked: 5, Drifted: 3,
	}
	for width, want := range map[int]string{
		0: "NODEENI   READY     NODES   ATTACHED   BLOCKED   DRIFTED   AGE   REASON\n" +
			"multus    ✗ False      11       7/13         5         3   26h   Blocked\n",
		// A narrow page loses the age first, then the drifted and all nodes, and keeps what is attached.
		70: "NODEENI   READY     NODES   ATTACHED   BLOCKED   DRIFTED   REASON\n" +
			"multus    ✗ False      11       7/13         5         3   Blocked\n",
		60: "NODEENI   READY     NODES   ATTACHED   BLOCKED   REASON\n" +
			"multus    ✗ False      11       7/13         5   Blocked\n",
		50: "NODEENI   READY     ATTACHED   BLOCKED   REASON\n" +
			"multus    ✗ False       7/13         5   Blocked\n",
		40: "NODEENI   READY     ATTACHED   BLOCKED\n" +
			"multus    ✗ False       7/13         5\n",
		30: "NODEENI   READY     ATTACHED\n" +
			"multus    ✗ False       7/13\n",
	} {
		t.Run(fmt.Sprintf("%d columns", width), func(t *testing.T) {
			text := report.NewStatus(report.Fleet{NodeENIs: []report.NodeENI{n}}, now).Text(report.Page{Width: width})
			table, _, _ := strings.Cut(text, "\n\n")
			if diff := cmp.Diff(want, table+"\n"); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The table of nodes is for a wide page only. It omits nodes without a state.
func TestStatusPrintsTheColumnsOfANode(t *testing.T) {
	n := stateful("node-a1", "False", 7, 13)
	n.InstanceID, n.Type, n.Zone, n.Ready.Reason = "i-1", "m5.large", "us-east-1a", "Blocked"
	f := report.Fleet{
		NodeENIs: []report.NodeENI{nodeENI("multus", "True", 0, 0, 0)}, Nodes: []report.Node{{Name: "node-c1"}, n},
	}
	const all = "NODE      READY     ATTACHED   INSTANCE   TYPE       ZONE         REASON\n" +
		"node-a1   ✗ False       7/13   i-1        m5.large   us-east-1a   Blocked"
	for name, tc := range map[string]struct {
		page report.Page
		want string
	}{
		"wide": {report.Page{Wide: true}, all},
		"wide, without room for the zone": {
			report.Page{Wide: true, Width: 65},
			"NODE      READY     ATTACHED   INSTANCE   TYPE       REASON\n" +
				"node-a1   ✗ False       7/13   i-1        m5.large   Blocked",
		},
		"wide, without room for the type": {
			report.Page{Wide: true, Width: 50},
			"NODE      READY     ATTACHED   INSTANCE   REASON\n" + "node-a1   ✗ False       7/13   i-1        Blocked",
		},
		"wide, without room for the instance": {
			report.Page{Wide: true, Width: 40},
			"NODE      READY     ATTACHED   REASON\n" + "node-a1   ✗ False       7/13   Blocked",
		},
		"not wide": {report.Page{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := report.NewStatus(f, now).Text(tc.page)
			table := ""
			if at := strings.Index(text, "NODE  "); at >= 0 {
				table = strings.TrimRight(text[at:], "\n")
			}
			if diff := cmp.Diff(tc.want, table); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Zero is faint if more is bad, and plain like other numbers elsewhere.
func TestStatusPaintsCountsOfWhatIsBad(t *testing.T) {
	none, some := nodeENI("none", "True", 0, 0, 0), nodeENI("some", "True", 0, 3, 1)
	some.Drifted = 4
	text := report.NewStatus(report.Fleet{NodeENIs: []report.NodeENI{some, none}}, now).Text(report.Page{Colours: true})
	lines := strings.Split(text, "\n")
	want := []string{
		"none | \x1b[32m● True\x1b[0m | 0 | 0/0 | \x1b[2m0\x1b[0m | \x1b[2m0\x1b[0m | \x1b[2m1h\x1b[0m | Attached",
		"some | \x1b[32m● True\x1b[0m | 0 | 1/3 | \x1b[31m2\x1b[0m | \x1b[31m4\x1b[0m | \x1b[2m1h\x1b[0m | Attached",
	}
	gaps := regexp.MustCompile(` {2,}`)
	got := []string{gaps.ReplaceAllString(lines[1], " | "), gaps.ReplaceAllString(lines[2], " | ")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A wide page has no table of nodes if no node has a state.
func TestStatusPrintsNoEmptyTableOfNodes(t *testing.T) {
	f := report.Fleet{NodeENIs: []report.NodeENI{nodeENI("multus", "True", 0, 0, 0)}, Nodes: []report.Node{{Name: "a"}}}
	narrow, wide := report.NewStatus(f, now).Text(report.Page{}), report.NewStatus(f, now).Text(report.Page{Wide: true})
	if diff := cmp.Diff(narrow, wide); diff != "" {
		t.Errorf("(-narrow +wide):\n%s", diff)
	}
}

// Programs read the fields by these names.
func TestStatusHasTheseFieldsInJSON(t *testing.T) {
	n := report.NodeENI{
		Name: "multus", Created: now, Selector: map[string]string{"ng": "data"}, Generation: 3, Accepted: true,
		Deleting: true, NotObserved: true, Paused: true,
		Ready:      report.Condition{Type: "Ready", Status: "False", Reason: "Blocked", Message: "no"},
		Conditions: []report.Condition{{Type: "Stalled", Status: "True"}}, Nodes: 1, Desired: 2, Attached: 3, Blocked: 4,
		Drifted: 5, Subnets: []string{"subnet-1"},
	}
	const want = `{
  "nodeENIs": [
    {
      "name": "multus",
      "created": "2026-01-02T03:04:05Z",
      "nodeSelector": {
        "ng": "data"
      },
      "accepted": true,
      "deleting": true,
      "notObserved": true,
      "paused": true,
      "ready": {
        "type": "Ready",
        "status": "False",
        "reason": "Blocked",
        "message": "no"
      },
      "conditions": [
        {
          "type": "Stalled",
          "status": "True"
        }
      ],
      "nodes": 1,
      "desired": 2,
      "attached": 3,
      "blocked": 4,
      "drifted": 5,
      "subnets": [
        "subnet-1"
      ]
    }
  ],
  "nodes": {
    "all": 2,
    "concerned": 1,
    "ready": 1
  },
  "troubles": []
}`
	f := report.Fleet{NodeENIs: []report.NodeENI{n}, Nodes: []report.Node{stateful("a", "True", 1, 1), {Name: "b"}}}
	if diff := cmp.Diff(want, indented(t, report.NewStatus(f, now))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func ExampleNewStatus() {
	fleet := report.Fleet{
		NodeENIs: []report.NodeENI{{
			Name: "data", Created: now.Add(-10 * time.Minute), Accepted: true, Nodes: 1, Desired: 2, Attached: 1, Blocked: 1,
			Ready: report.Condition{Status: "False", Reason: "Blocked"},
		}},
		Nodes: []report.Node{{
			Name: "node-a1", Concerned: true, Desired: 2, Attached: 1,
			Interfaces: []report.Interface{
				{NodeENI: "data", Phase: "Attached"},
				{NodeENI: "data", Phase: "Blocked", Reason: "SlotTaken", Message: "eni-1 is at device index 2; move it"},
			},
		}},
	}
	fmt.Print(report.NewStatus(fleet, now).Text(report.Page{Width: 80}))
	// Output:
	// NODEENI   READY     NODES   ATTACHED   BLOCKED   DRIFTED   AGE   REASON
	// data      ✗ False       1        1/2         1         0   10m   Blocked
	//
	// 1 node, 1 with interfaces declared, 0 of these ready. 1 of 2 interfaces not
	// attached.
	//
	// ✗ SlotTaken — data on node-a1
	//   eni-1 is at device index 2
	//   → move it
}
