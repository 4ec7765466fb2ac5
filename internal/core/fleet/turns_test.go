// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/fleet"
	"github.com/multieni/multieni/internal/core/selector"
)

// turnsOf returns the objects that have their turn.
func turnsOf(n fleet.NodeENI, objects []fleet.Object, instances []fleet.Instance) (short []string) {
	for name, turn := range fleet.Turns(n, objects, instances) {
		if turn {
			short = append(short, shorten(name))
		}
	}
	slices.Sort(short)
	return short
}

// TestTurns deletes objects that their NodeENI still declares.
func TestTurns(t *testing.T) {
	n := nodeENI("subnet-a", "subnet-b")
	all, instances := fleetOf(n, 3) // 1/0 1/1 2/0 2/1 3/0 3/1
	two, gone := n, n
	two.MaxUnavailable, gone.Deleting = 2, true
	stuck := func(created time.Time) []fleet.Object {
		objects := deleted(notReady(all, 5), 0)
		objects[5].Stalled, objects[5].CreatedAt = true, created
		return objects
	}
	without := slices.Clone(all)
	without[4].ENIID, without[4].Slot, without[4].Attached = "", nil, false
	for title, tc := range map[string]struct {
		n         fleet.NodeENI
		objects   []fleet.Object
		instances []fleet.Instance
		want      []string
	}{
		"none is deleted":                  {n, all, instances, nil},
		"one":                              {n, deleted(all, 2), instances, []string{"2/0"}},
		"one of each instance":             {n, deleted(all, 2, 0, 4), instances, []string{"2/0"}},
		"one of each, two at a time":       {two, deleted(all, 2, 0, 4), instances, []string{"1/0", "2/0"}},
		"all of an instance":               {n, deleted(all, 2, 3), instances, []string{"2/0", "2/1"}},
		"another instance lacks one":       {n, deleted(all[1:], 1), instances, nil},
		"the instance lacks another one":   {n, deleted(all[1:], 0), instances, []string{"1/1"}},
		"another is not ready":             {n, deleted(notReady(all, 5), 0), instances, nil},
		"another waited for a person":      {n, stuck(now.Add(-time.Hour)), instances, []string{"1/0"}},
		"a successor waits for a person":   {n, stuck(now.Add(time.Hour)), instances, nil},
		"one without an interface":         {n, deleted(without, 4), instances, []string{"3/0"}},
		"an instance that is not selected": {n, deleted(all, 4, 0), instances[:2], []string{"1/0", "3/0"}},
		"the NodeENI is deleted":           {gone, deleted(all, 0, 2, 4), instances, []string{"1/0", "1/1", "2/0", "2/1", "3/0", "3/1"}},
		"the NodeENI is paused":            {paused(n), deleted(all, 0), instances, nil},
		"the subnet left the list":         {nodeENI("subnet-b"), deleted(all, 0, 2), instances, []string{"1/0", "2/0"}},
	} {
		t.Run(title, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, turnsOf(tc.n, tc.objects, tc.instances)); diff != "" {
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
			switch {
			case at < 0:
				fresh.Ready, fresh.Attached, fresh.ENIID, fresh.SubnetID, fresh.Slot = false, false, "", "", nil
				objects = append(objects, fresh)
			case objects[at].Deleting && fleet.Turns(n, objects, instances)[fresh.Name]:
				objects = slices.Delete(slices.Clone(objects), at, at+1)
			case objects[at].Deleting:
			case !objects[at].Ready:
				objects[at] = fresh
			default:
				clock++
				objects = deleted(objects, at)
				objects[at].DeletedAt = now.Add(time.Duration(clock) * time.Second)
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
