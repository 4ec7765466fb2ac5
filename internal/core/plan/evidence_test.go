// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
)

// Every program with ec2:CreateTags can write tags. They are no reason to detach an interface.

// tagged adds a foreign interface at a slot, with tags like ours.
func (w *minimalEC2) tagged(slot eni.Slot, tags map[string]string) eni.Interface {
	w.occupy(slot)
	id := slices.Max(slices.Collect(maps.Keys(w.interfaces)))
	i := w.interfaces[id]
	i.SubnetID, i.Tags = "s1", maps.Clone(tags)
	w.interfaces[id] = i
	return i
}

// invented returns the tags of a member without an interface.
func invented(w *minimalEC2, uid string, ordinal int) map[string]string {
	m := identity.Member{
		Cluster: cluster, NodeENI: "a", Node: "node-1", InstanceID: instance,
		Key: identity.Key{Owner: identity.Owner(uid), Ordinal: ordinal}, Generation: identity.GenerationAt(w.now.Add(-24 * time.Hour)),
	}
	return m.Tags(w.now.Add(-24*time.Hour), nil)
}

// inUse returns a world in which NodeENI a has its interface, and the ledger that names it.
func inUse() (*minimalEC2, identity.Generations) {
	w := newMinimalEC2(limits(6))
	_, ledger := w.drive(desired(claim("a", desiredInterface(0, 1, "s1"))), nil)
	return w, ledger
}

// remembering plans and executes the given number of times, ten minutes apart, with the copies that the status names,
// and returns the last plan.
func (w *minimalEC2) remembering(d plan.Desired, ledger identity.Generations, times int) plan.Plan {
	var p plan.Plan
	copies := map[string]bool{}
	for range times {
		o := w.observe(ledger)
		o.Copies = copies
		p = plan.Compute(d, o, w.now)
		ledger = p.Ledger
		for _, u := range p.Unverified {
			copies[u.ID] = u.Copy
		}
		for _, action := range p.Actions {
			w.apply(action)
		}
		w.pass(10 * time.Minute)
	}
	return p
}

func TestTagsAloneTakeNothingFromAnInstance(t *testing.T) {
	gone := func(w *minimalEC2) plan.Claim {
		return plan.Claim{
			NodeENI: "a", Owner: "uid-none", Mode: plan.Release, Leaked: true,
			MissingSince: w.now.Add(-48 * time.Hour), Grace: identity.AttachedOrphanGrace,
		}
	}
	wanted := func(*minimalEC2) plan.Claim { return claim("a", desiredInterface(0, 1, "s1")) }
	released := func(*minimalEC2) plan.Claim { return plan.Claim{NodeENI: "a", Owner: "uid-a", Mode: plan.Release} }
	for name, tc := range map[string]struct {
		claim func(*minimalEC2) plan.Claim
		tags  func(w *minimalEC2, real eni.Interface) map[string]string
		copy  bool
	}{
		"a copy of a member's tags, which looks like a surplus": {wanted, func(_ *minimalEC2, real eni.Interface) map[string]string { return real.Tags }, true},
		"a copy, when the NodeENI goes":                         {released, func(_ *minimalEC2, real eni.Interface) map[string]string { return real.Tags }, true},
		"a further ordinal of a NodeENI":                        {wanted, func(w *minimalEC2, _ eni.Interface) map[string]string { return invented(w, "uid-a", 7) }, false},
		"an older generation of a member":                       {wanted, func(w *minimalEC2, _ eni.Interface) map[string]string { return invented(w, "uid-a", 0) }, false},
		"a NodeENI that never was":                              {gone, func(w *minimalEC2, _ eni.Interface) map[string]string { return invented(w, "uid-none", 0) }, false},
		"a NodeENI that is let go":                              {released, func(w *minimalEC2, _ eni.Interface) map[string]string { return invented(w, "uid-a", 3) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, ledger := inUse()
			foreign := w.tagged(device(3), tc.tags(w, w.ours()[0]))
			before := w.interfaces[foreign.ID]
			p := w.remembering(desired(tc.claim(w)), ledger, 10)
			if after := w.interfaces[foreign.ID]; !inventory.Equal(before, after) {
				t.Errorf("it was %+v, and is %+v", before, after)
			}
			if len(p.Unverified) != 1 || p.Unverified[0].ID != foreign.ID || p.Unverified[0].Copy != tc.copy || p.Unverified[0].Message == "" {
				t.Errorf("want it told of, as a copy: %t; got %+v", tc.copy, p.Unverified)
			}
		})
	}
}

// TestNoLedgerSpeaksForTags checks that an unverified interface with invented tags gets no entry in the ledger. The
// entry would be evidence for another interface with the same tags.
func TestNoLedgerSpeaksForTags(t *testing.T) {
	w, ledger := inUse()
	tags := invented(w, "uid-none", 0)
	free := w.make("s1", tags)
	w.interfaces[free.ID] = free
	kept := plan.Claim{NodeENI: "none", Owner: "uid-none", Mode: plan.Retain}
	p := plan.Compute(desired(kept, claim("a", desiredInterface(0, 1, "s1"))), w.observe(ledger), w.now)
	if !maps.Equal(p.Ledger, ledger) {
		t.Errorf("the ledger takes %v from tags, want %v", p.Ledger, ledger)
	}
}

