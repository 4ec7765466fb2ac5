// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/fleet"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/selector"
)

// mayRemove returns the deleted objects whose interfaces may be removed once the NodeENI recorded its turns.
func mayRemove(n fleet.NodeENI, objects []fleet.Object, instances []fleet.Instance) (short []string) {
	n.Turns = fleet.Compute(n, objects, instances, now).Turns
	for _, o := range objects {
		if o.Deleting && fleet.MayRemove(n, o, onInstance(objects, o.Spec.InstanceID), selected(instances, o.Spec.InstanceID)) {
			short = append(short, shorten(o.Name))
		}
	}
	slices.Sort(short)
	return short
}

func onInstance(objects []fleet.Object, id string) []fleet.Object {
	return slices.DeleteFunc(slices.Clone(objects), func(o fleet.Object) bool { return o.Spec.InstanceID != id })
}

func selected(instances []fleet.Instance, id string) *fleet.Instance {
	if at := slices.IndexFunc(instances, func(i fleet.Instance) bool { return i.ID == id }); at >= 0 {
		return &instances[at]
	}
	return nil
}

// given is the turn of an earlier object of the name of an object.
func given(o fleet.Object) fleet.Turn {
	return fleet.Turn{InstanceID: o.Spec.InstanceID, Name: o.Name, UID: "earlier"}
}

