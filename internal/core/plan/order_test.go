// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// inOrder declares subnets in an order, the first at the given index.
func inOrder(first int, subnets ...string) render.Claim {
	var interfaces []plan.DesiredInterface
	for n, subnet := range subnets {
		interfaces = append(interfaces, desiredInterface(n, first+n, subnet))
	}
	return claim("a", interfaces...)
}

// TestAnEditUnderReplaceMovesOnlyWhatItMust edits subnets and device index under updatePolicy Replace. The order of the
// subnets moves no interface in use. No more than one interface may be detached at a time.
func TestAnEditUnderReplaceMovesOnlyWhatItMust(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after render.Claim
		want          []placed
		detached      int
	}{
		"two change places": {
			before: inOrder(1, "s1", "s2"), after: inOrder(1, "s2", "s1"),
			want: []placed{{"s1", device(1)}, {"s2", device(2)}},
		},
		"a new one comes first": {
			before: inOrder(1, "s1", "s2"), after: inOrder(1, "s3", "s1", "s2"),
			want: []placed{{"s1", device(1)}, {"s2", device(2)}, {"s3", device(3)}},
		},
		"one that is dropped moves no other": {
			before: inOrder(1, "s1", "s2", "s3"), after: inOrder(1, "s2", "s3"),
			want: []placed{{"s2", device(2)}, {"s3", device(3)}},
		},
		"a higher index moves none": {
			before: inOrder(1, "s1", "s2", "s3"), after: inOrder(2, "s1", "s2", "s3"),
			want: []placed{{"s1", device(1)}, {"s2", device(2)}, {"s3", device(3)}},
		},
		"all move up where only one index will do": {
			before: exactly(inOrder(1, "s1", "s2", "s3")), after: exactly(inOrder(2, "s1", "s2", "s3")),
			want: []placed{{"s1", device(2)}, {"s2", device(3)}, {"s3", device(4)}}, detached: 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHostile(nil, limits(8))
			wanted := tc.before
			c := newRestartable(nil, h, func() render.Declared { return desired(wanted) })
			c.idle(time.Minute)
			detached := countDetaches(t, h, &wanted)
			wanted = replacing(tc.after)
			c.next = c.now()
			c.idle(30 * time.Minute)
			if diff := cmp.Diff(tc.want, placements(h)); diff != "" || *detached != tc.detached {
				t.Errorf("%d interfaces were detached, want %d; placements (-want +got):\n%s\n%s", *detached, tc.detached, diff, c.last.Explain())
			}
			for _, m := range c.last.Members {
				if len(m.Drift) > 0 {
					t.Errorf("%s drifts still: %v", m.Interface.ID, m.Drift)
				}
			}
		})
	}
}

// countDetaches counts from now on the detaches of desired interfaces, and fails the test if one happens while another
// desired interface is not attached.
func countDetaches(t interface{ Errorf(string, ...any) }, h *hostile, wanted *render.Claim) *int {
	detached := new(int)
	h.judge = func(operation string, target eni.Interface) {
		is := func(i eni.Interface) bool { return slices.Contains(subnetsOf(*wanted), i.SubnetID) }
		if operation != "detach" || !is(target) {
			return
		}
		*detached++
		for _, i := range h.ours() {
			if is(i) && i.ID != target.ID && !i.Ready() {
				t.Errorf("%s is detached while %s is not attached", target.ID, i.ID)
			}
		}
	}
	return detached
}

// TestAnotherOrderIsDriftWhereOnlyOneIndexWillDo exchanges two subnets. With Exact each interface belongs at the index of
// its subnet, and the status shows that. An interface moves only to a free index, so neither does.
func TestAnotherOrderIsDriftWhereOnlyOneIndexWillDo(t *testing.T) {
	after := exactly(inOrder(1, "s2", "s1"))
	for name, tc := range map[string]struct {
		after  render.Claim
		reason plan.Reason
		remedy string
	}{
		"in place":  {after, plan.Drifted, "only a detach and an attach move it; set updatePolicy: Replace"},
		"a rollout": {replacing(after), plan.SlotTaken, "deviceIndexPolicy: Prefer"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newMinimalEC2(limits(8))
			_, ledger := w.drive(desired(inOrder(1, "s1", "s2")), nil)
			p := computeWith(desired(tc.after), w.observe(ledger), granted, w.now)
			var got []string
			for _, m := range p.Members {
				for _, d := range m.Drift {
					got = append(got, m.Interface.SubnetID+" "+d.String())
				}
				if m.Why.Reason != tc.reason || !strings.Contains(m.Why.Message, tc.remedy) {
					t.Errorf("want %s with the remedy:\n%s", tc.reason, p.Explain())
				}
			}
			slices.Sort(got)
			want := []string{"s1 slot: want card 0 device 2, have card 0 device 1", "s2 slot: want card 0 device 1, have card 0 device 2"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("drift (-want +got):\n%s", diff)
			}
			if len(p.Actions) > 0 {
				t.Errorf("want no call:\n%s", p.Explain())
			}
		})
	}
}

