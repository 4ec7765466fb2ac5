// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/report"
)

// selected is a ready node with an interface of each of two NodeENIs.
func selected() report.Node {
	return report.Node{
		Name: "node-a1", Labels: map[string]string{"ng": "multi-eni"}, Desired: 2, Attached: 2,
		Interfaces: []report.Interface{{NodeENI: "multus", Phase: "Attached"}, {NodeENI: "sig", Phase: "Attached"}},
		Ready:      report.Condition{Type: "InterfacesReady", Status: "True"},
	}
}

// selecting is a NodeENI for the labels of [selected].
func selecting(name string) report.NodeENI { return nodeENI(name, "True", 1, 2, 2) }

func TestWhyNodeExplainsTheFirstCauseThatApplies(t *testing.T) {
	const paused = "It is paused: nothing is made, changed or removed for it."
	unlabel := func(n *report.Node) { n.Labels = nil }
	for name, tc := range map[string]struct {
		change func(*report.Node)
		want   string
		notes  []string
	}{
		"no EC2 instance, although there are interfaces": {
			change: func(n *report.Node) { n.Unserved, n.Absent, n.Paused = "it runs on Fargate", true, true },
			want:   "It is passed over, and can get no interfaces: it runs on Fargate.",
		},
		"no Node any more": {
			change: func(n *report.Node) { n.Absent, n.Labels, n.Paused = true, nil, true },
			want: "There is no Node of that name any more; its NetworkInterfaces stay until EC2 confirms that its " +
				"interfaces are gone.",
		},
		"not selected": {
			change: func(n *report.Node) { unlabel(n); n.Paused, n.Interfaces = true, nil },
			want:   "No NodeENI selects this node, so it gets no interfaces.",
			notes:  []string{"NodeENI multus selects nodes with ng=multi-eni: no label ng."},
		},
		"not selected any more, with interfaces": {
			change: unlabel,
			want:   "All is as declared: 2 interfaces attached.",
		},
		"paused": {
			change: func(n *report.Node) { n.Paused, n.Interfaces = true, nil },
			want:   paused,
			notes:  []string{"Remove the annotation networking.k8s.aws/paused when changes may go on."},
		},
		"paused with interfaces that are not selected any more": {
			change: func(n *report.Node) {
				unlabel(n)
				n.Paused = true
			},
			want:  paused,
			notes: []string{"Remove the annotation networking.k8s.aws/paused when changes may go on."},
		},
		"without an object": {
			change: func(n *report.Node) { n.Interfaces, n.Desired, n.Attached = nil, 0, 0 },
			want:   "multus wants interfaces here, and the controller has not begun.",
			notes:  []string{isItRunning},
		},
		"without an object of the NodeENI": {
			change: func(n *report.Node) { n.Interfaces = n.Interfaces[1:] },
			want:   "multus wants interfaces here, and the controller has not begun.",
		},
		"the object of the NodeENI is being deleted": {
			change: func(n *report.Node) { n.Interfaces[0].Deleting = true },
			want:   "multus wants interfaces here, and the controller has not begun.",
		},
		"ready": {
			change: func(*report.Node) {},
			want:   "All is as declared: 2 interfaces attached.",
		},
		"ready without a condition": {
			change: func(n *report.Node) { n.Ready = report.Condition{} },
			want:   "All is as declared: 2 interfaces attached.",
		},
		"not ready": {
			change: func(n *report.Node) { n.Ready = outage },
			want:   "2 of 2 interfaces attached.",
			notes:  []string{"Unreadable: EC2 does not answer", report.Remediation("Unreadable")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := selected()
			tc.change(&n)
			got := report.WhyNode(report.Fleet{NodeENIs: []report.NodeENI{selecting("multus")}}, n)
			want := report.Why{
				Kind: "Node", Name: "node-a1", Verdict: tc.want, Notes: tc.notes, Troubles: []report.Issue{},
				Fine: tc.want == "All is as declared: 2 interfaces attached.",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhyNodeHasTheIssuesOfThisNodeAlone(t *testing.T) {
	n := blockedBy("node-a1", "multus", "SubnetFull")
	n.Labels, n.Ready = map[string]string{"ng": "multi-eni"}, report.Condition{Status: "True"}
	n.Desired = 1
	f := report.Fleet{
		NodeENIs: []report.NodeENI{selecting("multus")}, Nodes: []report.Node{n, blockedBy("b", "multus", "SubnetFull")},
	}
	want := report.Why{
		Kind: "Node", Name: "node-a1", Verdict: "0 of 1 interface attached.",
		Troubles: []report.Issue{{
			Reason: "SubnetFull", NodeENI: "multus", Nodes: []string{"node-a1"}, Message: "SubnetFull on node-a1",
			Advice: report.Remediation("SubnetFull"),
		}},
	}
	if diff := cmp.Diff(want, report.WhyNode(f, n)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Each NodeENI that selects the node is named, in the order of the names and not of the fleet.
func TestWhyNodeNamesTheNodeENIsThatSelectTheNode(t *testing.T) {
	other := selecting("other")
	other.Selector = map[string]string{"ng": "another"}
	everything := selecting("everything")
	everything.Selector = nil
	f := report.Fleet{NodeENIs: []report.NodeENI{selecting("sig"), other, everything, selecting("multus")}}
	n := selected()
	n.Interfaces = nil
	if got, want := report.WhyNode(f, n).Verdict,
		"multus, sig wants interfaces here, and the controller has not begun."; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// A node is fine only once each NodeENI that selects it has an object there; a NodeENI that changes nothing is not
// waited for.
func TestWhyNodeWaitsForTheObjectsOfEachActiveNodeENI(t *testing.T) {
	waits := func(names string) string {
		return names + " wants interfaces here, and the controller has not begun."
	}
	const fine = "All is as declared: 2 interfaces attached."
	for name, tc := range map[string]struct {
		change func(multus, sig *report.NodeENI)
		want   string
		notes  []string
	}{
		"both have none": {func(*report.NodeENI, *report.NodeENI) {}, waits("multus, sig"), nil},
		"its condition says why nothing happens": {
			func(multus, sig *report.NodeENI) { sig.Ready, multus.Paused = outage, true }, waits("sig"),
			[]string{"NodeENI multus is paused.", "Unreadable: EC2 does not answer", report.Remediation("Unreadable")},
		},
		"one is paused": {
			func(_, sig *report.NodeENI) { sig.Paused = true }, waits("multus"), []string{"NodeENI sig is paused."},
		},
		"one is being deleted": {func(_, sig *report.NodeENI) { sig.Deleting = true }, waits("multus"), nil},
		"one has no controller": {
			func(multus, sig *report.NodeENI) { sig.Accepted, multus.Deleting = false, true }, fine,
			[]string{"No controller has taken NodeENI sig up. " + isItRunning},
		},
		"one has no controller, and is paused": {
			func(multus, sig *report.NodeENI) { sig.Accepted, sig.Paused, multus.Deleting = false, true, true }, fine,
			[]string{"NodeENI sig is paused."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			multus, sig := selecting("multus"), selecting("sig")
			tc.change(&multus, &sig)
			n := selected()
			for i := range n.Interfaces {
				n.Interfaces[i].NodeENI = "other"
			}
			got := report.WhyNode(report.Fleet{NodeENIs: []report.NodeENI{sig, multus}}, n)
			want := report.Why{
				Kind: "Node", Name: "node-a1", Fine: tc.want == fine, Verdict: tc.want, Notes: tc.notes,
				Troubles: []report.Issue{},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhyNodeNotesTheStartupTaint(t *testing.T) {
	n := selected()
	n.Tainted = true
	want := []string{"The taint networking.k8s.aws/not-ready keeps pods away until all required interfaces are " +
		"ready."}
	got := report.WhyNode(report.Fleet{NodeENIs: []report.NodeENI{selecting("multus")}}, n)
	if diff := cmp.Diff(want, got.Notes); diff != "" || !got.Fine {
		t.Errorf("fine is %t; (-want +got):\n%s", got.Fine, diff)
	}
}

// The node has the labels of no NodeENI; the text has the selectors of four of them, by name.
func TestWhyNodeSaysWhatNodeENIsTake(t *testing.T) {
	n := labelled("node-a1", "ng", "data", "zone", "a")
	var f report.Fleet
	for i := range 6 {
		e := nodeENI(fmt.Sprintf("e%d", 5-i), "True", 0, 0, 0)
		e.Selector = map[string]string{"ng": "data", "zone": "b", "arch": "arm64"}
		f.NodeENIs = append(f.NodeENIs, e)
	}
	f.NodeENIs[5].Selector = map[string]string{"role": "upf"}
	f.NodeENIs[4].Selector = nil // it selects no node, so the text does not have it
	const rest = ` selects nodes with arch=arm64,ng=data,zone=b: no label arch and label zone is "a" and not "b".`
	want := []string{
		"NodeENI e0 selects nodes with role=upf: no label role.",
		"NodeENI e2" + rest, "NodeENI e3" + rest, "NodeENI e4" + rest,
	}
	if diff := cmp.Diff(want, report.WhyNode(f, n).Notes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// indented is the JSON of a view as kubectl eni prints it with -o json.
func indented(t *testing.T, view any) string {
	t.Helper()
	content, err := json.MarshalIndent(view, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// Programs read the fields by these names.
func TestWhyHasTheseFieldsInJSON(t *testing.T) {
	why := report.Why{
		Kind: "Node", Name: "node-a1", Fine: true, Verdict: "All is as declared.", Notes: []string{"It is tainted."},
		Troubles: []report.Issue{
			{Reason: "SubnetFull", NodeENI: "multus", Nodes: []string{"a"}, Message: "none is free", Advice: "Free some."},
			{Reason: "Throttled", NodeENI: "sig", Passing: true, Nodes: []string{"b"}, Message: "wait"},
		},
	}
	const want = `{
  "kind": "Node",
  "name": "node-a1",
  "fine": true,
  "verdict": "All is as declared.",
  "notes": [
    "It is tainted."
  ],
  "troubles": [
    {
      "reason": "SubnetFull",
      "nodeENI": "multus",
      "passing": false,
      "nodes": [
        "a"
      ],
      "message": "none is free",
      "advice": "Free some."
    },
    {
      "reason": "Throttled",
      "nodeENI": "sig",
      "passing": true,
      "nodes": [
        "b"
      ],
      "message": "wait"
    }
  ]
}`
	if diff := cmp.Diff(want, indented(t, why)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func ExampleWhyNode() {
	fleet := report.Fleet{NodeENIs: []report.NodeENI{{
		Name: "data", Accepted: true, Selector: map[string]string{"ng": "data"},
	}}}
	node := report.Node{Name: "node-a1", Labels: map[string]string{"ng": "sig"}}
	fmt.Print(report.WhyNode(fleet, node).Text(report.Page{Width: 72}))
	// Output:
	// Node node-a1
	// · No NodeENI selects this node, so it gets no interfaces.
	//   NodeENI data selects nodes with ng=data: label ng is "sig" and not
	//   "data".
}
