// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/fleet"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// situation returns the state that a controller has in the middle of a story.
func situation(rt *rapid.T) (render.Declared, plan.Observed, time.Time) {
	s := newStory(rt, trouble{faults: true, lag: 10, strangers: true, interference: true})
	s.upheaval(rapid.IntRange(1, 4).Draw(rt, "changes"))
	look := s.cloud.look()
	s.c.known.ObserveInstance(look)
	return s.intents.desired(), plan.Observed{
		Owned: s.c.known.Of(instance), UsedGenerations: s.c.known.UsedGenerations(instance), Snapshot: &look, Limits: s.cloud.limits,
		Ledger: s.c.ledger, Attempts: s.c.attempts,
	}, s.c.now()
}

// said returns a plan in words whose order does not matter.
func said(p plan.Plan) []string {
	return slices.Sorted(strings.Lines(p.Explain()))
}

// TestTheOrderOfFactsDoesNotMatter leaves the security groups of a claim in their order, because package selector sorts
// them.
func TestTheOrderOfFactsDoesNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		d, o, now := situation(rt)
		replace := fleet.Permission{Granted: rapid.Bool().Draw(rt, "may replace")}
		ordered := computeWith(d, o, replace, now)

		d.Claims = shuffled(rt, d.Claims)
		o.Owned = shuffled(rt, o.Owned)
		look := *o.Snapshot
		look.Interfaces = shuffled(rt, look.Interfaces)
		o.Snapshot = &look
		mixed := computeWith(d, o, replace, now)
		if diff := cmp.Diff(said(ordered), said(mixed)); diff != "" {
			rt.Errorf("another order of the same facts makes another plan:\n%s", diff)
		}
		if !maps.Equal(ordered.Ledger, mixed.Ledger) || !ordered.RequeueAt.Equal(mixed.RequeueAt) {
			rt.Errorf("ledgers %v and %v, looks at %s and %s", ordered.Ledger, mixed.Ledger, ordered.RequeueAt, mixed.RequeueAt)
		}
	})
}

func shuffled[T any](rt *rapid.T, all []T) []T {
	if len(all) < 2 {
		return all
	}
	return rapid.Permutation(all).Draw(rt, "order")
}

func TestComputeLeavesItsArgumentsAlone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		d, o, now := situation(rt)
		before := render.Declared{Claims: slices.Clone(d.Claims)}
		for n := range before.Claims {
			before.Claims[n].Interfaces = slices.Clone(d.Claims[n].Interfaces)
		}
		owned, ledger := slices.Clone(o.Owned), maps.Clone(o.Ledger)
		for n := range owned {
			owned[n].Interface = owned[n].Clone()
		}
		computeWith(d, o, granted, now)
		if !reflect.DeepEqual(before.Claims, d.Claims) || !reflect.DeepEqual(owned, o.Owned) || !maps.Equal(ledger, o.Ledger) {
			rt.Error("Compute changed what it was given")
		}
	})
}

// stranger returns an interface with our tags for a member of NodeENI a, where no interface of ours can be.
func stranger(i eni.Interface) eni.Interface {
	m := identity.Member{Cluster: cluster, NodeENI: "a", Node: nodeName, InstanceID: instance, Key: identity.Key{Owner: "uid-a"}, Generation: 1}
	i.ID, i.SubnetID, i.Tags = "eni-stranger", "s1", m.Tags(start, nil)
	return i
}

// TestCopiedTagsMoveNothing puts our tags on interfaces that other instances and services use.
func TestCopiedTagsMoveNothing(t *testing.T) {
	attached := func(instanceID string, slot eni.Slot) *eni.Attachment {
		return &eni.Attachment{ID: "attach-stranger", InstanceID: instanceID, Slot: slot, Status: eni.AttachmentAttached}
	}
	strangers := map[string]eni.Interface{
		"the primary interface":           {Status: eni.InUse, Attachment: attached(instance, eni.Primary)},
		"one of an AWS service":           {Status: eni.InUse, RequesterManaged: true, Attachment: attached(instance, device(1))},
		"one that is on another instance": {Status: eni.InUse, Attachment: attached("i-00000000000000002", device(1))},
	}
	standings := map[string]render.Mode{"wanted": render.Ensure, "released": render.Release, "held": render.Retain}
	for name, i := range strangers {
		for word, standing := range standings {
			t.Run(name+", "+word, func(t *testing.T) {
				w := newMinimalEC2(limits(4))
				known := inventory.New(cluster)
				known.ObserveInterfaces(start.Add(-time.Hour), stranger(i))
				known.ObserveInterfaces(start, stranger(i))
				o := w.observe(nil)
				o.Owned = known.Of(instance)
				c := claim("a", desiredInterface(0, 3, "s9"))
				c.Mode, c.ReplaceAllowed, c.ExactSlot = standing, true, true
				for _, action := range computeWith(desired(c), o, granted, start).Actions {
					if !strings.HasPrefix(action.String(), "create") {
						t.Errorf("planned: %s", action)
					}
				}
			})
		}
	}
}

