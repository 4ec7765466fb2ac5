// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

func member(id string, ordinal int, subnet string, device int) inventory.Record {
	return inUse(id, identity.Key{Owner: "uid-a", Ordinal: ordinal}, subnet, device)
}

// TestWhichInterfaceServesWhich has existing interfaces of one NodeENI that asks for others.
func TestWhichInterfaceServesWhich(t *testing.T) {
	unresolved := asks("a", "s1")
	unresolved.AllResolved = false
	doubtful := member("eni-1", 0, "s1", 1)
	doubtful.Confirmed = false
	exact := asks("a", "s1")
	exact.ExactSlot = true
	attaching := member("eni-2", 2, "s1", 1)
	attaching.Attachment.Status = eni.AttachmentAttaching
	for name, tc := range map[string]struct {
		claim  render.Claim
		owned  []inventory.Record
		ledger identity.Generations
		want   []string
	}{
		"none exists":                 {claim: asks("a", "s1"), want: []string{"ensure a[0]"}},
		"the one in its subnet":       {claim: asks("a", "s1"), owned: []inventory.Record{member("eni-1", 0, "s1", 1)}, want: []string{"ensure a[0] eni-1"}},
		"the subnet before the place": {claim: asks("a", "s2"), owned: []inventory.Record{member("eni-1", 0, "s1", 1), member("eni-2", 1, "s2", 2)}, want: []string{"ensure a[1] eni-2", "release a[0] eni-1"}},
		"a live one in a replaced subnet": {
			claim: asks("a", "s2"), owned: []inventory.Record{member("eni-1", 0, "s1", 1)}, want: []string{"ensure a[0] eni-1"},
		},
		"one that is not attached, in a replaced subnet": {
			claim: asks("a", "s2"), owned: []inventory.Record{unattached(member("eni-1", 0, "s1", 1))},
			want: []string{"ensure a[1]", "release a[0] eni-1"},
		},
		"the attached one of two in a subnet": {
			claim: asks("a", "s1"), owned: []inventory.Record{unattached(member("eni-1", 1, "s1", 1)), member("eni-2", 2, "s1", 1)},
			want: []string{"ensure a[2] eni-2", "release a[1] eni-1"},
		},
		"the one in place of two in a subnet": {
			claim: exact, owned: []inventory.Record{member("eni-1", 0, "s1", 3), member("eni-2", 2, "s1", 1)},
			want: []string{"ensure a[2] eni-2", "release a[0] eni-1"},
		},
		"the attached one of two in a subnet, before one that is being attached in place": {
			claim: exact, owned: []inventory.Record{member("eni-1", 0, "s1", 3), attaching},
			want: []string{"ensure a[0] eni-1", "release a[2] eni-2"},
		},
		"both, while it is uncertain which one exists": {
			claim: asks("a", "s1"), owned: []inventory.Record{doubtful, unattached(member("eni-2", 1, "s1", 1))},
			want: []string{"ensure a[0] eni-1", "retain a[1] eni-2"},
		},
		"both, while a selector is not resolved": {
			claim: unresolved, owned: []inventory.Record{member("eni-1", 0, "s1", 1), member("eni-2", 1, "s2", 2)},
			want: []string{"ensure a[0] eni-1", "retain a[1] eni-2"},
		},
		"a call that may have created it is repeated, at the ordinal of the call": {
			claim: asks("a", "s1"), owned: []inventory.Record{unattached(member("eni-1", 0, "s9", 0))},
			ledger: identity.Generations{{Owner: "uid-a", Ordinal: 4}: identity.GenerationAt(now)},
			want:   []string{"ensure a[4]", "release a[0] eni-1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := running(tc.owned...)
			o.Ledger = tc.ledger
			r := render.Interfaces(declared(tc.claim), render.Evidence{}, o, now)
			if diff := cmp.Diff(tc.want, goals(r)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestNoInterfaceInPlaceIsReplacedForAnother has two interfaces in one of two desired subnets, and slots must be exact.
// The second interface has the slot of that subnet; the first is older. Only the first may be in drift, regardless of
// the ordinal of the second.
func TestNoInterfaceInPlaceIsReplacedForAnother(t *testing.T) {
	claim := asks("a", "s1", "s2")
	claim.ExactSlot = true
	for _, ordinal := range []int{0, 5} {
		older, inPlace := member("eni-1", 0, "s1", 3), member("eni-2", ordinal, "s1", 1)
		inPlace.Member.Generation++
		r := render.Interfaces(declared(claim), render.Evidence{}, running(older, inPlace), now)
		drift := map[string]int{}
		for _, i := range r.Interfaces {
			drift[i.Record.ID] = len(i.Drift)
		}
		if diff := cmp.Diff(map[string]int{"eni-1": 2, "eni-2": 0}, drift); diff != "" {
			t.Errorf("ordinal %d (-want +got):\n%s", ordinal, diff)
		}
	}
}

// TestDriftIsWhatOnlyAReplacementCorrects compares an interface in use with the desired one.
func TestDriftIsWhatOnlyAReplacementCorrects(t *testing.T) {
	exact := asks("a", "s1")
	exact.ExactSlot = true
	attaching := member("eni-1", 0, "s1", 1)
	attaching.Attachment.Status = eni.AttachmentAttaching
	subnet, slot := plan.Drift{Field: "subnet", Want: "s1", Have: "s2"}, plan.Drift{Field: "slot", Want: "card 0 device 1", Have: "card 0 device 3"}
	for name, tc := range map[string]struct {
		claim render.Claim
		have  inventory.Record
		want  []plan.Drift
	}{
		"none":                              {asks("a", "s1"), member("eni-1", 0, "s1", 1), nil},
		"another subnet":                    {asks("a", "s1"), member("eni-1", 0, "s2", 1), []plan.Drift{subnet}},
		"a later slot, with Prefer":         {asks("a", "s1"), member("eni-1", 0, "s1", 3), nil},
		"a later slot, with Exact":          {exact, member("eni-1", 0, "s1", 3), []plan.Drift{slot}},
		"an earlier slot, with Prefer":      {asks("a", "s1"), member("eni-1", 0, "s1", 0), nil},
		"another subnet and slot":           {exact, member("eni-1", 0, "s2", 3), []plan.Drift{subnet, slot}},
		"one that is still being attached":  {exact, attaching, nil},
		"one that is attached to no device": {exact, unattached(member("eni-1", 0, "s1", 1)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := render.Interfaces(declared(tc.claim), render.Evidence{}, running(tc.have), now)
			if diff := cmp.Diff(tc.want, r.Interfaces[0].Drift); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhatBecomesOfAnInterfaceThatNothingDesires has one interface of NodeENI a, a day old.
func TestWhatBecomesOfAnInterfaceThatNothingDesires(t *testing.T) {
	claimed := func(mode render.Mode) []render.Claim {
		return []render.Claim{{NodeENI: "a", Owner: "uid-a", Mode: mode, Why: "somebody says so"}}
	}
	lost := func(since time.Time) []render.Claim {
		return []render.Claim{{
			NodeENI: "a", Owner: "uid-a", Mode: render.Release, Leaked: true, MissingSince: since, Grace: identity.AttachedOrphanGrace,
		}}
	}
	young := member("eni-1", 0, "s1", 1)
	young.Tags = young.Member.Tags(now, nil)
	for name, tc := range map[string]struct {
		claims []render.Claim
		have   inventory.Record
		ended  bool
		paused bool
		goal   plan.Goal
		reason plan.Reason
		// next is the time to the next plan, if any.
		next time.Duration
	}{
		"of a NodeENI that keeps it":                 {claims: claimed(render.Retain), have: member("eni-1", 0, "s1", 1), reason: plan.Retained},
		"of one that is paused":                      {claims: claimed(render.Paused), have: member("eni-1", 0, "s1", 1), reason: plan.Retained},
		"of one that releases it":                    {claims: claimed(render.Release), have: member("eni-1", 0, "s1", 1), goal: plan.Release},
		"of one that is lost, at first":              {claims: lost(now), have: member("eni-1", 0, "s1", 1), reason: plan.Orphaned, next: identity.AttachedOrphanGrace},
		"of one that is lost, a minute later":        {claims: lost(now.Add(-time.Minute)), have: member("eni-1", 0, "s1", 1), reason: plan.Orphaned, next: identity.AttachedOrphanGrace - time.Minute},
		"of one that is lost, after the grace":       {claims: lost(now.Add(-identity.AttachedOrphanGrace)), have: member("eni-1", 0, "s1", 1), goal: plan.Release},
		"of one that is lost, unattached":            {claims: lost(now), have: unattached(member("eni-1", 0, "s1", 1)), goal: plan.Release},
		"of one that is lost, and too young":         {claims: lost(start), have: young, reason: plan.Retained},
		"of one that is not known":                   {have: member("eni-1", 0, "s1", 1), reason: plan.Retained},
		"of an ended instance":                       {claims: claimed(render.Retain), have: member("eni-1", 0, "s1", 1), ended: true, goal: plan.Release},
		"of an ended instance, paused":               {claims: claimed(render.Paused), have: member("eni-1", 0, "s1", 1), ended: true, reason: plan.Retained},
		"of an ended instance, old":                  {have: unattached(member("eni-1", 0, "s1", 1)), ended: true, goal: plan.Release},
		"of an ended instance, young":                {have: unattached(young), ended: true, reason: plan.Retained},
		"of an ended instance whose node is paused":  {have: unattached(member("eni-1", 0, "s1", 1)), ended: true, paused: true, reason: plan.Retained},
		"of a network, on an ended instance":         {have: unattached(preJoin("eni-1", "multus", "s1", 1)), ended: true, goal: plan.Release},
		"of a network, on an instance":               {have: preJoin("eni-1", "multus", "s1", 1), reason: plan.Retained},
		"of a network, on an ended but paused node":  {have: unattached(preJoin("eni-1", "multus", "s1", 1)), ended: true, paused: true, reason: plan.Retained},
		"of a NodeENI whose list left its subnet":    {claims: []render.Claim{asks("a")}, have: unattached(member("eni-1", 0, "s1", 1)), goal: plan.Release},
		"live, of a NodeENI without a subnet for it": {claims: []render.Claim{asks("a")}, have: member("eni-1", 0, "s1", 1), reason: plan.Drifted},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := declared(tc.claims...), running(tc.have)
			d.Paused = tc.paused
			if tc.ended {
				o.Snapshot.Instance.State = eni.InstanceTerminated
			}
			r := render.Interfaces(d, render.Evidence{}, o, now)
			i := r.Interfaces[0]
			if len(r.Interfaces) != 1 || i.Goal != tc.goal || i.Why.Reason != tc.reason || i.Why.Message == "" {
				t.Fatalf("got %+v", r.Interfaces)
			}
			if got := i.RequeueAt; got.IsZero() != (tc.next == 0) || !got.IsZero() && got.Sub(now) != tc.next {
				t.Errorf("the next plan is at %s, want %s", got, tc.next)
			}
		})
	}
}

// TestAnInterfaceWithoutASubnetIsShownAsBlocked has a NodeENI whose subnets are not in the node's zone.
func TestAnInterfaceWithoutASubnetIsShownAsBlocked(t *testing.T) {
	claim := asks("a")
	claim.Unresolvable = []plan.Problem{{Reason: plan.NoSubnetInZone, Message: "none is in its zone"}}
	t.Run("without an interface", func(t *testing.T) {
		r := render.Interfaces(declared(claim), render.Evidence{}, running(), now)
		if i := r.Interfaces[0]; i.Problem == nil || i.Problem.Reason != plan.NoSubnetInZone || i.Settings != nil || !i.Desired {
			t.Errorf("got %+v", i)
		}
	})
	t.Run("the live interface gives the reason", func(t *testing.T) {
		r := render.Interfaces(declared(claim), render.Evidence{}, running(member("eni-1", 0, "s1", 1)), now)
		if i := r.Interfaces[0]; len(r.Interfaces) != 1 || !i.Desired || !strings.Contains(i.Why.Message, "none is in its zone") {
			t.Errorf("got %+v", r.Interfaces)
		}
	})
}

// TestAPodNetworkOfAMember has two interfaces of one member. The state lists only the one that pods use.
func TestAPodNetworkOfAMember(t *testing.T) {
	claim := asks("a", "s1")
	claim.PodPrefixes.Pods = true
	listed, other := member("eni-1", 0, "s1", 1), member("eni-2", 0, "s1", 2)
	other.Member.Generation++
	o := running(listed, other)
	o.Stored = map[string]plan.Stored{"eni-1": {Listed: &plan.ListedNetwork{}}}
	r := render.Interfaces(declared(claim), render.Evidence{Recorded: records(listed)}, o, now)
	got := map[string]bool{}
	for _, i := range r.Interfaces {
		got[i.Record.ID] = i.IsPodNetwork
	}
	if diff := cmp.Diff(map[string]bool{"eni-1": true, "eni-2": false}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
