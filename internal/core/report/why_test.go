// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/report"
)

// isItRunning is the next step if no controller has done anything.
const isItRunning = "Is it running? kubectl get pods -n eni-controller-system, and kubectl logs -n " +
	"eni-controller-system deployment/eni-controller."

// outage is a condition that no issue of an interface explains.
var outage = report.Condition{Type: "Ready", Status: "False", Reason: "Unreadable", Message: "EC2 does not answer"}

// verdict is an explanation of NodeENI multus without issues.
func verdict(text string, notes ...string) report.Why {
	return report.Why{Kind: "NodeENI", Name: "multus", Verdict: text, Notes: notes}
}

func TestWhyNodeENIExplainsTheFirstCauseThatApplies(t *testing.T) {
	const (
		unpause     = "Remove the annotation networking.k8s.aws/paused when changes may go on."
		deleting    = "It is being deleted, and goes when EC2 confirms that none of its interfaces is left."
		notObserved = "It is to be deleted, and no controller has taken note of that: its finalizer waits for one."
		paused      = "It is paused: nothing is made, changed or removed for it."
	)
	fine := func(text string) report.Why { w := verdict(text); w.Fine = true; return w }
	for name, tc := range map[string]struct {
		change func(*report.NodeENI)
		want   report.Why
	}{
		"no controller": {
			func(n *report.NodeENI) { n.Accepted = false }, verdict("No controller has taken it up.", isItRunning),
		},
		"the controller cannot read EC2": {
			func(n *report.NodeENI) { n.Accepted, n.Ready = false, outage },
			verdict("The controller runs, and can change nothing for it.", "Unreadable: EC2 does not answer",
				report.Remediation("Unreadable")),
		},
		"the controller has another cluster name, and no interface is known": {
			func(n *report.NodeENI) {
				n.Nodes, n.Desired, n.Attached = 0, 0, 0
				n.Ready = report.Condition{Status: "False", Reason: "OtherClusterName", Message: "this cluster has the name \"a\""}
			},
			verdict("The controller runs, and can change nothing for it.", "OtherClusterName: this cluster has the name \"a\"",
				report.Remediation("OtherClusterName")),
		},
		"the controller may not read EC2, and took the NodeENI up before a node had its labels": {
			func(n *report.NodeENI) {
				n.Nodes, n.Desired, n.Attached = 0, 0, 0
				n.Ready = report.Condition{Status: "False", Reason: "Unauthorized", Message: "EC2 refuses ec2:DescribeInstances"}
			},
			verdict("The controller runs, and can change nothing for it.", "Unauthorized: EC2 refuses ec2:DescribeInstances",
				report.Remediation("Unauthorized")),
		},
		"no controller, and paused": {
			func(n *report.NodeENI) { n.Accepted, n.Paused = false, true },
			verdict("No controller has taken it up.", isItRunning),
		},
		"deleted before a controller took it up": {
			func(n *report.NodeENI) { n.Accepted, n.Deleting, n.NotObserved = false, true, true },
			verdict(notObserved, isItRunning),
		},
		"deleted while no controller runs": {
			func(n *report.NodeENI) { n.Deleting, n.NotObserved, n.Paused = true, true, true }, verdict(notObserved, isItRunning),
		},
		"being deleted":        {func(n *report.NodeENI) { n.Deleting = true }, verdict(deleting)},
		"deleted, last report": {func(n *report.NodeENI) { n.Deleting, n.Accepted = true, false }, verdict(deleting)},
		"being deleted, and an interface is in use": {
			func(n *report.NodeENI) {
				n.Deleting = true
				n.Ready = report.Condition{Status: "False", Reason: "InUseByPods", Message: "eni-1 is in use"}
			},
			verdict(deleting, "InUseByPods: eni-1 is in use", report.Remediation("InUseByPods")),
		},
		"being deleted, and paused": {
			func(n *report.NodeENI) { n.Deleting, n.Paused = true, true },
			verdict(deleting, "It is paused as well, so that nothing is removed. "+unpause),
		},
		"paused": {func(n *report.NodeENI) { n.Paused = true }, verdict(paused, unpause)},
		"paused without a node": {
			func(n *report.NodeENI) { n.Paused, n.Nodes, n.Desired = true, 0, 0 }, verdict(paused, unpause),
		},
		"no node": {
			func(n *report.NodeENI) { n.Nodes, n.Desired = 0, 0 },
			verdict("No node carries the labels ng=multi-eni, so nothing is wanted."),
		},
		"no node any more, and interfaces are left": {
			func(n *report.NodeENI) { n.Nodes, n.Desired, n.Attached, n.Ready = 0, 1, 1, outage },
			verdict("1 of 1 interface attached, 0 blocked.", "Unreadable: EC2 does not answer",
				report.Remediation("Unreadable")),
		},
		"a node that wants nothing": {
			func(n *report.NodeENI) { n.Nodes, n.Desired, n.Attached = 1, 0, 0 },
			fine("All is as declared: 0 interfaces on 1 node attached."),
		},
		"all is as declared": {
			func(*report.NodeENI) {}, fine("All is as declared: 4 interfaces on 2 nodes attached."),
		},
		"not ready, and nothing says why": {
			func(n *report.NodeENI) { n.Ready.Status, n.Attached, n.Blocked = "False", 1, 2 },
			verdict("1 of 4 interfaces attached, 2 blocked."),
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := nodeENI("multus", "True", 2, 4, 4)
			tc.change(&n)
			if diff := cmp.Diff(tc.want, report.WhyNodeENI(report.Fleet{}, n)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A NodeENI is not fine as long as an interface has an issue, even if its conditions are outdated.
func TestWhyNodeENIHasTheIssuesOfItsOwnInterfaces(t *testing.T) {
	f := report.Fleet{Nodes: []report.Node{
		blockedBy("b", "multus", "SubnetFull"), blockedBy("a", "sig", "SubnetFull"), blockedBy("a2", "multus", "SubnetFull"),
	}}
	want := verdict("4 of 4 interfaces attached, 0 blocked.")
	want.Troubles = []report.Issue{{
		Reason: "SubnetFull", NodeENI: "multus", Nodes: []string{"a2", "b"}, Message: "SubnetFull on a2",
		Advice: report.Remediation("SubnetFull"),
	}}
	if diff := cmp.Diff(want, report.WhyNodeENI(f, nodeENI("multus", "True", 2, 4, 4))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhyNodeENISaysEachCauseOnce(t *testing.T) {
	trouble := blockedBy("a", "multus", "SubnetFull")
	silent := report.Node{Name: "a", Interfaces: []report.Interface{
		{NodeENI: "multus", Phase: "Attached", Link: &report.Link{State: "Missing"}},
	}}
	said := report.Condition{Status: "False", Reason: "Blocked", Message: "1 of 2: SubnetFull on a"}
	other := report.Condition{Status: "False", Reason: "Paused", Message: "nothing is changed"}
	of := func(kind string, c report.Condition) report.Condition { c.Type = kind; return c }
	for name, tc := range map[string]struct {
		node       report.Node
		ready      report.Condition
		conditions []report.Condition
		want       []string
	}{
		"Ready says what the issue says": {node: trouble, ready: said},
		"Ready says something else, and the issue has the advice": {
			node: trouble, ready: other, want: []string{"Paused: nothing is changed"},
		},
		"Ready alone has advice": {
			ready: other, want: []string{"Paused: nothing is changed", report.Remediation("Paused")},
		},
		"Ready alone, and no advice is known": {
			ready: report.Condition{Status: "False", Reason: "StateRefused", Message: "it is refused"},
			want:  []string{"StateRefused: it is refused"},
		},
		"Ready is unknown": {
			ready: report.Condition{Status: "Unknown", Reason: "StateRefused", Message: "it is refused"},
			want:  []string{"StateRefused: it is refused"},
		},
		"Ready is true, so its message explains nothing": {
			node: trouble, ready: report.Condition{Status: "True", Reason: "Attached", Message: "2 interfaces"},
		},
		"Ready has no message": {ready: report.Condition{Status: "False", Reason: "Paused"}},
		"another condition is false": {
			ready: said, node: trouble, conditions: []report.Condition{of("SubnetsResolved", outage)},
			want: []string{"SubnetsResolved: Unreadable: EC2 does not answer"},
		},
		"another condition says what the issue says": {
			ready: said, node: trouble, conditions: []report.Condition{of("Programmed", said)},
		},
		"other conditions are not false": {
			conditions: []report.Condition{
				{Type: "Stalled", Status: "True", Message: "x"}, {Type: "SubnetsResolved", Status: "Unknown", Message: "y"},
			},
		},
		"Ready is one of the conditions": {
			ready: outage, conditions: []report.Condition{outage},
			want: []string{"Unreadable: EC2 does not answer", report.Remediation("Unreadable")},
		},
		"an issue without a message explains no condition": {
			node: silent, ready: outage, conditions: []report.Condition{of("SubnetsResolved", outage)},
			want: []string{"SubnetsResolved: Unreadable: EC2 does not answer", "Unreadable: EC2 does not answer"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := nodeENI("multus", "", 2, 2, 0)
			n.Ready, n.Conditions = tc.ready, tc.conditions
			got := report.WhyNodeENI(report.Fleet{Nodes: []report.Node{tc.node}}, n)
			if diff := cmp.Diff(tc.want, got.Notes); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// labelled is a node with labels, given as pairs of key and value.
func labelled(name string, labels ...string) report.Node {
	n := report.Node{Name: name, Labels: map[string]string{}}
	for i := 0; i < len(labels); i += 2 {
		n.Labels[labels[i]] = labels[i+1]
	}
	return n
}

func TestWhyNodeENINamesTheNodesThatLackTheFewestLabels(t *testing.T) {
	absent := labelled("absent", "ng", "other", "zone", "a")
	absent.Absent = true
	one, two := map[string]string{"ng": "data"}, map[string]string{"ng": "data", "zone": "a"}
	three := map[string]string{"ng": "data", "zone": "a", "arch": "arm64"}
	const command = "To give a node the interfaces: kubectl label node NODE "
	for name, tc := range map[string]struct {
		selector map[string]string
		nodes    []report.Node
		want     []string
	}{
		"no node exists": {one, nil, nil},
		"nodes without the only label": {
			one, []report.Node{labelled("b"), labelled("a", "zone", "a")},
			[]string{"a, b: no label ng.", command + "ng=data"},
		},
		"another value, and no value": {
			one, []report.Node{labelled("b"), labelled("c", "ng", "sig"), labelled("a", "ng", "")},
			[]string{
				`a: label ng is "" and not "data".`, `c: label ng is "sig" and not "data".`, "b: no label ng.", command + "ng=data",
			},
		},
		"a node that has none of two labels is far away": {
			two, []report.Node{labelled("a"), labelled("b", "ng", "sig")}, []string{command + "ng=data zone=a"},
		},
		"a node with one of two labels": {
			two, []report.Node{labelled("a", "zone", "a"), labelled("b")},
			[]string{"a: no label ng.", command + "ng=data zone=a"},
		},
		"only the nearest, in either order": {
			three, []report.Node{
				labelled("far", "ng", "data"), labelled("near", "ng", "data", "zone", "a"), labelled("far2", "zone", "a"),
			},
			[]string{"near: no label arch.", command + "arch=arm64 ng=data zone=a"},
		},
		"two labels are missing": {
			three, []report.Node{labelled("a", "ng", "data", "arch", "amd64")},
			[]string{`a: label arch is "amd64" and not "arm64" and no label zone.`, command + "arch=arm64 ng=data zone=a"},
		},
		"a node that matches is not near": {
			one, []report.Node{labelled("a", "ng", "data")}, []string{command + "ng=data"},
		},
		"a node that does not exist any more": {one, []report.Node{absent}, []string{command + "ng=data"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := nodeENI("multus", "True", 0, 0, 0)
			n.Selector = tc.selector
			got := report.WhyNodeENI(report.Fleet{Nodes: tc.nodes}, n)
			if diff := cmp.Diff(tc.want, got.Notes); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhyNodeENICountsManyNodesThatLackALabel(t *testing.T) {
	n := nodeENI("multus", "True", 0, 0, 0)
	n.Selector = map[string]string{"ng": "data"}
	var alike, different []report.Node
	for i := range 6 {
		alike = append(alike, labelled(fmt.Sprintf("node-%d", 5-i)))
		different = append(different, labelled(fmt.Sprintf("node-%d", i), "ng", fmt.Sprintf("group-%d", 5-i)))
	}
	for name, tc := range map[string]struct {
		nodes []report.Node
		want  []string
	}{
		"six alike, four of them by name": {
			alike, []string{"node-0, node-1, node-2, node-3 and 2 more: no label ng."},
		},
		"six differences, four of them in words": {
			different,
			[]string{
				`node-5: label ng is "group-0" and not "data".`, `node-4: label ng is "group-1" and not "data".`,
				`node-3: label ng is "group-2" and not "data".`, `node-2: label ng is "group-3" and not "data".`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := append(tc.want, "To give a node the interfaces: kubectl label node NODE ng=data")
			if diff := cmp.Diff(want, report.WhyNodeENI(report.Fleet{Nodes: tc.nodes}, n).Notes); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhyPrintsTheSignOfTheWorstIssue(t *testing.T) {
	passing, lasting := report.Issue{Reason: "Throttled", Passing: true}, report.Issue{Reason: "SubnetFull"}
	for name, tc := range map[string]struct {
		of   report.Why
		want string
	}{
		"fine":                  {report.Why{Fine: true}, "●"},
		"no issue, and no fine": {report.Why{}, "·"},
		"what passes":           {report.Why{Troubles: []report.Issue{passing, passing}}, "◐"},
		"what needs a user":     {report.Why{Troubles: []report.Issue{lasting}}, "✗"},
		"both":                  {report.Why{Troubles: []report.Issue{passing, lasting}}, "✗"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.of.Kind, tc.of.Name, tc.of.Verdict, tc.of.Notes = "Node", "a", "It is so.", []string{"One.", "Two."}
			want := "Node a\n" + tc.want + " It is so.\n  One.\n  Two.\n"
			got := tc.of.Text(report.Page{})
			if len(got) < len(want) || got[:len(want)] != want {
				t.Errorf("got:\n%s\nwant it to begin with:\n%s", got, want)
			}
		})
	}
}
