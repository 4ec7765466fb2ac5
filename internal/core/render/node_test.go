// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
	"github.com/multieni/multieni/internal/core/selector"
)

// TestNode renders an instance that has the objects of a NodeENI with two subnets, after a change.
func TestNode(t *testing.T) {
	pods := withPods(nodeENI("n", "subnet-a", "subnet-b"))
	for title, tc := range map[string]struct {
		nodeENI render.NodeENI
		change  func(*render.In)
		want    []string
	}{
		"nothing":              {want: nil},
		"the node is new":      {change: func(i *render.In) { i.Objects = nil }, want: []string{"Create n-0", "Create n-1"}},
		"an object is gone":    {change: func(i *render.In) { i.Objects = i.Objects[:1] }, want: []string{"Create n-1"}},
		"an object is deleted": {change: func(i *render.In) { i.Objects[1].Deleting = true }, want: nil},
		"one of two in a subnet goes already": {
			change: func(i *render.In) {
				i.NodeENIs[0] = found(i.NodeENIs[0], "subnet-a")
				i.Objects[0].Deleting, i.Objects[1].SubnetID = true, "subnet-a"
			}, want: []string{"Update n-1"},
		},
		"a new subnet":          {change: func(i *render.In) { i.NodeENIs[0] = found(i.NodeENIs[0], "subnet-a", "subnet-b", "subnet-c") }, want: []string{"Update n-0", "Update n-1", "Create n-2"}},
		"the first subnet goes": {change: func(i *render.In) { i.NodeENIs[0] = found(i.NodeENIs[0], "subnet-b") }, want: []string{"Update n-1", "Delete n-0"}},
		"the last subnet goes":  {change: func(i *render.In) { i.NodeENIs[0] = found(i.NodeENIs[0], "subnet-a") }, want: []string{"Update n-0", "Delete n-1"}},
		"a subnet is exchanged": {change: func(i *render.In) { i.NodeENIs[0] = found(i.NodeENIs[0], "subnet-a", "subnet-c") }, want: []string{"Update n-0", "Update n-1", "Report n-1"}},
		"a subnet is exchanged before it has an interface": {
			change: func(i *render.In) {
				i.NodeENIs[0] = found(i.NodeENIs[0], "subnet-a", "subnet-c")
				i.Objects[1].ENIID, i.Objects[1].SubnetID, i.Objects[1].Slot = "", "", nil
			}, want: []string{"Update n-0", "Update n-1"},
		},
		"a subnet is unknown":           {change: func(i *render.In) { i.NodeENIs[0] = found(i.NodeENIs[0], "subnet-a", "subnet-x") }, want: []string{"Update n-0", "Create n-2"}},
		"no subnet is left in the zone": {change: func(i *render.In) { i.NodeENIs[0] = found(i.NodeENIs[0], "subnet-far") }, want: []string{"Update n-0", "Report n-0", "Update n-1", "Report n-1"}},
		"no subnet is left in the VPC":  {change: func(i *render.In) { i.NodeENIs[0] = found(i.NodeENIs[0], "subnet-foreign") }, want: []string{"Update n-0", "Report n-0", "Update n-1", "Report n-1"}},
		"no subnet is left, and none is attached yet": {
			change: func(i *render.In) {
				i.NodeENIs[0] = found(i.NodeENIs[0], "subnet-far")
				i.Objects[0].Slot, i.Objects[1].Slot = nil, nil
			}, want: []string{"Update n-0", "Report n-0", "Update n-1", "Report n-1"},
		},
		"no subnet is left, and one has no ENI": {change: strandedWithoutENI, want: []string{"Update n-1", "Update n-0", "Report n-0"}},
		"the selectors cannot be resolved":      {change: func(i *render.In) { i.NodeENIs[0].Found = nil }, want: nil},
		"the labels no longer match":            {change: unselect, want: []string{"Delete n-0", "Delete n-1"}},
		"the labels no longer match, and a list failed": {
			change: func(i *render.In) { unselect(i); i.Incomplete = true }, want: nil,
		},
		"the labels no longer match, and it is unresolved": {
			change: func(i *render.In) { unselect(i); i.NodeENIs[0].Found = nil }, want: []string{"Delete n-0", "Delete n-1"},
		},
		"the labels no longer match, with pods": {nodeENI: pods, change: unselect, want: []string{"Update n-0", "Update n-1"}},
		"the labels no longer match, and the networks are closed": {
			nodeENI: pods, change: func(i *render.In) { unselect(i); closeAll(i) }, want: []string{"Delete n-0", "Delete n-1"},
		},
		"the labels no longer match, and pods use one": {
			nodeENI: pods, change: func(i *render.In) { unselect(i); closeAll(i); i.Objects[0].Held = true }, want: []string{"Delete n-1"},
		},
		"the labels match again": {nodeENI: pods, change: closeAll, want: []string{"Update n-0", "Update n-1"}},
		"the labels of another Node match": {
			change: func(i *render.In) { unselect(i); i.Nodes = append(i.Nodes, node("node-2", "n")) }, want: nil,
		},
		"another Node of the instance is paused": {
			change: func(i *render.In) {
				unselect(i)
				i.Nodes = append(i.Nodes, render.Registration{Name: "node-2", Paused: true})
			}, want: nil,
		},
		"the NodeENI is paused":  {change: func(i *render.In) { unselect(i); i.NodeENIs[0].Paused = true }, want: nil},
		"the NodeENI is deleted": {change: func(i *render.In) { unselect(i); i.NodeENIs[0].Deleting = true }, want: nil},
		"the NodeENI is unknown": {change: func(i *render.In) { i.NodeENIs = nil }, want: nil},
		"the Node is gone":       {change: func(i *render.In) { i.Nodes = nil }, want: nil},
		"the Node has another name": {
			change: func(i *render.In) { i.Nodes[0].Name = "node-9" }, want: []string{"Update n-0", "Update n-1"},
		},
		"the Node has another name, and the NodeENI is unknown": {
			change: func(i *render.In) { i.Nodes[0].Name = "node-9"; i.NodeENIs = nil }, want: []string{"Update n-0", "Update n-1"},
		},
		"a NodeENI of the name exists again": {
			change: func(i *render.In) { i.NodeENIs[0].UID = "uid-again"; i.NodeENIs[0].Generation = 1 }, want: []string{"Update n-0", "Update n-1"},
		},
		"an edit concerns no object": {change: func(i *render.In) { i.NodeENIs[0].Generation = 2 }, want: nil},
		"an edit in place": {
			change: func(i *render.In) { i.NodeENIs[0].Generation, i.NodeENIs[0].Template.EC2.SourceDestCheck = 2, false },
			want:   []string{"Update n-0", "Update n-1"},
		},
	} {
		t.Run(title, func(t *testing.T) {
			n := tc.nodeENI
			if n.Name == "" {
				n = nodeENI("n", "subnet-a", "subnet-b")
			}
			i := attach(converge(t, in(n)))
			if tc.change != nil {
				tc.change(&i)
			}
			want := slices.Clone(tc.want)
			for at := range want {
				verb, short, _ := strings.Cut(want[at], " ")
				want[at] = verb + " " + name("n", int(short[2]-'0'))
			}
			writes := render.Node(i)
			if diff := cmp.Diff(want, verbs(writes)); diff != "" {
				t.Fatalf("writes (-want +got):\n%s", diff)
			}
			for _, w := range writes {
				apply(t, i.Objects, w)
			}
		})
	}
}