// TestWhatWasTakenInPassingMovesNothing has another program take the index of an interface that a user deletes, so that
// its successor is above its neighbour. The order of the subnets was not edited: no interface in use is replaced for
// that.
func TestWhatWasTakenInPassingMovesNothing(t *testing.T) {
	h := newHostile(nil, limits(8))
	wanted := replacing(inOrder(1, "s1", "s2"))
	c := newRestartable(nil, h, func() render.Declared { return desired(wanted) })
	c.idle(time.Minute)
	for _, i := range h.ours() {
		if i.SubnetID == "s1" {
			h.drop(i.ID)
		}
	}
	h.occupy(device(1))
	detached := countDetaches(t, h, &wanted)
	c.idle(2 * time.Hour)
	if diff := cmp.Diff([]placed{{"s2", device(2)}, {"s1", device(3)}}, placements(h)); diff != "" || *detached > 0 {
		t.Errorf("%d interfaces were detached; placements (-want +got):\n%s\n%s", *detached, diff, c.last.Explain())
	}
}

// TestASlotThatIsBeingFreedMovesNothing has a NodeENI with Replace request the index of a deleted one. Its first
// interface waits for that index while the second is attached, and neither moves afterwards.
func TestASlotThatIsBeingFreedMovesNothing(t *testing.T) {
	h := newHostile(nil, limits(8))
	before, after := claim("old", desiredInterface(0, 1, "s9")), replacing(inOrder(1, "s1", "s2"))
	wanted := desired(before)
	c := newRestartable(nil, h, func() render.Declared { return wanted })
	c.idle(time.Minute)
	detached := countDetaches(t, h, &after)
	before.Mode = render.Release
	wanted = desired(before, after)
	c.next = c.now()
	c.idle(30 * time.Minute)
	want := []placed{{"s1", device(1)}, {"s2", device(2)}}
	if diff := cmp.Diff(want, placements(h)); diff != "" || *detached != 0 {
		t.Errorf("%d interfaces of the new NodeENI were detached; placements (-want +got):\n%s\n%s", *detached, diff, strings.Join(c.log, "\n"))
	}
}

func subnetsOf(c render.Claim) (subnets []string) {
	for _, w := range c.Interfaces {
		subnets = append(subnets, w.Subnets...)
	}
	return subnets
}

// TestNoOrderMovesAnInterfaceInUse declares one list of subnets after another, on an instance with foreign interfaces.
func TestNoOrderMovesAnInterfaceInUse(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := newHostile(rt, limits(15))
		for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(1, 7), 0, 3, rapid.ID).Draw(rt, "strangers") {
			h.occupy(device(n))
		}
		index := rapid.IntRange(1, 3).Draw(rt, "device index")
		var wanted render.Claim
		declare := func() {
			order := rapid.Permutation([]string{"s1", "s2", "s3", "s4", "s5"}).Draw(rt, "order")
			wanted = replacing(inOrder(index, order[:rapid.IntRange(1, len(order)).Draw(rt, "how many")]...))
		}
		declare()
		detached := countDetaches(rt, h, &wanted)
		c := newRestartable(rt, h, func() render.Declared { return desired(wanted) })
		c.idle(time.Minute)
		for range rapid.IntRange(1, 4).Draw(rt, "edits") {
			declare()
			c.next = c.now()
			c.idle(time.Hour)
			before := h.calls
			c.idle(30 * time.Minute)
			if h.calls != before || *detached > 0 {
				rt.Fatalf("%d calls after an hour, and %d interfaces were detached:\n%s", h.calls-before, *detached, strings.Join(c.log, "\n"))
			}
			for _, m := range c.last.Members {
				if !m.Ready() || len(m.Drift) > 0 {
					rt.Fatalf("not as declared:\n%s\n%s", c.last.Explain(), strings.Join(c.log, "\n"))
				}
			}
		}
	})
}

// TestTwoNodeENIsReachTheirIndices declares device indices of two NodeENIs that overlap, on an instance that has no room
// for another interface.
func TestTwoNodeENIsReachTheirIndices(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := newHostile(rt, limits(7))
		stranger := rapid.IntRange(1, 4).Draw(rt, "stranger")
		h.occupy(device(stranger))
		subnets := map[string][]string{"a": {"s1", "s2"}, "b": {"s3", "s4", "s5"}}
		var wanted render.Declared
		declare := func() {
			wanted = render.Declared{}
			for _, name := range []string{"a", "b"} {
				order := rapid.Permutation(subnets[name]).Draw(rt, name)
				c := inOrder(rapid.IntRange(1, 3).Draw(rt, "device index"), order...)
				c = claim(name, c.Interfaces...)
				wanted = desired(append(wanted.Claims, replacing(c))...)
			}
		}
		declare()
		c := newRestartable(rt, h, func() render.Declared { return wanted })
		c.idle(time.Minute)
		for range rapid.IntRange(1, 3).Draw(rt, "edits") {
			declare()
			c.next = c.now()
			c.idle(time.Hour)
			before := h.calls
			c.idle(30 * time.Minute)
			if h.calls != before {
				rt.Fatalf("%d calls after an hour:\n%s", h.calls-before, strings.Join(c.log, "\n"))
			}
			for _, m := range c.last.Members {
				if len(m.Drift) > 0 {
					rt.Fatalf("not as declared:\n%s\n%s", c.last.Explain(), strings.Join(c.log, "\n"))
				}
			}
		}
	})
}
