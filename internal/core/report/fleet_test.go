// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/report"
)

// stateful is a node with some attached and some blocked interfaces.
func stateful(name, ready string, attached, desired int) report.Node {
	n := report.Node{Name: name, Attached: attached, Desired: desired, Ready: report.Condition{Status: ready}}
	for at := range desired {
		i := report.Interface{NodeENI: "multus", Phase: plan.Attached}
		if at >= attached {
			i.Phase, i.Reason = plan.Blocked, "SubnetFull"
		}
		n.Interfaces = append(n.Interfaces, i)
	}
	return n
}

func TestWhyFleetCountsNodes(t *testing.T) {
	absent := stateful("gone", "", 0, 1)
	absent.Absent = true
	linkless := stateful("a", "", 1, 1)
	linkless.Interfaces[0].Link = &report.Link{State: "Refused"}
	kept := stateful("a", "", 1, 1)
	kept.Interfaces[0].Reason = "AddressesKept"
	for name, tc := range map[string]struct {
		nodes   []report.Node
		want    report.NodeCounts
		summary string
	}{
		"none": {nil, report.NodeCounts{}, "0 nodes, 0 with interfaces, 0 of these ready."},
		"one without interfaces, although its condition is true": {
			[]report.Node{{Name: "a", Ready: report.Condition{Status: "True"}}},
			report.NodeCounts{All: 1}, "1 node, 0 with interfaces, 0 of these ready.",
		},
		"all ready": {
			[]report.Node{stateful("a", "True", 2, 2), stateful("b", "True", 1, 1)},
			report.NodeCounts{All: 2, Concerned: 2, Ready: 2}, "2 nodes, 2 with interfaces, 2 of these ready.",
		},
		"one waits": {
			[]report.Node{stateful("a", "True", 2, 2), stateful("b", "False", 1, 3), stateful("c", "Unknown", 0, 1)},
			report.NodeCounts{All: 3, Concerned: 3, Ready: 1},
			"3 nodes, 3 with interfaces, 1 of these ready. 3 of 6 interfaces not attached.",
		},
		"the condition of the node is false": {
			[]report.Node{stateful("a", "False", 1, 1)}, report.NodeCounts{All: 1, Concerned: 1},
			"1 node, 1 with interfaces, 0 of these ready.",
		},
		"a link is not usable": {
			[]report.Node{linkless}, report.NodeCounts{All: 1, Concerned: 1}, "1 node, 1 with interfaces, 0 of these ready.",
		},
		"an interface works in spite of its reason": {
			[]report.Node{kept}, report.NodeCounts{All: 1, Concerned: 1, Ready: 1}, "1 node, 1 with interfaces, 1 of these ready.",
		},
		"interfaces without a Node": {
			[]report.Node{absent}, report.NodeCounts{Concerned: 1},
			"0 nodes, 1 with interfaces, 0 of these ready. 1 of 1 interface not attached.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := report.Fleet{NodeENIs: []report.NodeENI{nodeENI("multus", "True", 1, 1, 1)}, Nodes: tc.nodes}
			why := report.WhyFleet(f)
			if diff := cmp.Diff(tc.want, why.Nodes); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			first, _, _ := strings.Cut(why.Text(report.Page{}), "\n")
			if _, got, _ := strings.Cut(first, " "); got != tc.summary {
				t.Errorf("got  %q\nwant %q", got, tc.summary)
			}
		})
	}
}

func TestWhyFleetSaysHowToDeclareTheFirstNodeENI(t *testing.T) {
	absent := stateful("a", "", 1, 1)
	absent.Absent = true
	for name, tc := range map[string]struct {
		nodeENIs []report.NodeENI
		nodes    []report.Node
		declare  bool
	}{
		"no node":                  {nil, nil, true},
		"nodes without interfaces": {nil, []report.Node{{Name: "a"}, {Name: "b"}}, true},
		"a NodeENI without a node": {[]report.NodeENI{{Name: "multus"}}, nil, false},
		"a node with interfaces":   {nil, []report.Node{stateful("a", "True", 1, 1)}, false},
		"interfaces without Node":  {nil, []report.Node{absent}, false},
	} {
		t.Run(name, func(t *testing.T) {
			text := report.WhyFleet(report.Fleet{NodeENIs: tc.nodeENIs, Nodes: tc.nodes}).Text(report.Page{})
			none := fmt.Sprintf("No NodeENI is declared, and none of %d nodes has interfaces of one.", len(tc.nodes))
			if declare := strings.HasPrefix(text, none) && strings.Contains(text, "Declare one: "); declare != tc.declare {
				t.Errorf("advice to declare one is to be printed: %t\n%s", tc.declare, text)
			}
		})
	}
}

// A NodeENI that is not as declared for a reason that no interface has is explained by itself.
func TestWhyFleetExplainsEachNodeENIOnce(t *testing.T) {
	paused, blocked, well := nodeENI("a", "True", 1, 1, 1), nodeENI("b", "False", 1, 1, 0), nodeENI("c", "True", 1, 1, 1)
	paused.Paused = true
	unreadable := nodeENI("d", "False", 0, 0, 0)
	unreadable.Ready = outage
	node := stateful("node-a1", "", 0, 1)
	node.Interfaces[0].NodeENI = "b"
	f := report.Fleet{NodeENIs: []report.NodeENI{paused, blocked, well, unreadable}, Nodes: []report.Node{node}}
	why := report.WhyFleet(f)
	if len(why.NodeENIs) != 1 || why.NodeENIs[0].Name != "a" || len(why.Troubles) != 1 || len(why.Outages) != 1 {
		t.Errorf("%+v", why)
	}
}