func unselect(i *render.In) { i.Nodes[0].Labels = nil }

func closeAll(i *render.In) {
	for n := range i.Objects {
		pods := *i.Objects[n].Spec.Pods
		pods.Closed = true
		i.Objects[n].Spec.Pods = &pods
	}
}

// strandedWithoutENI leaves no subnet to a NodeENI with one live interface and an object without one.
func strandedWithoutENI(i *render.In) {
	i.NodeENIs[0] = found(i.NodeENIs[0], "subnet-far")
	i.Objects[1].ENIID, i.Objects[1].SubnetID, i.Objects[1].Slot = "", "", nil
}

// TestTheSpec renders the first object of a NodeENI.
func TestTheSpec(t *testing.T) {
	n := withPods(nodeENI("n", "subnet-a"))
	n.FirstSlot, n.Template.Pods.Floating = eni.Slot{Card: 1, Device: 3}, []string{"10.0.0.64/26", "10.9.0.0/24"}
	got := render.Node(in(n))[0].Spec
	want := render.Spec{
		InstanceID: instance, Zone: zone, Origin: render.OriginDeclared, NodeName: "node-1", NodeENI: render.Reference{Name: "n", UID: "uid-n", Generation: 1},
		Revision: n.Revision(zone), Subnets: []render.Subnet{{ID: "subnet-a", CIDR: "10.0.0.0/24"}}, Slot: eni.Slot{Card: 1, Device: 3}, Template: n.Template,
	}
	want.EC2.Description, want.EC2.Groups = "VRF3", []string{"sg-1"}
	pods := *n.Template.Pods
	pods.Floating = []string{"10.0.0.64/26"} // the range outside the subnet is left out
	want.Pods = &pods
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestProblems has NodeENIs whose interfaces cannot be created.
func TestProblems(t *testing.T) {
	noGroup := nodeENI("n", "subnet-a")
	noGroup.Found.Groups = selector.MatchGroups(selector.GroupTerms{IDs: []string{"sg-9"}}, groups)
	for title, tc := range map[string]struct {
		nodeENI render.NodeENI
		want    []plan.Reason
	}{
		"a subnet that does not exist":          {nodeENI("n", "subnet-x"), []plan.Reason{plan.SubnetNotFound}},
		"one subnet, and one that does not":     {nodeENI("n", "subnet-a", "subnet-x"), []plan.Reason{"", plan.SubnetNotFound}},
		"a subnet of another zone":              {nodeENI("n", "subnet-far"), []plan.Reason{plan.NoSubnetInZone}},
		"a subnet of another VPC":               {nodeENI("n", "subnet-foreign"), []plan.Reason{plan.NoSubnetInZone}},
		"a group that does not exist":           {noGroup, []plan.Reason{plan.SecurityGroupNotFound}},
		"two subnets of one zone of two places": {nodeENI("n", "subnet-a", "subnet-far"), []plan.Reason{""}},
	} {
		t.Run(title, func(t *testing.T) {
			var got []plan.Reason
			for _, o := range converge(t, in(tc.nodeENI)).Objects {
				reason := plan.Reason("")
				if o.Spec.Problem != nil {
					reason = o.Spec.Problem.Reason
				}
				got = append(got, reason)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestAProblemEnds lets the object of an unknown subnet become that of an interface, and go when there are fewer.
func TestAProblemEnds(t *testing.T) {
	i := attach(converge(t, in(nodeENI("n", "subnet-a", "subnet-x"))))
	i.NodeENIs[0] = found(i.NodeENIs[0], "subnet-a", "subnet-b")
	i = converge(t, i)
	if len(i.Objects) != 2 || i.Objects[1].Spec.Problem != nil || i.Objects[1].Spec.Subnets[0].ID != "subnet-b" {
		t.Fatalf("got %+v, want the second object in subnet-b", i.Objects)
	}
	i.NodeENIs[0] = found(i.NodeENIs[0], "subnet-a")
	if i = converge(t, i); len(i.Objects) != 1 {
		t.Errorf("%d objects are left, want 1", len(i.Objects))
	}
}

// TestAnObjectGetsTheSubnetOfItsInterface has an interface that was created before its object got other subnets, or none.
func TestAnObjectGetsTheSubnetOfItsInterface(t *testing.T) {
	for title, subnets := range map[string][]string{"others": {"subnet-b"}, "none": {"subnet-far"}, "its own again": {"subnet-a"}, "its own without a range": nil} {
		t.Run(title, func(t *testing.T) {
			i := converge(t, in(withPods(nodeENI("n", "subnet-b"))))
			i.Objects[0].ENIID, i.Objects[0].SubnetID, i.Objects[0].Slot = "eni-1", "subnet-a", &eni.Slot{Device: 1}
			if len(subnets) == 0 {
				i.Objects[0].Spec.Subnets, subnets = []render.Subnet{{ID: "subnet-a"}}, []string{"subnet-a"}
			}
			i.NodeENIs[0], i.Own = found(i.NodeENIs[0], subnets...), []render.Subnet{{ID: "subnet-a", CIDR: "10.0.0.0/24"}}
			i = converge(t, i)
			if !slices.Contains(i.Objects[0].Spec.Subnets, i.Own[0]) {
				t.Errorf("the subnets are %v, want %v among them", i.Objects[0].Spec.Subnets, i.Own[0])
			}
		})
	}
}

// TestDrift names what only a replacement corrects.
func TestDrift(t *testing.T) {
	for title, tc := range map[string]struct {
		change func(*render.NodeENI)
		want   []plan.Drift
	}{
		"another subnet":                  {func(n *render.NodeENI) { *n = found(*n, "subnet-c") }, []plan.Drift{{Field: plan.SubnetDrift, Want: "subnet-c", Have: "subnet-a"}}},
		"another subnet, and the old one": {func(n *render.NodeENI) { *n = found(*n, "subnet-a", "subnet-c") }, nil},
		"another device index":            {func(n *render.NodeENI) { n.FirstSlot.Device = 4 }, nil},
		"another device index, exactly": {
			func(n *render.NodeENI) { n.FirstSlot.Device, n.ExactSlot = 4, true }, []plan.Drift{{Field: plan.SlotDrift, Want: "card 0 device 4", Have: "card 0 device 1"}},
		},
		"another card":   {func(n *render.NodeENI) { n.FirstSlot.Card = 1 }, []plan.Drift{{Field: plan.SlotDrift, Want: "card 1 device 1", Have: "card 0 device 1"}}},
		"no subnet left": {func(n *render.NodeENI) { *n = found(*n, "subnet-far") }, []plan.Drift{{Field: plan.SubnetDrift, Want: render.Nowhere, Have: "subnet-a"}}},
	} {
		t.Run(title, func(t *testing.T) {
			i := attach(converge(t, in(nodeENI("n", "subnet-a"))))
			tc.change(&i.NodeENIs[0])
			i = converge(t, i)
			if diff := cmp.Diff(tc.want, i.Objects[0].Drift); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			i.NodeENIs[0] = nodeENI("n", "subnet-a")
			if i = converge(t, i); i.Objects[0].Drift != nil {
				t.Errorf("the drift %v stays after the NodeENI is changed back", i.Objects[0].Drift)
			}
		})
	}
}

// TestDifferencesAreReportedInOrder renders one paused NodeENI several times.
func TestDifferencesAreReportedInOrder(t *testing.T) {
	i := attach(converge(t, in(nodeENI("n", "subnet-a", "subnet-b"))))
	i.NodeENIs[0].FirstSlot.Card, i.NodeENIs[0].Paused = 1, true
	want := []string{"Report " + name("n", 0), "Report " + name("n", 1)}
	for range 20 {
		if diff := cmp.Diff(want, verbs(render.Node(i))); diff != "" {
			t.Fatalf("writes (-want +got):\n%s", diff)
		}
	}
}

// TestFreeAddressesChangeNothing lets the order of the subnets of a selector by free addresses change.
func TestFreeAddressesChangeNothing(t *testing.T) {
	n := nodeENI("n")
	match := func(free int) *selector.Found {
		all := slices.Clone(subnets[:2])
		for s := range all {
			all[s].Tags = map[string]string{"k": "v"}
		}
		all[1].FreeIPv4 = free
		return &selector.Found{Subnets: selector.MatchSubnets(selector.SubnetTerms{Tags: map[string]string{"k": "v"}}, all), Groups: n.Found.Groups}
	}
	n.Found = match(1)
	i := converge(t, in(n))
	i.NodeENIs[0].Found = match(1000)
	if writes := render.Node(i); len(writes) > 0 {
		t.Errorf("writes %v, want none", verbs(writes))
	}
	i.Objects = nil
	if first := render.Node(i)[0].Spec.Subnets[0].ID; first != "subnet-b" {
		t.Errorf("the preferred subnet is %s, want the one with the most free addresses", first)
	}
}

// TestAtMostMaxObjects has a NodeENI with more subnets than a node can have interfaces.
func TestAtMostMaxObjects(t *testing.T) {
	var ids []string
	var many []eni.Subnet
	for i := range 40 {
		s := subnet("subnet-"+string(rune('a'+i/26))+string(rune('a'+i%26)), zone, vpc, byte(i))
		many, ids = append(many, s), append(ids, s.ID)
	}
	n := nodeENI("n")
	n.Found.Subnets = selector.MatchSubnets(selector.SubnetTerms{IDs: ids}, many)
	if i := converge(t, in(n)); len(i.Objects) != render.MaxObjects {
		t.Errorf("%d objects, want %d", len(i.Objects), render.MaxObjects)
	}
	if placed := n.At(selector.Location{Zone: zone, VPCID: vpc}); placed.Omitted != 8 {
		t.Errorf("%d interfaces are omitted, want 8", placed.Omitted)
	}
}

// The new interface can then wait for the slot of the one that is being removed.
func TestObjectsAreDeletedBeforeOthersAreCreated(t *testing.T) {
	i := attach(converge(t, in(nodeENI("n", "subnet-a"))))
	i.NodeENIs = []render.NodeENI{nodeENI("m", "subnet-a"), i.NodeENIs[0]}
	i.Nodes[0].Labels = i.NodeENIs[0].Selector
	want := []string{"Delete " + name("n", 0), "Create " + name("m", 0)}
	if diff := cmp.Diff(want, verbs(render.Node(i))); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}
