// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/era"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// Every program with ec2:CreateTags can write tags. They are no reason to detach an interface.

// own is the key of the interface of NodeENI a, and generations the ledger that names it.
var (
	own         = identity.Key{Owner: "uid-a"}
	generations = identity.Generations{own: identity.GenerationAt(start)}
)

func records(of ...inventory.Record) []render.Recorded {
	var all []render.Recorded
	for _, r := range of {
		all = append(all, render.Recorded{
			ID: r.ID, Key: r.Member.Key, Generation: r.Member.Generation, Attached: r.Attachment != nil,
		})
	}
	return all
}

// unverified returns the interfaces that a rendering leaves for a person; the value is true for a copy.
func unverified(r render.Rendering) map[string]bool {
	all := map[string]bool{}
	for _, u := range r.Unverified {
		all[u.ID] = u.Copy
	}
	return all
}

// TestTagsAloneTakeNothingFromAnInstance attaches an interface of another program, with tags like ours.
func TestTagsAloneTakeNothingFromAnInstance(t *testing.T) {
	wanted, released := asks("a", "s1"), render.Claim{NodeENI: "a", Owner: "uid-a", Mode: render.Release}
	neverWas := render.Claim{
		NodeENI: "a", Owner: "uid-none", Mode: render.Release, Leaked: true, MissingSince: start,
		Grace: identity.AttachedOrphanGrace,
	}
	for name, tc := range map[string]struct {
		claim render.Claim
		key   identity.Key
		older bool
		copy  bool
	}{
		"a copy of a member's tags, which looks like a surplus": {wanted, own, false, true},
		"a copy, when the NodeENI goes":                         {released, own, false, true},
		"a further ordinal of a NodeENI":                        {wanted, identity.Key{Owner: "uid-a", Ordinal: 7}, true, false},
		"an older generation of a member":                       {wanted, own, true, false},
		"a NodeENI that never was":                              {neverWas, identity.Key{Owner: "uid-none"}, false, false},
		"a NodeENI that is let go":                              {released, identity.Key{Owner: "uid-a", Ordinal: 3}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			foreign := unproved(inUse("eni-foreign", tc.key, "s1", 3))
			if tc.older {
				foreign.Member.Generation--
			}
			o := running(inUse("eni-own", own, "s1", 1), foreign)
			o.Ledger = generations
			r := render.Interfaces(declared(tc.claim), render.Evidence{}, o, now)
			if diff := cmp.Diff(map[string]bool{"eni-foreign": tc.copy}, unverified(r)); diff != "" {
				t.Errorf("unverified (-want +got):\n%s", diff)
			}
			for _, i := range r.Interfaces {
				if i.Interface != nil && i.Interface.ID == "eni-foreign" {
					t.Errorf("it is planned for: %v", goals(r))
				}
			}
		})
	}
}

// TestARetainedInterfaceWithTagsAloneIsNoMember checks that an unverified interface gets no entry in the ledger. The
// entry would be evidence for another interface with the same tags.
func TestARetainedInterfaceWithTagsAloneIsNoMember(t *testing.T) {
	free := unproved(unattached(inUse("eni-1", own, "s1", 0)))
	kept := render.Claim{NodeENI: "a", Owner: "uid-a", Mode: render.Retain}
	r := render.Interfaces(declared(kept), render.Evidence{}, running(free), now)
	if i := r.Interfaces[0]; i.Goal != plan.Retain || !i.Unverified || i.EntersLedger {
		t.Errorf("got %+v", i)
	}
}

// TestASurplusThatWaitsForAReadIsNoMember has an unattached interface with a later generation in its tags than the
// member's. While it waits until the member's own is certain, the ledger must not get that generation: it would be
// evidence for an attached interface with the same tags.
func TestASurplusThatWaitsForAReadIsNoMember(t *testing.T) {
	uncertain, free := inUse("eni-own", own, "s1", 1), unproved(unattached(inUse("eni-free", own, "s1", 0)))
	uncertain.Confirmed = false
	free.Member.Generation++
	o := running(uncertain, free)
	o.Ledger = generations
	r := render.Interfaces(declared(asks("a", "s1")), render.Evidence{}, o, now)
	if diff := cmp.Diff([]string{"ensure a[0] eni-own", "retain a[0] eni-free"}, goals(r)); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	if ledger := plan.Compute(r.Desired, o, now).Ledger; ledger[own] != generations[own] {
		t.Errorf("the ledger has generation %d of the member, whose interface has %d", ledger[own], generations[own])
	}
}

