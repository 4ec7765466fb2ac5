// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/fleet"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
	"github.com/multieni/multieni/internal/core/selector"
)

// TestRollout replaces the interfaces of three instances for another subnet.
func TestRollout(t *testing.T) {
	for title, tc := range map[string]struct {
		change func(n *fleet.NodeENI, objects []fleet.Object, instances []fleet.Instance) []fleet.Object
		want   []string
	}{
		"one at a time": {nil, []string{"1/0"}},
		"two at a time": {func(n *fleet.NodeENI, objects []fleet.Object, _ []fleet.Instance) []fleet.Object {
			n.MaxUnavailable = 2
			return objects
		}, []string{"1/0", "2/0"}},
		"InPlace": {func(n *fleet.NodeENI, objects []fleet.Object, _ []fleet.Instance) []fleet.Object {
			n.Replace = false
			return objects
		}, nil},
		"paused": {func(n *fleet.NodeENI, objects []fleet.Object, _ []fleet.Instance) []fleet.Object {
			n.Paused = true
			return objects
		}, nil},
		"the first node is paused": {func(_ *fleet.NodeENI, objects []fleet.Object, instances []fleet.Instance) []fleet.Object {
			instances[0].Paused = true
			return objects
		}, []string{"2/0"}},
		"unresolved": {func(n *fleet.NodeENI, objects []fleet.Object, _ []fleet.Instance) []fleet.Object {
			n.Found = nil
			return objects
		}, nil},
		"a subnet is unknown": {func(n *fleet.NodeENI, objects []fleet.Object, _ []fleet.Instance) []fleet.Object {
			*n = resolved(*n, "subnet-b", "subnet-x")
			return rendered(*n, objects)
		}, nil},
		"a group is unknown": {func(n *fleet.NodeENI, objects []fleet.Object, _ []fleet.Instance) []fleet.Object {
			n.Found.Groups = selector.MatchGroups(selector.GroupTerms{IDs: []string{"sg-9"}}, nil)
			return rendered(*n, objects)
		}, nil},
		"an object is not rendered from the present NodeENI": {func(_ *fleet.NodeENI, objects []fleet.Object, _ []fleet.Instance) []fleet.Object {
			objects[0].Spec.Revision = "older"
			return objects
		}, []string{"2/0"}},
		"a launch interface": {func(_ *fleet.NodeENI, objects []fleet.Object, _ []fleet.Instance) []fleet.Object {
			objects[0].Launched = true
			return objects
		}, []string{"2/0"}},
		"one is being replaced": {func(_ *fleet.NodeENI, objects []fleet.Object, _ []fleet.Instance) []fleet.Object {
			return deleted(objects, 1)
		}, nil},
		"the successor is missing": {func(_ *fleet.NodeENI, objects []fleet.Object, _ []fleet.Instance) []fleet.Object {
			return objects[1:]
		}, nil},
		"the successor is not ready": {func(_ *fleet.NodeENI, objects []fleet.Object, _ []fleet.Instance) []fleet.Object {
			objects[0].Ready, objects[0].Attached, objects[0].SubnetID, objects[0].Slot, objects[0].ENIID = false, false, "", nil, ""
			return objects
		}, nil},
		"another interface is broken": {func(_ *fleet.NodeENI, objects []fleet.Object, _ []fleet.Instance) []fleet.Object {
			objects[2].Ready = false
			return objects
		}, nil},
		"another interface waits for a person, and its replacement corrects it": {func(_ *fleet.NodeENI, objects []fleet.Object, _ []fleet.Instance) []fleet.Object {
			objects[2].Ready, objects[2].Stalled = false, true
			return objects
		}, []string{"3/0"}},
		"two wait for a person, and their replacement corrects them": {func(_ *fleet.NodeENI, objects []fleet.Object, _ []fleet.Instance) []fleet.Object {
			objects[1].Ready, objects[1].Stalled = false, true
			objects[2].Ready, objects[2].Stalled = false, true
			return objects
		}, []string{"2/0"}},
		"two at a time, and one waits for a person": {func(n *fleet.NodeENI, objects []fleet.Object, _ []fleet.Instance) []fleet.Object {
			n.MaxUnavailable, objects[2].Ready, objects[2].Stalled = 2, false, true
			return objects
		}, []string{"1/0", "3/0"}},
		"another interface waits for a person, and a replacement changes nothing": {func(_ *fleet.NodeENI, objects []fleet.Object, _ []fleet.Instance) []fleet.Object {
			objects[2].Ready, objects[2].Stalled, objects[2].SubnetID = false, true, "subnet-b"
			return objects
		}, nil},
		"another interface waited for a person, as an older NodeENI declared it": {func(_ *fleet.NodeENI, objects []fleet.Object, _ []fleet.Instance) []fleet.Object {
			objects[2].Ready, objects[2].Stalled, objects[2].Settled = false, true, false
			return objects
		}, nil},
		"the successor waits for a person, and the NodeENI is corrected": {func(n *fleet.NodeENI, objects []fleet.Object, _ []fleet.Instance) []fleet.Object {
			n.Turns = []fleet.Turn{given(objects[0])}
			objects[0].Ready, objects[0].Stalled = false, true
			return objects
		}, []string{"1/0"}},
		"the first one is replaced": {func(n *fleet.NodeENI, objects []fleet.Object, _ []fleet.Instance) []fleet.Object {
			objects[0].SubnetID = "subnet-b"
			return objects
		}, []string{"2/0"}},
	} {
		t.Run(title, func(t *testing.T) {
			objects, instances := fleetOf(nodeENI("subnet-a"), 3)
			n := nodeENI("subnet-b")
			objects = rendered(n, objects)
			if tc.change != nil {
				objects = tc.change(&n, objects, instances)
			}
			out := fleet.Compute(n, objects, instances, now)
			if diff := cmp.Diff(tc.want, names(out.Delete)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, d := range out.Delete {
				if d.Version == "" || !strings.Contains(d.Why, "subnet") {
					t.Errorf("got %+v, want a version and the difference", d)
				}
			}
			n.Turns = out.Turns // and the deletion did not succeed
			if diff := cmp.Diff(out.Turns, fleet.Compute(n, objects, instances, now).Turns); diff != "" {
				t.Errorf("computed again (-first +second):\n%s", diff)
			}
		})
	}
}

// TestARolloutReplacesOneInterfaceOfANodeAtATime has two interfaces on each node.
func TestARolloutReplacesOneInterfaceOfANodeAtATime(t *testing.T) {
	objects, instances := fleetOf(nodeENI("subnet-a", "subnet-b"), 3)
	n := nodeENI("subnet-a", "subnet-b")
	n.FirstSlot, n.ExactSlot, n.MaxUnavailable = eni.Slot{Device: 5}, true, 10
	out := fleet.Compute(n, rendered(n, objects), instances, now)
	if diff := cmp.Diff([]string{"1/0", "2/0", "3/0"}, names(out.Delete)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAStalledInterfaceIsReplacedFirst has two interfaces with drift on the node. The other one serves meanwhile, also
// if its turn is older.
func TestAStalledInterfaceIsReplacedFirst(t *testing.T) {
	for title, turns := range map[string]func(o fleet.Object) []fleet.Turn{
		"no turn is given":     func(fleet.Object) []fleet.Turn { return nil },
		"the other one has it": func(o fleet.Object) []fleet.Turn { return []fleet.Turn{{o.Spec.InstanceID, o.Name, o.UID}} },
	} {
		t.Run(title, func(t *testing.T) {
			objects, instances := fleetOf(nodeENI("subnet-a", "subnet-b"), 1)
			n := nodeENI("subnet-a", "subnet-b")
			n.FirstSlot, n.ExactSlot, n.Turns = eni.Slot{Device: 5}, true, turns(objects[0])
			objects[1].Ready, objects[1].Stalled = false, true
			out := fleet.Compute(n, rendered(n, objects), instances, now)
			if diff := cmp.Diff([]string{"1/1"}, names(out.Delete)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestARolloutWaitsForOtherNodeENIs has an instance on which another NodeENI has a turn.
func TestARolloutWaitsForOtherNodeENIs(t *testing.T) {
	objects, instances := fleetOf(nodeENI("subnet-a"), 2)
	n := nodeENI("subnet-b")
	instances[0].Busy = true
	if diff := cmp.Diff([]string{"2/0"}, names(fleet.Compute(n, rendered(n, objects), instances, now).Delete)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestANodeWithoutASubnetBlocksNoRollout has an instance that never had an interface.
func TestANodeWithoutASubnetBlocksNoRollout(t *testing.T) {
	objects, instances := fleetOf(nodeENI("subnet-a"), 2)
	n := nodeENI("subnet-b")
	never := blocked(n, instanceID(9), 0, plan.NoSubnetInZone)
	never.Spec.Zone = "us-east-1c"
	instances = append(instances, fleet.Instance{ID: instanceID(9), Zone: "us-east-1c"})
	out := fleet.Compute(n, append(rendered(n, objects), never), instances, now)
	if diff := cmp.Diff([]string{"1/0"}, names(out.Delete)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	full := blocked(n, instanceID(9), 0, plan.SubnetFull)
	instances[2].Zone, full.Spec.Zone, full.Spec.Problem = zone, zone, nil
	if out := fleet.Compute(n, append(rendered(n, objects), full), instances, now); len(out.Delete) > 0 {
		t.Errorf("%v are replaced while a node lacks an interface for another reason", names(out.Delete))
	}
}

// TestNoSubnetReplacesNothing leaves no subnet to live interfaces.
func TestNoSubnetReplacesNothing(t *testing.T) {
	objects, instances := fleetOf(nodeENI("subnet-a"), 2)
	n := nodeENI("subnet-far")
	out := fleet.Compute(n, rendered(n, objects), instances, now)
	if len(out.Delete) > 0 || out.Status.Drifted != 2 || out.Status.Desired != 2 {
		t.Errorf("deletes %v, status %+v; want no deletion and two interfaces with drift", names(out.Delete), out.Status)
	}
	for name, why := range out.Status.Drift {
		if why.Reason != plan.Drifted || !strings.Contains(why.Message, "stays as it is") {
			t.Errorf("%s: %+v", name, why)
		}
	}
}

// TestDeletion deletes the objects of a NodeENI together with it.
func TestDeletion(t *testing.T) {
	objects, instances := fleetOf(nodeENI("subnet-a"), 3)
	n := nodeENI("subnet-a")
	n.Deleting = true
	out := fleet.Compute(n, deleted(objects, 1), instances, now)
	if diff := cmp.Diff([]string{"1/0", "3/0"}, names(out.Delete)); diff != "" || out.Done {
		t.Errorf("done %t (-want +got):\n%s", out.Done, diff)
	}
	if out := fleet.Compute(n, nil, instances, now); !out.Done {
		t.Error("it is not done without objects")
	}
	n.Paused = true
	if out := fleet.Compute(n, objects, instances, now); len(out.Delete) > 0 {
		t.Errorf("a paused NodeENI deletes %v", names(out.Delete))
	}
}

// TestOrphans has objects of a NodeENI that does not exist.
func TestOrphans(t *testing.T) {
	n := fleet.NodeENI{Absent: true}
	for title, tc := range map[string]struct {
		orphanedAt time.Time
		without    bool
		deleted    bool
		marked     bool
		next       time.Time
	}{
		"found now":                   {marked: true},
		"found 23 hours ago":          {orphanedAt: now.Add(-23 * time.Hour), next: now.Add(time.Hour)},
		"found 24 hours ago":          {orphanedAt: now.Add(-24 * time.Hour), deleted: true},
		"it has no interface":         {without: true, deleted: true},
		"no interface, marked before": {without: true, orphanedAt: now, deleted: true},
	} {
		t.Run(title, func(t *testing.T) {
			objects, _ := fleetOf(nodeENI("subnet-a"), 1)
			objects[0].OrphanedAt = tc.orphanedAt
			if tc.without {
				objects[0].ENIID = ""
			}
			out := fleet.Compute(n, objects, nil, now)
			if (len(out.Delete) > 0) != tc.deleted || (len(out.Orphan) > 0) != tc.marked || !out.Next.Equal(tc.next) {
				t.Errorf("got %+v", out)
			}
		})
	}
	network, _ := fleetOf(nodeENI("subnet-a"), 1)
	network[0].Spec.Origin = render.OriginNetwork
	if out := fleet.Compute(n, network, nil, now); len(out.Orphan)+len(out.Delete) > 0 {
		t.Errorf("an object of a network is an orphan: %+v", out)
	}
}

// TestEvictions evicts pods from at most maxUnavailable objects.
func TestEvictions(t *testing.T) {
	all, instances := fleetOf(nodeENI("subnet-a"), 3)
	evicted := func(n fleet.NodeENI, objects []fleet.Object, instances []fleet.Instance) (short []string) {
		for _, o := range fleet.Compute(n, objects, instances, now).Evict {
			short = append(short, shorten(o.Name))
		}
		return short
	}
	n := nodeENI("subnet-a")
	gone, two, turn := n, n, n
	gone.Deleting, two.MaxUnavailable, turn.Turns = true, 2, []fleet.Turn{given(all[2])}
	waits := held(all, 0, 1, 2)
	waits[0].Spec.Pods = &render.Pods{OnRemoval: "Wait", Closed: true}
	open := held(all, 0, 1, 2)
	open[0].Spec.Pods = &render.Pods{OnRemoval: "Evict"}
	kept := held(deleted(all, 0, 1), 0, 1)
	kept[0].KeepsENI = true
	for title, tc := range map[string]struct {
		n         fleet.NodeENI
		objects   []fleet.Object
		instances []fleet.Instance
		want      []string
	}{
		"closed":                            {n, held(all, 0, 1, 2), nil, []string{"1/0"}},
		"closed, two at a time":             {two, held(all, 0, 1, 2), nil, []string{"1/0", "2/0"}},
		"nothing uses the first one":        {n, held(all, 1, 2), nil, []string{"2/0"}},
		"the first one waits for its pods":  {n, waits, nil, []string{"2/0"}},
		"the first one stays":               {n, open, nil, []string{"2/0"}},
		"the second one was deleted first":  {gone, held(deleted(all, 1, 0, 2), 0, 1, 2), nil, []string{"2/0"}},
		"deleted, and still declared":       {n, held(deleted(all, 1, 0), 0, 1), instances, []string{"2/0"}},
		"deleted, and another has its turn": {turn, held(deleted(notReady(all, 2), 1), 1), instances, nil},
		"deleted, and its ENI stays":        {gone, kept, nil, []string{"2/0"}},
		"closed, and the NodeENI is paused": {paused(n), held(all, 0), nil, nil},
	} {
		t.Run(title, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, evicted(tc.n, tc.objects, tc.instances)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func notReady(objects []fleet.Object, at int) []fleet.Object {
	objects = slices.Clone(objects)
	objects[at].Ready = false
	return objects
}

func paused(n fleet.NodeENI) fleet.NodeENI {
	n.Paused = true
	return n
}

// TestStatus counts interfaces.
func TestStatus(t *testing.T) {
	n := nodeENI("subnet-a")
	inPlace := n
	inPlace.Replace = false
	all, instances := fleetOf(n, 3)
	moved := slices.Clone(all)
	moved[0].SubnetID = "subnet-c"
	outdated := slices.Clone(all)
	outdated[1].Spec.Revision = "older"
	left := append(slices.Clone(all), func() fleet.Object {
		o := all[0]
		o.Name, o.Spec.InstanceID = "left", instanceID(9)
		return o
	}())
	for title, tc := range map[string]struct {
		n       fleet.NodeENI
		objects []fleet.Object
		want    fleet.Status
	}{
		"all is well":              {n, all, fleet.Status{Desired: 3, Attached: 3, Ready: 3}},
		"one is missing":           {n, all[1:], fleet.Status{Desired: 2, Attached: 2, Ready: 2, Waiting: 1}},
		"one is not ready":         {n, notReady(all, 0), fleet.Status{Desired: 3, Attached: 3, Ready: 2}},
		"one is of an older one":   {n, outdated, fleet.Status{Desired: 3, Attached: 3, Ready: 3, Waiting: 1}},
		"one is in another subnet": {inPlace, moved, fleet.Status{Desired: 3, Attached: 3, Ready: 2, Drifted: 1}},
		"one is replaced":          {n, deleted(all, 0), fleet.Status{Desired: 3, Attached: 3, Ready: 2}},
		"one is not selected":      {n, left, fleet.Status{Desired: 3, Attached: 3, Ready: 3}},
		"one is blocked":           {n, append(slices.Clone(all[1:]), blocked(n, instanceID(1), 0, plan.SubnetFull)), fleet.Status{Desired: 3, Attached: 2, Ready: 2, Blocked: 1}},
	} {
		t.Run(title, func(t *testing.T) {
			got := fleet.Compute(tc.n, tc.objects, instances, now).Status
			got.Drift, got.Leaving = nil, nil
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnotherVPCReplacesNothing selects a subnet of the zone that is in another VPC. The rendering says so: its
// problem keeps the interface.
func TestAnotherVPCReplacesNothing(t *testing.T) {
	before := nodeENI("subnet-a")
	objects, instances := fleetOf(before, 1)
	after := resolved(before, "subnet-b")
	objects = rendered(after, objects)
	if out := fleet.Compute(after, objects, instances, now); len(out.Delete) != 1 {
		t.Fatalf("a subnet of the same VPC: %+v, want the replacement", out.Delete)
	}
	objects[0].Spec.Problem = &plan.Problem{Reason: plan.NoSubnetInZone, Message: "another VPC"}
	out := fleet.Compute(after, objects, instances, now)
	drift := out.Status.Drift[objects[0].Name]
	if len(out.Delete) > 0 || drift.Reason != plan.Drifted || !strings.Contains(drift.Message, "another VPC") {
		t.Errorf("deletions %+v and drift %+v, want that the interface stays", out.Delete, drift)
	}
}

// TestAnInstanceInOneOfTwoVPCs edits the subnets of a NodeENI to one of each VPC. The interface of the instance is in none
// of them, so that only its own VPC says how many interfaces are declared.
func TestAnInstanceInOneOfTwoVPCs(t *testing.T) {
	before := nodeENI("subnet-a")
	objects, instances := fleetOf(before, 1)
	after := resolved(before, "subnet-b", "subnet-c")
	after.Found.Subnets = selector.MatchSubnets(selector.SubnetTerms{IDs: []string{"subnet-b", "subnet-c"}}, []eni.Subnet{
		{ID: "subnet-b", Zone: zone, VPCID: "vpc-1"}, {ID: "subnet-c", Zone: zone, VPCID: "vpc-2"},
	})
	instances[0].VPCID = "vpc-1"
	if out := fleet.Compute(after, rendered(after, objects), instances, now); len(out.Delete) != 1 {
		t.Errorf("deletions %+v, want the replacement by an interface in the VPC of the instance", out.Delete)
	}
}