func TestADeletedInterfaceThatIsStillShownHoldsNoSlot(t *testing.T) {
	w := newMinimalEC2(limits(4))
	c := claim("a", desiredInterface(0, 1, "s1"))
	_, ledger := w.drive(desired(c), nil)
	o := w.observe(ledger)
	o.Owned = nil // The snapshot in o has it; the inventory is newer.
	p := compute(desired(c), o, w.now)
	if len(p.Actions) != 1 || p.Actions[0].(plan.Create).Slot != device(1) {
		t.Errorf("want a new interface for the slot that is free:\n%s", p.Explain())
	}
}

func TestAnInterfaceAttachedElsewhereBlocksNobodyHere(t *testing.T) {
	w := newMinimalEC2(limits(4), device(1))
	known := inventory.New(cluster)
	known.ObserveInterfaces(start, stranger(eni.Interface{Status: eni.InUse, Attachment: &eni.Attachment{
		ID: "x", InstanceID: "i-00000000000000002", Slot: device(1), Status: eni.AttachmentAttached,
	}}))
	o := w.observe(nil)
	o.Owned = known.Of(instance)
	leaving := claim("a")
	leaving.Mode = render.Release
	p := compute(desired(leaving, claim("b", desiredInterface(0, 1, "s1"))), o, start)
	if len(p.Actions) != 1 || p.Actions[0].(plan.Create).Slot != device(2) {
		t.Errorf("the slot of another instance is none of this one's:\n%s", p.Explain())
	}
}

// TestOneOfTwoGoesOnlyWhenTheOtherIsCertain has the controller start while a stale read still returns the predecessor
// of a live interface.
func TestOneOfTwoGoesOnlyWhenTheOtherIsCertain(t *testing.T) {
	w := newMinimalEC2(limits(8))
	c := claim("a", desiredInterface(0, 1, "s1"))
	w.drive(desired(c), nil)
	twin := w.ours()[0].Clone()
	twin.ID, twin.Tags[identity.TagGeneration], twin.Attachment = "eni-twin", "9", nil
	twin.Status = eni.Available
	w.interfaces[twin.ID] = twin

	o := w.observe(nil)
	for n := range o.Owned {
		o.Owned[n].Confirmed = false
	}
	p := compute(desired(c), o, w.now)
	if len(p.Actions) > 0 || p.RequeueAt.IsZero() {
		t.Errorf("want nothing done, and another look:\n%s", p.Explain())
	}
	o.Snapshot = nil
	if p := compute(desired(c), o, w.now); !p.NeedsDescribe {
		t.Error("only looking can make it certain")
	}
	p = compute(desired(c), w.observe(nil), w.now)
	if len(p.Actions) != 1 || p.Actions[0].(plan.Delete).InterfaceID != twin.ID {
		t.Errorf("want the twin deleted:\n%s", p.Explain())
	}
}

func TestOneReplacementAtATime(t *testing.T) {
	h := newHostile(nil, limits(8))
	wanted := claim("a", desiredInterface(0, 1, "s1"), desiredInterface(1, 2, "s2"), desiredInterface(2, 3, "s3"))
	c := newRestartable(nil, h, func() render.Declared { return desired(wanted) })
	c.idle(time.Minute)
	h.judge = func(operation string, target eni.Interface) {
		for _, i := range h.ours() {
			if operation == "detach" && i.ID != target.ID && !i.Ready() {
				t.Errorf("%s is detached while %s is not attached", target.ID, i.ID)
			}
		}
	}
	wanted = claim("a", desiredInterface(0, 1, "s7"), desiredInterface(1, 2, "s8"), desiredInterface(2, 3, "s9"))
	wanted.ReplaceAllowed = true
	c.next = c.now()
	c.idle(10 * time.Minute)
	var got []placed
	for _, i := range h.ours() {
		got = append(got, placed{i.SubnetID, i.Attachment.Slot})
	}
	slices.SortFunc(got, func(a, b placed) int { return eni.CompareSlots(a.Slot, b.Slot) })
	want := []placed{{"s7", device(1)}, {"s8", device(2)}, {"s9", device(3)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%s", diff, c.last.Explain())
	}
}