// TestAnInterfaceThatAPersonMovedIsHeldAsWell has an interface whose tags name this instance, and that is attached to
// another one: it is not removed, and serves no desired interface here.
func TestAnInterfaceThatAPersonMovedIsHeldAsWell(t *testing.T) {
	moved := unproved(elsewhere(inUse("eni-1", own, "s1", 1)))
	for name, tc := range map[string]struct {
		claim render.Claim
		want  []string
	}{
		"released": {render.Claim{NodeENI: "a", Owner: "uid-a", Mode: render.Release}, nil},
		"wanted":   {asks("a", "s1"), []string{"ensure a[0]"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := render.Interfaces(declared(tc.claim), render.Evidence{}, running(moved), now)
			if diff := cmp.Diff(tc.want, goals(r)); diff != "" || len(r.Unverified) != 1 {
				t.Errorf("unverified %v (-want +got):\n%s", r.Unverified, diff)
			}
		})
	}
}

// TestAnInstanceThatNeverWasANodeLosesNothing has an instance that tags name, but no Node and no ledger.
func TestAnInstanceThatNeverWasANodeLosesNothing(t *testing.T) {
	for name, claim := range map[string]render.Claim{
		"of a NodeENI that is deleted": {NodeENI: "a", Owner: "uid-a", Mode: render.Release, Why: "its NodeENI is being deleted"},
		"of one that never was": {
			NodeENI: "a", Owner: "uid-a", Mode: render.Release, Leaked: true, Grace: identity.AttachedOrphanGrace, MissingSince: time.Unix(0, 0),
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := declared(claim)
			d.NodeAbsent = true
			r := render.Interfaces(d, render.Evidence{}, running(unproved(inUse("eni-1", own, "s1", 1))), now)
			if len(r.Interfaces) > 0 || len(r.Unverified) != 1 || !strings.Contains(r.Unverified[0].Message, "no Node and no NodeENIState") {
				t.Errorf("interfaces %v, unverified %v", goals(r), r.Unverified)
			}
		})
	}
}

// TestWhatALedgerKnowsGoesWithoutTheProcessThatMadeIt checks that evidence in a ledger outlives the process.
func TestWhatALedgerKnowsGoesWithoutTheProcessThatMadeIt(t *testing.T) {
	released := render.Claim{NodeENI: "a", Owner: "uid-a", Mode: render.Release, Why: "the node's labels no longer match"}
	deleted := render.Claim{NodeENI: "a", Owner: "uid-a", Mode: render.Release, Why: "it is being deleted", Selects: true}
	record := unproved(inUse("eni-1", own, "s1", 1))
	for name, tc := range map[string]struct {
		claim    render.Claim
		evidence render.Evidence
		ledger   identity.Generations
		used     identity.Generations
		removed  bool
		// enters is set if the ledger must name the interface.
		enters bool
	}{
		"the ledger": {claim: released, ledger: generations, removed: true},
		"the ledger under the node's former name": {claim: released, evidence: render.Evidence{OtherLedgers: generations}, removed: true},
		"the ID in a status":                      {claim: released, evidence: render.Evidence{Recorded: records(record)}, removed: true},
		"nothing, and the node is let go":         {claim: released},
		"nothing, and all of multieni is removed": {claim: deleted, removed: true, enters: true},
		"a ledger without it, and it is let go":   {claim: released, ledger: identity.Generations{{Owner: "x"}: 1}},
		"a state without it, and it is deleted":   {claim: deleted, evidence: render.Evidence{HasState: true}},
		"nothing, after another interface of the deleted NodeENI was removed": {
			claim: deleted, used: identity.Generations{{Owner: "uid-a", Ordinal: 5}: 1},
		},
		"the status says that it is another's tag": {
			claim: deleted, ledger: generations, evidence: render.Evidence{HasState: true, Copies: map[string]bool{"eni-1": true}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := running(record)
			o.Ledger, o.UsedGenerations = tc.ledger, tc.used
			r := render.Interfaces(declared(tc.claim), tc.evidence, o, now)
			removed := len(r.Interfaces) == 1 && r.Interfaces[0].Goal == plan.Release
			if removed != tc.removed || removed == (len(r.Unverified) == 1) {
				t.Errorf("removed: %t, want %t\n%v", removed, tc.removed, r.Unverified)
			}
			if removed && r.Interfaces[0].EntersLedger != tc.enters {
				t.Errorf("enters the ledger: %t, want %t", r.Interfaces[0].EntersLedger, tc.enters)
			}
		})
	}
}