// TestAnInterfaceThatSomebodyMovedIsHeldAsWell has an interface whose tags name this instance, and that is attached to
// another one.
func TestAnInterfaceThatSomebodyMovedIsHeldAsWell(t *testing.T) {
	w, ledger := inUse()
	foreign := w.tagged(device(3), invented(w, "uid-a", 7))
	foreign.Attachment.InstanceID = "i-another"
	w.interfaces[foreign.ID] = foreign
	p := plan.Compute(desired(plan.Claim{NodeENI: "a", Owner: "uid-a", Mode: plan.Release}), w.observe(ledger), w.now)
	if len(p.Unverified) != 1 || p.Unverified[0].ID != foreign.ID {
		t.Errorf("want %s left alone, so that no NodeENI waits for it:\n%s%+v", foreign.ID, p.Explain(), p.Unverified)
	}
}

// TestAnInstanceThatNeverWasANodeLosesNothing has an instance that tags name, but no Node and no ledger.
func TestAnInstanceThatNeverWasANodeLosesNothing(t *testing.T) {
	for name, c := range map[string]plan.Claim{
		"of a NodeENI that is deleted": {NodeENI: "a", Owner: "uid-a", Mode: plan.Release, Why: "its NodeENI is being deleted"},
		"of one that never was": {
			NodeENI: "a", Owner: "uid-a", Mode: plan.Release, Leaked: true, Grace: identity.AttachedOrphanGrace,
			MissingSince: time.Unix(0, 0),
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newMinimalEC2(limits(6))
			foreign := w.tagged(device(1), invented(w, "uid-a", 0))
			d := desired(c)
			d.NodeAbsent = true
			p := w.follow(d, nil, 3, time.Hour)
			if !w.interfaces[foreign.ID].Ready() || len(p.Unverified) != 1 {
				t.Errorf("want it left there and told of:\n%s%+v", p.Explain(), p.Unverified)
			}
			if p.NeedsDescribe || !p.RequeueAt.IsZero() {
				t.Errorf("it is watched for ever: %+v", p)
			}
		})
	}
}

// TestWhatALedgerKnowsGoesWithoutTheProcessThatMadeIt checks that evidence in a ledger outlives the process.
func TestWhatALedgerKnowsGoesWithoutTheProcessThatMadeIt(t *testing.T) {
	released := plan.Claim{NodeENI: "a", Owner: "uid-a", Mode: plan.Release, Why: "the node's labels no longer match its NodeENI"}
	deleted := plan.Claim{NodeENI: "a", Owner: "uid-a", Mode: plan.Release, Why: "its NodeENI is being deleted", Selects: true}
	for name, tc := range map[string]struct {
		claim    plan.Claim
		evidence func(o *plan.Observed, ledger identity.Generations)
		removed  bool
	}{
		"the ledger": {released, func(o *plan.Observed, l identity.Generations) { o.Ledger = l }, true},
		"the ledger under the node's former name": {released, func(o *plan.Observed, l identity.Generations) { o.OtherLedgers = l }, true},
		"the ID in a status":                      {released, func(o *plan.Observed, _ identity.Generations) { o.Recorded = recordsOf(o.Owned) }, true},
		"nothing, and the node is let go":         {released, func(*plan.Observed, identity.Generations) {}, false},
		"nothing, and all of multieni is removed": {deleted, func(*plan.Observed, identity.Generations) {}, true},
		"a ledger without it, and it is let go": {released, func(o *plan.Observed, _ identity.Generations) {
			o.Ledger = identity.Generations{{Owner: "x"}: 1}
		}, false},
		"a state without it, and it is deleted": {deleted, func(o *plan.Observed, _ identity.Generations) {
			o.HasState = true
		}, false},
		"nothing, after another interface of the deleted NodeENI was removed": {deleted, func(o *plan.Observed, _ identity.Generations) {
			o.UsedGenerations = identity.Generations{{Owner: "uid-a", Ordinal: 5}: 1}
		}, false},
		"the status says that it is another's tag": {deleted, func(o *plan.Observed, l identity.Generations) {
			o.HasState, o.Ledger, o.Copies = true, l, map[string]bool{o.Owned[0].ID: true}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, ledger := inUse()
			w.verified = map[string]bool{}
			o := w.observe(nil)
			tc.evidence(&o, ledger)
			p := plan.Compute(desired(tc.claim), o, w.now)
			if removed := len(p.Actions) == 1; removed != tc.removed || removed == (len(p.Unverified) == 1) {
				t.Errorf("removed: %t, want %t\n%s%+v", removed, tc.removed, p.Explain(), p.Unverified)
			}
		})
	}
}

func recordsOf(owned []inventory.Record) []plan.Recorded {
	var all []plan.Recorded
	for _, r := range owned {
		all = append(all, plan.Recorded{ID: r.ID, Key: r.Member.Key, Generation: r.Member.Generation, Attached: r.Attachment != nil})
	}
	return all
}

