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

// selected is a ready node with one of two interfaces of NodeENI multus, which was last judged by its generation 3.
func selected() report.Node {
	return report.Node{
		Name: "node-a1", Labels: map[string]string{"ng": "multi-eni"}, Concerned: true, Desired: 2, Attached: 1,
		Ready: report.Condition{Type: "Ready", Status: "True"}, Judged: map[string]int64{"multus": 3, "sig": 3},
	}
}

// third is a NodeENI for the labels of [selected], at its generation 3.
func third(name string) report.NodeENI {
	n := nodeENI(name, "True", 1, 2, 2)
	n.Generation = 3
	return n
}

func TestWhyNodeExplainsTheFirstCauseThatApplies(t *testing.T) {
	const paused = "It is paused: nothing is made, changed or removed for it."
	unlabel := func(n *report.Node) { n.Labels = nil }
	for name, tc := range map[string]struct {
		change func(*report.Node)
		want   string
		notes  []string
	}{
		"no EC2 instance, although its state exists": {
			change: func(n *report.Node) { n.Unserved, n.Absent, n.Paused = "it runs on Fargate", true, true },
			want:   "It is passed over, and can get no interfaces: it runs on Fargate.",
		},
		"no Node any more": {
			change: func(n *report.Node) { n.Absent, n.Labels, n.Paused = true, nil, true },
			want: "There is no Node of that name any more; its NodeENIState stays until EC2 confirms that its " +
				"interfaces are gone.",
		},
		"not selected": {
			change: func(n *report.Node) { unlabel(n); n.Paused = true },
			want:   "No NodeENI selects this node, so it gets no interfaces.",
			notes:  []string{"NodeENI multus selects nodes with ng=multi-eni: no label ng."},
		},
		"not selected any more, with interfaces": {
			change: func(n *report.Node) { unlabel(n); n.Interfaces = []report.Interface{{Phase: "Attached"}} },
			want:   "All is as declared: 1 interface attached.",
		},
		"paused": {
			change: func(n *report.Node) { n.Paused, n.Concerned = true, false },
			want:   paused,
			notes:  []string{"Remove the annotation networking.k8s.aws/paused when changes may go on."},
		},
		"paused with interfaces that are not selected any more": {
			change: func(n *report.Node) {
				unlabel(n)
				n.Paused, n.Interfaces = true, []report.Interface{{Phase: "Attached"}}
			},
			want:  paused,
			notes: []string{"Remove the annotation networking.k8s.aws/paused when changes may go on."},
		},
		"without a state": {
			change: func(n *report.Node) { n.Concerned = false },
			want:   "multus wants interfaces here, and the controller has not begun.",
			notes:  []string{isItRunning},
		},
		"judged by an earlier generation": {
			change: func(n *report.Node) { n.Judged["multus"] = 2 },
			want:   "The controller has not judged the node by multus yet, as declared now.",
		},
		"ready": {
			change: func(*report.Node) {},
			want:   "All is as declared: 1 interface attached.",
		},
		"not ready": {
			change: func(n *report.Node) { n.Ready = outage },
			want:   "1 of 2 interfaces attached.",
			notes:  []string{"Unreadable: EC2 does not answer", report.Remediation("Unreadable")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := selected()
			tc.change(&n)
			got := report.WhyNode(report.Fleet{NodeENIs: []report.NodeENI{third("multus")}}, n)
			want := report.Why{
				Kind: "Node", Name: "node-a1", Verdict: tc.want, Notes: tc.notes, Troubles: []report.Issue{},
				Fine: tc.want == "All is as declared: 1 interface attached.",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhyNodeHasTheIssuesOfThisNodeAlone(t *testing.T) {
	n := blockedBy("node-a1", "multus", "SubnetFull")
	n.Labels, n.Concerned, n.Ready = map[string]string{"ng": "multi-eni"}, true, report.Condition{Status: "True"}
	n.Desired, n.Judged = 1, map[string]int64{"multus": 3}
	f := report.Fleet{
		NodeENIs: []report.NodeENI{third("multus")}, Nodes: []report.Node{n, blockedBy("b", "multus", "SubnetFull")},
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
	other := third("other")
	other.Selector = map[string]string{"ng": "another"}
	everything := third("everything")
	everything.Selector = nil
	f := report.Fleet{NodeENIs: []report.NodeENI{third("sig"), other, everything, third("multus")}}
	n := selected()
	n.Concerned = false
	if got, want := report.WhyNode(f, n).Verdict,
		"multus, sig wants interfaces here, and the controller has not begun."; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// A node is judged by a NodeENI only once the controller has applied its present spec; a NodeENI that changes nothing
// is not waited for.
func TestWhyNodeWaitsForTheJudgementByEachActiveNodeENI(t *testing.T) {
	waits := func(names string) string {
		return "The controller has not judged the node by " + names + " yet, as declared now."
	}
	const fine = "All is as declared: 1 interface attached."
	for name, tc := range map[string]struct {
		change func(multus, sig *report.NodeENI)
		want   string
		notes  []string
	}{
		"judged by both": {func(*report.NodeENI, *report.NodeENI) {}, fine, nil},
		"both changed": {
			func(multus, sig *report.NodeENI) { multus.Generation, sig.Generation = 4, 5 }, waits("multus, sig"), nil,
		},
		"one changed": {func(_, sig *report.NodeENI) { sig.Generation = 4 }, waits("sig"), nil},
		"restored from an older copy": {
			func(_, sig *report.NodeENI) { sig.Generation = 1 }, waits("sig"), nil,
		},
		"one changed, and its condition says why nothing happens": {
			func(_, sig *report.NodeENI) { sig.Generation, sig.Ready = 4, outage }, waits("sig"),
			[]string{"Unreadable: EC2 does not answer", report.Remediation("Unreadable")},
		},
		"the condition of the other one": {
			func(multus, sig *report.NodeENI) { sig.Generation, multus.Ready = 4, outage }, waits("sig"), nil,
		},
		"one changed, and is paused": {
			func(_, sig *report.NodeENI) { sig.Generation, sig.Paused = 4, true }, fine, []string{"NodeENI sig is paused."},
		},
		"one is being deleted": {
			func(_, sig *report.NodeENI) { sig.Generation, sig.Deleting = 4, true }, fine, nil,
		},
		"one has no controller": {
			func(_, sig *report.NodeENI) { sig.Generation, sig.Accepted = 4, false }, fine,
			[]string{"No controller has taken NodeENI sig up. " + isItRunning},
		},
		"one has no controller, and is paused": {
			func(_, sig *report.NodeENI) { sig.Accepted, sig.Paused = false, true }, fine,
			[]string{"NodeENI sig is paused."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			multus, sig := third("multus"), third("sig")
			tc.change(&multus, &sig)
			got := report.WhyNode(report.Fleet{NodeENIs: []report.NodeENI{sig, multus}}, selected())
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
	want := []string{"The taint networking.k8s.aws/not-ready keeps pods away until the agent finds all required " +
		"interfaces ready."}
	got := report.WhyNode(report.Fleet{NodeENIs: []report.NodeENI{third("multus")}}, n)
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