// TestALostLedgerDoublesNothing checks that an unverified interface serves the desired one if no verified one exists.
func TestALostLedgerDoublesNothing(t *testing.T) {
	r := render.Interfaces(declared(asks("a", "s1")), render.Evidence{}, running(unproved(inUse("eni-1", own, "s1", 1))), now)
	if diff := cmp.Diff([]string{"ensure a[0] eni-1"}, goals(r)); diff != "" || len(r.Unverified) > 0 {
		t.Errorf("unverified %v (-want +got):\n%s", r.Unverified, diff)
	}
	if diff := cmp.Diff([]string{"eni-1"}, r.Verified); diff != "" {
		t.Errorf("verified (-want +got):\n%s", diff)
	}
}

// TestACopyNeverTakesThePlaceOfWhatItCopies checks that, of two interfaces with one identity, only the recorded one
// serves. The copy does not serve even after the recorded one is deleted.
func TestACopyNeverTakesThePlaceOfWhatItCopies(t *testing.T) {
	e := render.Evidence{Recorded: records(inUse("eni-own", own, "s1", 1))}
	o := running(unproved(inUse("eni-copy", own, "s1", 3)))
	o.Ledger = generations
	r := render.Interfaces(declared(asks("a", "s1")), e, o, now)
	if diff := cmp.Diff(map[string]bool{"eni-copy": true}, unverified(r)); diff != "" {
		t.Errorf("unverified (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"ensure a[0]"}, goals(r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTheTagsOfADeletedInterfaceAreACopy has an interface with the tags of one that this process deleted, after the ledger
// was lost.
func TestTheTagsOfADeletedInterfaceAreACopy(t *testing.T) {
	o := running(unproved(inUse("eni-copy", own, "s1", 3)))
	o.UsedGenerations = generations
	r := render.Interfaces(declared(asks("a", "s1")), render.Evidence{}, o, now)
	if diff := cmp.Diff(map[string]bool{"eni-copy": true}, unverified(r)); diff != "" {
		t.Errorf("unverified (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"ensure a[0]"}, goals(r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestALedgerAdoptsNoEarlierGeneration has a ledger that names an interface which no read shows yet, and an unverified one
// with an earlier generation, or two with the same identity.
func TestALedgerAdoptsNoEarlierGeneration(t *testing.T) {
	earlier := unproved(inUse("eni-1", own, "s1", 1))
	earlier.Member.Generation--
	for name, owned := range map[string][]inventory.Record{
		"an earlier generation":      {earlier},
		"two with the same identity": {unproved(inUse("eni-1", own, "s1", 1)), unproved(inUse("eni-2", own, "s1", 3))},
	} {
		t.Run(name, func(t *testing.T) {
			o := running(owned...)
			o.Ledger = generations
			r := render.Interfaces(declared(asks("a", "s1")), render.Evidence{}, o, now)
			if diff := cmp.Diff([]string{"ensure a[0]"}, goals(r)); diff != "" || len(r.Unverified) != len(owned) {
				t.Errorf("unverified %v (-want +got):\n%s", r.Unverified, diff)
			}
		})
	}
}

// TestTheSecondInterfaceOfATokenIsNoCopy has an interface that EC2 created again because it forgot the client token. A
// state names the first one, which was never attached.
func TestTheSecondInterfaceOfATokenIsNoCopy(t *testing.T) {
	e := render.Evidence{Recorded: records(unattached(inUse("eni-first", own, "s1", 0)))}
	o := running(unproved(inUse("eni-second", own, "s1", 1)))
	o.Ledger = generations
	r := render.Interfaces(declared(asks("a", "s1")), e, o, now)
	if diff := cmp.Diff([]string{"ensure a[0] eni-second"}, goals(r)); diff != "" || len(r.Unverified) > 0 {
		t.Errorf("unverified %v (-want +got):\n%s", r.Unverified, diff)
	}
}

// TestTagsAloneMakeNoSecondInterfaceOfASubnet has an attached interface of another program, whose tags name a member that
// does not exist yet in another subnet, and our own interface of its subnet, which is not attached yet.
func TestTagsAloneMakeNoSecondInterfaceOfASubnet(t *testing.T) {
	second := identity.Key{Owner: "uid-a", Ordinal: 1}
	o := running(unproved(inUse("eni-foreign", second, "s1", 3)), unproved(unattached(inUse("eni-own", own, "s1", 0))))
	o.Ledger = generations
	r := render.Interfaces(declared(asks("a", "s1", "s2")), render.Evidence{}, o, now)
	if diff := cmp.Diff([]string{"ensure a[0] eni-own", "ensure a[1]"}, goals(r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]bool{"eni-foreign": false}, unverified(r)); diff != "" {
		t.Errorf("unverified (-want +got):\n%s", diff)
	}
}

// TestOfTwoThatNothingTellsApartNoneIsTaken has a ledger with only the identity, which does not say which of two
// interfaces is genuine.
func TestOfTwoThatNothingTellsApartNoneIsTaken(t *testing.T) {
	o := running(unproved(inUse("eni-1", own, "s1", 1)), unproved(inUse("eni-2", own, "s1", 3)))
	o.Ledger = generations
	r := render.Interfaces(declared(render.Claim{NodeENI: "a", Owner: "uid-a", Mode: render.Release}), render.Evidence{}, o, now)
	if diff := cmp.Diff(map[string]bool{"eni-1": false, "eni-2": false}, unverified(r)); diff != "" || len(r.Interfaces) > 0 {
		t.Errorf("interfaces %v, unverified (-want +got):\n%s", goals(r), diff)
	}
}

// TestReleaseInstance releases an instance, and expects a ledger with only the members that may become visible, and
// those that no other ledger names.
func TestReleaseInstance(t *testing.T) {
	generation := identity.GenerationAt(start)
	made := func(generation identity.Generation) []inventory.Record {
		return []inventory.Record{{Member: identity.Member{Key: own, Generation: generation}}}
	}
	const soon, rarely = 15 * time.Second, 5 * time.Minute
	record := unproved(inUse("eni-1", own, "s1", 1))
	for name, tc := range map[string]struct {
		o     plan.Observed
		e     render.Evidence
		after time.Duration
		// next is the time to the next look; 0 if the ledger is empty.
		next time.Duration
	}{
		"nothing is known of it":        {next: inventory.VisibilityWindow},
		"no read has shown it for long": {after: inventory.VisibilityWindow},
		"it was started anew a minute ago": {
			o: plan.Observed{Era: era.Era{Since: start.Add(time.Hour)}}, after: time.Hour + time.Minute, next: inventory.VisibilityWindow - time.Minute,
		},
		"its creation failed a minute ago": {
			o:     plan.Observed{Attempts: plan.Attempts{Backoffs: map[identity.Key]plan.Backoff{own: {At: start.Add(time.Hour)}}}},
			after: time.Hour + time.Minute, next: inventory.VisibilityWindow - time.Minute,
		},
		"it is gone":                     {o: plan.Observed{UsedGenerations: generations}},
		"it exists, attached to nothing": {o: plan.Observed{Owned: made(generation)}, next: soon},
		"the one before it exists":       {o: plan.Observed{Owned: made(generation - 1)}, next: inventory.VisibilityWindow},
		"it exists in the other ledger":  {o: plan.Observed{Owned: made(generation)}, e: render.Evidence{OtherLedgers: generations}},
		"it exists, and the other ledger has a later one": {
			o: plan.Observed{Owned: made(generation)}, e: render.Evidence{OtherLedgers: identity.Generations{own: generation + 1}}, next: rarely,
		},
		"a later one exists in the other ledger": {
			o: plan.Observed{Owned: made(generation + 1)}, e: render.Evidence{OtherLedgers: identity.Generations{own: generation + 1}},
		},
		"it is in use":                           {o: plan.Observed{Owned: []inventory.Record{record}}, next: soon},
		"it is in use on another instance":       {o: plan.Observed{Owned: []inventory.Record{elsewhere(record)}}, next: rarely},
		"two have its identity, both unverified": {o: plan.Observed{Owned: []inventory.Record{record, unproved(inUse("eni-2", own, "s1", 2))}}, next: rarely},
	} {
		t.Run(name, func(t *testing.T) {
			tc.o.Ledger = identity.Generations{own: generation}
			at := start.Add(tc.after)
			ledger, recheck := render.ReleaseInstance(tc.e, tc.o, at)
			if _, stays := ledger[own]; stays != (tc.next > 0) || stays && recheck.Sub(at) != tc.next || !stays && !recheck.IsZero() {
				t.Errorf("the ledger is %v, and is looked at again at %s; want that after %s", ledger, recheck, tc.next)
			}
			if len(tc.o.Ledger) != 1 {
				t.Errorf("what was given is %v now", tc.o.Ledger)
			}
		})
	}
}