// TestALostLedgerDoublesNothing checks that an unverified interface serves the desired one if no verified one exists.
func TestALostLedgerDoublesNothing(t *testing.T) {
	w, _ := inUse()
	w.verified = map[string]bool{}
	calls := w.calls
	p, ledger := w.drive(desired(claim("a", desiredInterface(0, 1, "s1"))), nil)
	if w.calls != calls || len(p.Unverified) > 0 || len(ledger) != 1 {
		t.Errorf("%d calls, ledger %v, unverified %+v", w.calls-calls, ledger, p.Unverified)
	}
}

// TestACopyNeverTakesThePlaceOfWhatItCopies checks that, of two interfaces with one identity, only the recorded one
// serves. The copy does not serve even after the recorded one is deleted.
func TestACopyNeverTakesThePlaceOfWhatItCopies(t *testing.T) {
	w, ledger := inUse()
	own := w.ours()[0]
	records := recordsOf(w.observe(nil).Owned)
	foreign := w.tagged(device(3), own.Tags)
	w.verified = map[string]bool{} // another process
	delete(w.interfaces, own.ID)
	o := w.observe(ledger)
	o.Recorded = records
	p := plan.Compute(desired(claim("a", desiredInterface(0, 1, "s1"))), o, w.now)
	if len(p.Unverified) != 1 || !p.Unverified[0].Copy || len(p.Members) != 1 || p.Members[0].Interface != nil {
		t.Errorf("%s stands for the member:\n%s", foreign.ID, p.Explain())
	}
}

// TestOfTwoThatNothingTellsApartNoneIsTaken has a ledger with only the identity, which does not say which of two
// interfaces is genuine.
func TestOfTwoThatNothingTellsApartNoneIsTaken(t *testing.T) {
	w, ledger := inUse()
	w.tagged(device(3), w.ours()[0].Tags)
	w.verified = map[string]bool{}
	released := plan.Claim{NodeENI: "a", Owner: "uid-a", Mode: plan.Release}
	if p := plan.Compute(desired(released), w.observe(ledger), w.now); len(p.Actions) > 0 || len(p.Unverified) != 2 {
		t.Errorf("want both left alone:\n%s%+v", p.Explain(), p.Unverified)
	}
}

// TestTagsOfAnInterfaceOnAnotherInstanceAreNoEvidence has another program write our tags on an interface of another
// instance. It serves no desired interface here, because it would block that one until a person detaches it.
func TestTagsOfAnInterfaceOnAnotherInstanceAreNoEvidence(t *testing.T) {
	w := newMinimalEC2(limits(6))
	i := w.tagged(device(1), invented(w, "uid-a", 0))
	i.Attachment.InstanceID = "i-other"
	w.interfaces[i.ID], w.verified = i, map[string]bool{}
	p := plan.Compute(desired(claim("a", desiredInterface(0, 1, "s1"))), w.observe(nil), w.now)
	if len(p.Actions) != 1 || len(p.Unverified) != 1 || p.Unverified[0].ID != i.ID {
		t.Errorf("want another interface, and %s left alone:\n%s%+v", i.ID, p.Explain(), p.Unverified)
	}
}

// TestLettingGoKeepsTheOnlyLedger checks that a ledger keeps the attached interface while no other ledger names it.
func TestLettingGoKeepsTheOnlyLedger(t *testing.T) {
	w, ledger := inUse()
	o := w.observe(ledger)
	if p := plan.ReleaseInstance(o, w.now); !maps.Equal(p.Ledger, ledger) || p.RequeueAt.IsZero() {
		t.Errorf("%v, want %v and another look", p.Ledger, ledger)
	}
	o.OtherLedgers = ledger
	if p := plan.ReleaseInstance(o, w.now); len(p.Ledger) > 0 {
		t.Errorf("%v, want none", p.Ledger)
	}
}

// TestLettingGoOfTwoThatNothingTellsApartIsNoPolling checks the requeue: the node that owns the instance adopts neither
// interface before a person removes one of them.
func TestLettingGoOfTwoThatNothingTellsApartIsNoPolling(t *testing.T) {
	for name, tc := range map[string]struct {
		copied, elsewhere bool
		want              time.Duration
	}{
		"one interface, which is taken over at once": {want: 15 * time.Second},
		"one that is attached to another instance":   {elsewhere: true, want: 5 * time.Minute},
		"two with one identity":                      {copied: true, want: 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			w, ledger := inUse()
			if tc.copied {
				w.tagged(device(3), w.ours()[0].Tags)
			}
			w.verified = map[string]bool{}
			if tc.elsewhere {
				w.ours()[0].Attachment.InstanceID = "i-other"
			}
			p := plan.ReleaseInstance(w.observe(ledger), w.now)
			if got := p.RequeueAt.Sub(w.now); !maps.Equal(p.Ledger, ledger) || got != tc.want {
				t.Errorf("the ledger is %v and is looked at again after %s, want %v and %s", p.Ledger, got, ledger, tc.want)
			}
		})
	}
}