func TestWhyFleetHasASign(t *testing.T) {
	blocked, busy := stateful("a", "", 0, 1), stateful("b", "", 0, 1)
	busy.Interfaces[0].Reason = "Throttled"
	paused := nodeENI("multus", "True", 1, 1, 1)
	paused.Paused = true
	waiting := []report.WaitingPods{{Network: "n3", NodeENI: "n3", Pods: []string{"a/b"}}}
	for name, tc := range map[string]struct {
		of   report.Fleet
		want string
	}{
		"all is as declared": {report.Fleet{Nodes: []report.Node{stateful("a", "", 1, 1)}}, "●"},
		"it goes on":         {report.Fleet{Nodes: []report.Node{busy}}, "◐"},
		"a user has to act":  {report.Fleet{Nodes: []report.Node{busy, blocked}}, "✗"},
		"a NodeENI is paused": {
			report.Fleet{NodeENIs: []report.NodeENI{paused}, Nodes: []report.Node{stateful("a", "", 1, 1)}}, "◐",
		},
		"pods wait": {report.Fleet{Nodes: []report.Node{stateful("a", "", 1, 1)}, WaitingPods: waiting}, "✗"},
	} {
		t.Run(name, func(t *testing.T) {
			if text := report.WhyFleet(tc.of).Text(report.Page{}); !strings.HasPrefix(text, tc.want+" ") {
				t.Errorf("want the sign %s:\n%s", tc.want, text)
			}
		})
	}
}

func TestWhyFleetTellsWhyTheControllerChangesNothing(t *testing.T) {
	silent, well, other := nodeENI("a", "False", 0, 0, 0), nodeENI("b", "True", 1, 1, 1), nodeENI("c", "False", 0, 0, 0)
	silent.Ready, other.Ready = outage, outage
	got := report.WhyFleet(report.Fleet{NodeENIs: []report.NodeENI{silent, well, other}}).Text(report.Page{})
	want := "\n✗ Unreadable — a, c\n  EC2 does not answer\n  → " + report.Remediation("Unreadable") + "\n"
	if !strings.Contains(strings.Join(strings.Fields(got), " "), strings.Join(strings.Fields(want), " ")) {
		t.Errorf("the text is\n%s\nand should contain\n%s", got, want)
	}
	well.Ready.Reason = "Unreadable"
	if why := report.WhyFleet(report.Fleet{NodeENIs: []report.NodeENI{well}}); len(why.Outages) > 0 {
		t.Errorf("a NodeENI that is ready has the outages %v", why.Outages)
	}
}

func TestWhyInterface(t *testing.T) {
	f := fleet()
	with := func(change func(*report.Interface)) report.Interface {
		i := attached("multus-eni-config", 2)
		i.Node, i.Link = "node-a2", nil
		change(&i)
		return i
	}
	for name, tc := range map[string]struct {
		of   report.Interface
		want []string
		fine bool
	}{
		"as declared": {with(func(*report.Interface) {}), []string{"It is as declared"}, true},
		"works in spite of its reason": {
			with(func(i *report.Interface) { i.Reason = "AddressesKept" }), []string{"It is as declared"}, true,
		},
		"drifted": {with(func(i *report.Interface) { i.Drift = []string{"slot"} }), []string{"not as declared"}, false},
		"unattached": {
			with(func(i *report.Interface) { i.Phase = plan.Attaching }), []string{"is not attached to node node-a2"}, false,
		},
		"without an ENI": {
			with(func(i *report.Interface) { i.Phase, i.ENIID = plan.Creating, "" }), []string{"It has no ENI yet"}, false,
		},
		"closed": {
			with(func(i *report.Interface) { i.Closed, i.Pods = true, []string{"upf/upf-0"} }),
			[]string{"It is closed", "upf/upf-0"}, true,
		},
		"to be removed, in use": {
			with(func(i *report.Interface) { i.Deleting, i.Held, i.Phase = true, true, plan.Detaching }),
			[]string{"stays attached until nothing on node node-a2 uses it", "kubectl eni release multus-eni-config-2"}, false,
		},
		"to be removed, taken over": {
			with(func(i *report.Interface) {
				i.Deleting, i.Held, i.Unanswered, i.Phase = true, true, true, plan.Detaching
			}),
			[]string{"no agent has answered for", "the agent of node node-a2"}, false,
		},
		"to be removed, and its node is gone": {
			with(func(i *report.Interface) { i.Deleting, i.Held, i.Node = true, true, "node-z" }),
			[]string{"There is no Node node-z any more", "kubectl eni release"}, false,
		},
		"being removed": {
			with(func(i *report.Interface) { i.Deleting, i.Phase = true, plan.Detaching }),
			[]string{"nothing uses it any more"}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			why := report.WhyInterface(f, tc.of)
			text := why.Text(report.Page{})
			for _, want := range tc.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
			if why.Fine != tc.fine {
				t.Errorf("fine is %t:\n%s", why.Fine, text)
			}
		})
	}
}
