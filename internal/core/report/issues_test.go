// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/report"
)

// troublesOf returns the issues of node-a1 with interfaces of NodeENI multus, as the status reports them.
func troublesOf(interfaces ...report.Interface) []report.Issue {
	for n := range interfaces {
		interfaces[n].NodeENI = "multus"
	}
	fleet := report.Fleet{Nodes: []report.Node{{Name: "node-a1", Interfaces: interfaces}}}
	return report.WhyFleet(fleet).Troubles
}

// onNodeA1 is the issue of NodeENI multus on node-a1.
func onNodeA1(reason, message string, passing bool) []report.Issue {
	return []report.Issue{{
		Reason: reason, NodeENI: "multus", Nodes: []string{"node-a1"}, Message: message, Passing: passing,
		Advice: report.Remediation(reason),
	}}
}

func TestAnInterfaceHasAnIssueByItsPhaseReasonAndDrift(t *testing.T) {
	drift := []string{"slot: 1 wanted, 2 there"}
	for name, tc := range map[string]struct {
		of   report.Interface
		want []report.Issue
	}{
		"attached as declared": {report.Interface{Phase: "Attached"}, []report.Issue{}},
		"blocked": {
			report.Interface{Phase: "Blocked", Reason: "SubnetFull", Message: "no free address"},
			onNodeA1("SubnetFull", "no free address", false),
		},
		"the controller retries": {
			report.Interface{Phase: "Creating", Reason: "Throttled", Message: "EC2 throttles"},
			onNodeA1("Throttled", "EC2 throttles", true),
		},
		"attached with a reason": {
			report.Interface{Phase: "Attached", Reason: "Contended", Message: "two pods have 10.0.0.9"},
			onNodeA1("Contended", "two pods have 10.0.0.9", true),
		},
		"EC2 is attaching an interface": {
			report.Interface{Phase: "Attaching", ENIID: "eni-1"},
			onNodeA1("InProgress", "EC2 is at work on eni-1", true),
		},
		"EC2 is creating an interface that has no ID yet": {
			report.Interface{Phase: "Creating"},
			onNodeA1("InProgress", "EC2 is at work on it", true),
		},
		"it ends with the pods that use it": {
			report.Interface{Phase: "Attached", Closed: true, Held: true},
			onNodeA1("InUseByPods", "it will be removed once no pod uses it, and no further pod can attach", true),
		},
		"no pod uses it any more": {report.Interface{Phase: "Attached", Closed: true}, []report.Issue{}},
		"drifted": {
			report.Interface{Phase: "Attached", Drift: drift},
			onNodeA1("Drifted", "differs in slot: 1 wanted, 2 there", false),
		},
		"drifted while EC2 detaches it": {
			report.Interface{Phase: "Detaching", Drift: drift},
			onNodeA1("Drifted", "differs in slot: 1 wanted, 2 there", false),
		},
		"drifted with a reason that says so": {
			report.Interface{Phase: "Attached", Drift: drift, Reason: "Replacing", Message: "eni-1 is to be replaced"},
			onNodeA1("Replacing", "eni-1 is to be replaced", true),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, troublesOf(tc.of)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The agent reports Moved for a link that a pod uses, and Bound for a device of a program in user space. Both are as
// declared.
func TestALinkIsAnIssueUnlessItIsUsable(t *testing.T) {
	for state, tc := range map[string]struct {
		link report.Link
		want []report.Issue
	}{
		"Ready": {want: []report.Issue{}},
		"Moved": {want: []report.Issue{}},
		"Bound": {report.Link{Message: "0000:00:06.0 is bound to vfio-pci"}, []report.Issue{}},
		"Missing": {
			report.Link{Reason: "LinkNotFound", Message: "no link has the MAC address"},
			onNodeA1("LinkMissing", "no link has the MAC address", true),
		},
		"Configuring": {
			report.Link{Reason: "Configuring", Message: "2 changes are left"},
			onNodeA1("LinkConfiguring", "2 changes are left", true),
		},
		"NoCarrier": {
			report.Link{Reason: "NoCarrier", Message: "ens6 is up but has no carrier"},
			onNodeA1("LinkNoCarrier", "ens6 is up but has no carrier", true),
		},
		"Binding": {report.Link{Reason: "Releasing"}, onNodeA1("LinkBinding", "Releasing", true)},
		"Refused": {
			report.Link{Reason: "Excluded", Message: "ens6 is excluded"},
			onNodeA1("LinkRefused", "ens6 is excluded", false),
		},
	} {
		t.Run(state, func(t *testing.T) {
			tc.link.State = state
			if diff := cmp.Diff(tc.want, troublesOf(report.Interface{Phase: "Attached", Link: &tc.link})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The link of an interface is reported late, so the reason of the controller comes first.
func TestTheIssueOfALinkComesAfterWhatTheControllerSays(t *testing.T) {
	link := &report.Link{State: "Refused", Message: "ens6 is excluded"}
	for name, tc := range map[string]struct {
		of   report.Interface
		want string
	}{
		"a reason":               {report.Interface{Phase: "Attached", Reason: "SubnetFull", Link: link}, "SubnetFull"},
		"drift":                  {report.Interface{Phase: "Attached", Drift: []string{"slot"}, Link: link}, "Drifted"},
		"not attached":           {report.Interface{Phase: "Detaching", Link: link}, "InProgress"},
		"nothing but the link":   {report.Interface{Phase: "Attached", Link: link}, "LinkRefused"},
		"not reported by agents": {report.Interface{Phase: "Attaching"}, "InProgress"},
	} {
		t.Run(name, func(t *testing.T) {
			got := troublesOf(tc.of)
			if len(got) != 1 || got[0].Reason != tc.want {
				t.Errorf("got %+v, want the reason %s", got, tc.want)
			}
		})
	}
}

// blockedBy is a node with one interface of a NodeENI for each reason.
func blockedBy(name, nodeENI string, reasons ...string) report.Node {
	n := report.Node{Name: name}
	for _, reason := range reasons {
		n.Interfaces = append(n.Interfaces, report.Interface{
			NodeENI: nodeENI, Phase: "Blocked", Reason: reason, Message: reason + " on " + name,
		})
	}
	return n
}

func TestIssuesAreGroupedByNodeENIAndReason(t *testing.T) {
	fleet := report.Fleet{Nodes: []report.Node{
		blockedBy("b", "multus", "SubnetFull", "SubnetFull"),
		blockedBy("c", "sig", "SubnetFull"),
		blockedBy("a", "multus", "SubnetFull", "LimitReached", "SubnetFull"),
	}}
	want := []report.Issue{
		{
			Reason: "SubnetFull", NodeENI: "multus", Nodes: []string{"a", "b"}, Message: "SubnetFull on a",
			Advice: report.Remediation("SubnetFull"),
		},
		{
			Reason: "LimitReached", NodeENI: "multus", Nodes: []string{"a"}, Message: "LimitReached on a",
			Advice: report.Remediation("LimitReached"),
		},
		{
			Reason: "SubnetFull", NodeENI: "sig", Nodes: []string{"c"}, Message: "SubnetFull on c",
			Advice: report.Remediation("SubnetFull"),
		},
	}
	if diff := cmp.Diff(want, report.WhyFleet(fleet).Troubles); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestIssuesThatNeedAUserAndConcernManyNodesComeFirst(t *testing.T) {
	for name, tc := range map[string]struct {
		nodes []report.Node
		want  []string // NodeENI and reason of each issue
	}{
		"a user before the controller, regardless of the number of nodes": {
			[]report.Node{
				blockedBy("a", "multus", "Throttled"), blockedBy("b", "multus", "Throttled"), blockedBy("c", "sig", "SubnetFull"),
			},
			[]string{"sig SubnetFull", "multus Throttled"},
		},
		"many nodes before one": {
			[]report.Node{
				blockedBy("a", "multus", "SubnetFull"), blockedBy("b", "sig", "SubnetFull"), blockedBy("c", "sig", "SubnetFull"),
			},
			[]string{"sig SubnetFull", "multus SubnetFull"},
		},
		"many nodes before one of those that pass": {
			[]report.Node{
				blockedBy("a", "multus", "Retrying"), blockedBy("b", "sig", "Retrying"), blockedBy("c", "sig", "Retrying"),
			},
			[]string{"sig Retrying", "multus Retrying"},
		},
		"as many nodes, by NodeENI before the reason": {
			[]report.Node{blockedBy("a", "sig", "AddressLimit"), blockedBy("b", "multus", "SubnetFull")},
			[]string{"multus SubnetFull", "sig AddressLimit"},
		},
		"as many nodes of one NodeENI, by reason": {
			[]report.Node{blockedBy("a", "multus", "SubnetFull", "AddressLimit")},
			[]string{"multus AddressLimit", "multus SubnetFull"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, issue := range report.WhyFleet(report.Fleet{Nodes: tc.nodes}).Troubles {
				got = append(got, issue.NodeENI+" "+issue.Reason)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The API server lists objects in any order, which must not change the output of kubectl eni.
func TestViewsDoNotDependOnTheOrderOfObjects(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := anyFleet(rt)
		shuffled := report.Fleet{
			NodeENIs: rapid.Permutation(f.NodeENIs).Draw(rt, "NodeENIs"), Nodes: rapid.Permutation(f.Nodes).Draw(rt, "nodes"),
		}
		page := report.Page{Wide: true}
		want, got := texts(f, page), texts(shuffled, page)
		delete(want, "progress")
		delete(got, "progress")
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatalf("(-in order +shuffled):\n%s", diff)
		}
	})
}

func TestWhyDoesNotSortTheFleetOfTheCaller(t *testing.T) {
	f := fleet()
	report.WhyFleet(f)
	report.WhyNodeENI(f, f.NodeENIs[0])
	report.WhyNode(f, f.Nodes[0])
	if diff := cmp.Diff(fleet(), f); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

func TestAnIssueIsPrintedWithItsNextStep(t *testing.T) {
	nodes := []string{"a", "b", "c", "d", "e", "f"}
	for name, tc := range map[string]struct {
		of   report.Issue
		wide bool
		want string
	}{
		"the next step of the message is better than general advice": {
			of: report.Issue{
				Reason: "SubnetFull", NodeENI: "multus", Nodes: nodes[:1], Message: "no address is free; free some; or else",
				Advice: "Use a larger subnet.",
			},
			want: "✗ SubnetFull — multus on a\n  no address is free\n  → free some; or else\n",
		},
		"advice, if the message has no next step": {
			of: report.Issue{
				Reason: "SubnetFull", NodeENI: "multus", Nodes: nodes[:1], Message: "no address is free",
				Advice: "Use a larger subnet.",
			},
			want: "✗ SubnetFull — multus on a\n  no address is free\n  → Use a larger subnet.\n",
		},
		"no next step is known": {
			of:   report.Issue{Reason: "Odd", NodeENI: "multus", Nodes: nodes[:2], Message: "it is odd"},
			want: "✗ Odd — multus on a, b\n  it is odd\n",
		},
		"five nodes have room": {
			of:   report.Issue{Reason: "Odd", NodeENI: "multus", Nodes: nodes[:5], Message: "odd", Passing: true},
			want: "◐ Odd — multus on a, b, c, d, e\n  odd\n",
		},
		"six nodes are counted": {
			of:   report.Issue{Reason: "Odd", NodeENI: "multus", Nodes: nodes, Message: "odd", Passing: true},
			want: "◐ Odd — multus on a, b, c, d and 2 more\n  odd\n",
		},
		"six nodes on a wide page": {
			of:   report.Issue{Reason: "Odd", NodeENI: "multus", Nodes: nodes, Message: "odd", Passing: true},
			wide: true,
			want: "◐ Odd — multus on a, b, c, d, e, f\n  odd\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			fleet := report.FleetWhy{Nodes: report.NodeCounts{Concerned: 1}, Troubles: []report.Issue{tc.of}}
			text := fleet.Text(report.Page{Wide: tc.wide})
			got := text[strings.LastIndex(text, "\n\n")+2:]
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Each trouble of a status is a paragraph of its own, in the order of the status.
func TestWhyPrintsTroublesInTheirOrder(t *testing.T) {
	why := report.WhyFleet(report.Fleet{Nodes: []report.Node{
		blockedBy("a", "multus", "Throttled", "SubnetFull"), blockedBy("b", "sig", "LimitReached"),
	}, NodeENIs: []report.NodeENI{nodeENI("multus", "False", 2, 2, 0)}})
	var got []string
	for line := range strings.Lines(why.Text(report.Page{})) {
		if strings.Contains(line, " — ") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	want := []string{"✗ SubnetFull — multus on a", "✗ LimitReached — sig on b", "◐ Throttled — multus on a"}
	if !slices.Equal(want, got) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
