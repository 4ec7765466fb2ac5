// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/report"
)

func TestANodeENISelectsNodesWithAllItsLabels(t *testing.T) {
	for name, tc := range map[string]struct {
		selector, labels map[string]string
		want             bool
	}{
		"the label":              {map[string]string{"ng": "a"}, map[string]string{"ng": "a"}, true},
		"the label among others": {map[string]string{"ng": "a"}, map[string]string{"ng": "a", "zone": "b"}, true},
		"another value":          {map[string]string{"ng": "a"}, map[string]string{"ng": "b"}, false},
		"no such label":          {map[string]string{"ng": "a"}, map[string]string{"zone": "a"}, false},
		"no labels at all":       {map[string]string{"ng": "a"}, nil, false},
		"one label of two":       {map[string]string{"ng": "a", "eni": "on"}, map[string]string{"ng": "a"}, false},
		"both labels": {
			map[string]string{"ng": "a", "eni": "on"}, map[string]string{"ng": "a", "eni": "on"}, true,
		},
		"an empty value, and no label": {map[string]string{"eni": ""}, map[string]string{"ng": "a"}, false},
		"an empty value":               {map[string]string{"eni": ""}, map[string]string{"eni": ""}, true},
		"no selector":                  {nil, map[string]string{"ng": "a"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (report.NodeENI{Selector: tc.selector}).Selects(tc.labels); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// A map has no order, and users compare the text with the previous one.
func TestMissingLabelsAreSorted(t *testing.T) {
	selector, labels := map[string]string{}, map[string]string{"key-3": "off"}
	for n := range 6 {
		selector[fmt.Sprintf("key-%d", n)] = "on"
	}
	f := report.Fleet{NodeENIs: []report.NodeENI{{Name: "multus", Selector: selector}}}
	why := report.WhyNode(f, report.Node{Name: "a", Labels: labels})
	want := []string{"NodeENI multus selects nodes with key-0=on,key-1=on,key-2=on,key-3=on,key-4=on,key-5=on: " +
		"no label key-0 and no label key-1 and no label key-2 and label key-3 is \"off\" and not \"on\" and " +
		"no label key-4 and no label key-5."}
	if diff := cmp.Diff(want, why.Notes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAFleetFindsItsObjectsByName(t *testing.T) {
	f := fleet()
	if n, known := f.Node("node-a1"); !known || n.Name != "node-a1" || len(n.Interfaces) != 2 {
		t.Errorf("%+v, %v", n, known)
	}
	if n, known := f.NodeENI("user-plane"); !known || n.Name != "user-plane" || n.Desired != 1 {
		t.Errorf("%+v, %v", n, known)
	}
	if i, known := f.Interface("user-plane-3"); !known || i.NodeENI != "user-plane" {
		t.Errorf("%+v, %v", i, known)
	}
	if i, known := f.Interface("user-plane"); known || !cmp.Equal(i, report.Interface{}) {
		t.Errorf("%+v, %v", i, known)
	}
	// A NodeENI and a node can have the same name.
	if n, known := f.Node("user-plane"); known || !cmp.Equal(n, report.Node{}) {
		t.Errorf("%+v, %v", n, known)
	}
	if n, known := f.NodeENI("node-a1"); known || !cmp.Equal(n, report.NodeENI{}) {
		t.Errorf("%+v, %v", n, known)
	}
}

// The API server and maps return objects in any order. A report that depended on it would show changes that are none.
func TestViewsDoNotDependOnTheOrderOfTheFleet(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := anyFleet(rt)
		other := report.Fleet{
			NodeENIs: rapid.Permutation(f.NodeENIs).Draw(rt, "NodeENIs"), Nodes: rapid.Permutation(f.Nodes).Draw(rt, "nodes"),
		}
		page := report.Page{Width: 100, Wide: true}
		for what, print := range map[string]func(report.Fleet) string{
			"fleet":    func(f report.Fleet) string { return report.WhyFleet(f).Text(page) },
			"topology": func(f report.Fleet) string { return report.NewTopology(f).Text(page) },
			"drawing":  func(f report.Fleet) string { return report.NewTopology(f).SVG() },
		} {
			if diff := cmp.Diff(print(f), print(other)); diff != "" {
				rt.Fatalf("%s (-one order +another):\n%s", what, diff)
			}
		}
	})
}

// kubectl eni draws several views of one fleet.
func TestViewsDoNotChangeTheFleet(t *testing.T) {
	f, before := fleet(), fleet()
	slices.Reverse(f.Nodes[1].Interfaces)
	slices.Reverse(before.Nodes[1].Interfaces)
	report.WhyFleet(f)
	report.NewTopology(f)
	n, _ := f.Node("node-a1")
	report.NewNodeMap(n, look(), eni.Limits{}, "")
	report.WhyNode(f, n)
	if diff := cmp.Diff(before, f); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

func TestANodeENIIsJSON(t *testing.T) {
	n := nodeENI("multus", "False", 3, 5, 4)
	n.Generation, n.Deleting, n.NotObserved, n.Paused, n.Drifted, n.Subnets = 7, true, true, true, 2, []string{"subnet-1"}
	n.Ready.Message = "no free address"
	n.Conditions = []report.Condition{n.Ready}
	const want = `{
 "name": "multus",
 "created": "2026-01-02T01:34:05Z",
 "nodeSelector": {
  "ng": "multi-eni"
 },
 "accepted": true,
 "deleting": true,
 "notObserved": true,
 "paused": true,
 "ready": {
  "type": "Ready",
  "status": "False",
  "reason": "Blocked",
  "message": "no free address"
 },
 "conditions": [
  {
   "type": "Ready",
   "status": "False",
   "reason": "Blocked",
   "message": "no free address"
  }
 ],
 "nodes": 3,
 "desired": 5,
 "attached": 4,
 "blocked": 1,
 "drifted": 2,
 "subnets": [
  "subnet-1"
 ]
}`
	if diff := cmp.Diff(want, asJSON(t, n)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestANodeIsJSON(t *testing.T) {
	i := report.Interface{
		Name: "multus-i-1-1", NodeENI: "multus", Ordinal: 1, Node: "node-a1", Phase: "Attached", Reason: "SubnetFull",
		Message: "it stays", ENIID: "eni-1",
		SubnetID: "subnet-1", PrivateIP: "10.0.64.5", Foreign: []string{"10.0.64.6"}, Followed: []string{"10.0.64.7"},
		MAC: "02:00:00:00:00:01", Slot: eni.Slot{Card: 1, Device: 2}, Asked: 3, Drift: []string{"slot"},
		Link: &report.Link{
			State: "Missing", Reason: "NoLink", Message: "gone", Name: "ens6", AltName: "eni-multus", MTU: 9001,
		},
		Deleting: true, Held: true, Unanswered: true, Closed: true, Pods: []string{"upf/upf-0"},
	}
	n := report.Node{
		Name: "node-a1", InstanceID: "i-1", Zone: "us-east-1a", Type: "m5.large", Labels: map[string]string{"ng": "a"},
		Absent: true, Paused: true, Unserved: "no providerID", Tainted: true, Desired: 2, Attached: 1,
		Interfaces: []report.Interface{i},
	}
	const want = `{
 "name": "node-a1",
 "instanceID": "i-1",
 "zone": "us-east-1a",
 "instanceType": "m5.large",
 "absent": true,
 "paused": true,
 "unserved": "no providerID",
 "tainted": true,
 "ready": {
  "type": "",
  "status": ""
 },
 "desired": 2,
 "attached": 1,
 "interfaces": [
  {
   "name": "multus-i-1-1",
   "nodeENI": "multus",
   "ordinal": 1,
   "node": "node-a1",
   "phase": "Attached",
   "reason": "SubnetFull",
   "message": "it stays",
   "eniID": "eni-1",
   "subnetID": "subnet-1",
   "privateIP": "10.0.64.5",
   "foreignAddresses": [
    "10.0.64.6"
   ],
   "followedAddresses": [
    "10.0.64.7"
   ],
   "macAddress": "02:00:00:00:00:01",
   "slot": {
    "Card": 1,
    "Device": 2
   },
   "requestedDeviceIndex": 3,
   "drift": [
    "slot"
   ],
   "link": {
    "state": "Missing",
    "reason": "NoLink",
    "message": "gone",
    "name": "ens6",
    "altName": "eni-multus",
    "mtu": 9001
   },
   "deleting": true,
   "held": true,
   "unanswered": true,
   "closed": true,
   "pods": [
    "upf/upf-0"
   ]
  }
 ]
}`
	if diff := cmp.Diff(want, asJSON(t, n)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