// TestTurns deletes objects that their NodeENI still declares.
func TestTurns(t *testing.T) {
	n := nodeENI("subnet-a", "subnet-b")
	all, instances := fleetOf(n, 3) // 1/0 1/1 2/0 2/1 3/0 3/1
	two, gone := n, n
	two.MaxUnavailable, gone.Deleting = 2, true
	after := func(turns ...fleet.Turn) fleet.NodeENI {
		n := n
		n.Turns = turns
		return n
	}
	without := func(at int) []fleet.Object {
		objects := slices.Clone(all)
		objects[at].ENIID, objects[at].Slot, objects[at].Attached, objects[at].Ready = "", nil, false, false
		return objects
	}
	ended := without(5)
	ended[5].InstanceNotReady = true
	attaching := without(5)
	attaching[0].Attached, attaching[0].Ready = false, false
	leaving := deleted(all, 0, 5)
	leaving[5].SubnetID, leaving[5].Slot, leaving[5].Attached = "subnet-far", nil, false
	leaving = append(leaving, blocked(n, instanceID(3), 2, plan.SubnetFull))
	making := append(deleted(all, 0)[:5], blocked(n, instanceID(3), 2, plan.NoSubnetInZone))
	making[5].Deleting = true
	inUse := slices.Clone(all)
	inUse[0].Held = true
	for title, tc := range map[string]struct {
		n         fleet.NodeENI
		objects   []fleet.Object
		instances []fleet.Instance
		want      []string
	}{
		"none is deleted":                     {n, all, instances, nil},
		"one":                                 {n, deleted(all, 2), instances, []string{"2/0"}},
		"one of each instance":                {n, deleted(all, 2, 0, 4), instances, []string{"2/0"}},
		"one of each, two at a time":          {two, deleted(all, 2, 0, 4), instances, []string{"1/0", "2/0"}},
		"all of an instance":                  {n, deleted(all, 2, 3), instances, []string{"2/0", "2/1"}},
		"the successor of another is missing": {after(given(all[5])), deleted(all[:5], 0), instances, nil},
		"another one goes, in a subnet that left the list": {after(fleet.Turn{InstanceID: instanceID(3), Name: all[5].Name, UID: all[5].UID}), leaving, instances, []string{"3/1"}},
		"an object goes before the successor is made":      {after(given(all[5])), making, instances, []string{"3/2"}},
		"the successor has another ordinal":                {after(fleet.Turn{InstanceID: instanceID(3), Name: "n-2"}), deleted(without(5), 0), instances, nil},
		"the successor of another is not ready":            {after(given(all[5])), deleted(without(5), 0), instances, nil},
		"the successor of another is ready":                {after(given(all[5])), deleted(all, 0), instances, []string{"1/0"}},
		"another is deleted again before it is ready":      {after(given(all[5])), deleted(without(5), 0, 5), instances, []string{"3/1"}},
		"the successor is deleted as well":                 {after(given(all[5])), deleted(all, 5, 0), instances, []string{"3/1"}},
		"another turn is of an ended instance":             {after(given(all[5])), deleted(ended, 0), instances, []string{"1/0"}},
		"another turn is of a node that left":              {after(given(all[5])), deleted(all[:4], 0), instances[:2], []string{"1/0"}},
		"another one lacks one without a turn":             {n, deleted(without(5), 0), instances, []string{"1/0"}},
		"another one is not ready without a turn":          {n, deleted(notReady(all, 5), 0), instances, []string{"1/0"}},
		"the instance lacks another one":                   {after(given(all[0])), deleted(all[1:], 0), instances, []string{"1/1"}},
		"pods use the first":                               {n, deleted(inUse, 0, 2), instances, []string{"2/0"}},
		"EC2 is still attaching one":                       {after(given(all[5])), deleted(attaching, 0), instances, nil},
		"one without an interface":                         {after(given(all[0])), deleted(without(4)[1:], 3), instances, []string{"3/0"}},
		"an instance that is not selected":                 {n, deleted(all, 4, 0), instances[:2], []string{"1/0", "3/0"}},
		"the NodeENI is deleted":                           {gone, deleted(all, 0, 2, 4), instances, []string{"1/0", "2/0", "3/0"}},
		"the NodeENI is paused":                            {paused(n), deleted(all, 0), instances, nil},
		"the subnet left the list":                         {nodeENI("subnet-b"), deleted(all, 0, 2), instances, []string{"1/0", "2/0"}},
	} {
		t.Run(title, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, mayRemove(tc.n, tc.objects, tc.instances)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestAtMostMaxUnavailable deletes, removes, creates and completes objects at random, as users and the controller of
// instances do it. No more instances than maxUnavailable lack an interface because of the deletions.
func TestAtMostMaxUnavailable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := nodeENI("subnet-a", "subnet-b")
		n.MaxUnavailable = rapid.IntRange(1, 3).Draw(t, "maxUnavailable")
		objects, instances := fleetOf(n, 5)
		wanted := n.At(selector.Location{Zone: zone, VPCID: "vpc-1"}).Interfaces
		clock := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i, w := rapid.IntRange(1, 5).Draw(t, "instance"), rapid.IntRange(0, 1).Draw(t, "ordinal")
			fresh := ready(n, instanceID(i), wanted[w])
			at := slices.IndexFunc(objects, func(o fleet.Object) bool { return o.Name == fresh.Name })
			clock++
			switch {
			case at < 0:
				fresh.UID = fmt.Sprint(clock)
				fresh.Ready, fresh.Attached, fresh.ENIID, fresh.SubnetID, fresh.Slot = false, false, "", "", nil
				objects = append(objects, fresh)
			case objects[at].Deleting:
				id := objects[at].Spec.InstanceID
				if fleet.MayRemove(n, objects[at], onInstance(objects, id), selected(instances, id)) {
					objects = slices.Delete(slices.Clone(objects), at, at+1)
				}
			case !objects[at].Ready:
				fresh.UID = objects[at].UID
				objects[at] = fresh
			default:
				objects = deleted(objects, at)
				objects[at].DeletedAt = now.Add(time.Duration(clock) * time.Second)
			}
			if rapid.Bool().Draw(t, "the NodeENI is reconciled") {
				n.Turns = fleet.Compute(n, objects, instances, now).Turns
			}
			if down := lacking(objects); down > n.MaxUnavailable {
				t.Fatalf("%d instances lack an interface, and %d may", down, n.MaxUnavailable)
			}
		}
	})
}

// lacking returns the number of the five instances that lack a ready or attached interface.
func lacking(objects []fleet.Object) (count int) {
	attached := map[string]int{}
	for _, o := range objects {
		if o.Attached {
			attached[o.Spec.InstanceID]++
		}
	}
	for i := 1; i <= 5; i++ {
		if attached[instanceID(i)] < 2 {
			count++
		}
	}
	return count
}
