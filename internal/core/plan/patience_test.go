// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/era"
	"github.com/multieni/multieni/internal/core/fleet"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// These tests check the waits of the planner, their length and their reasons in the status.

// leakedAt returns the claim of a NodeENI that does not exist and was first absent at the given time.
func leakedAt(missing time.Time) render.Claim {
	return render.Claim{NodeENI: "a", Owner: "uid-a", Mode: render.Release, Leaked: true, MissingSince: missing, Grace: identity.AttachedOrphanGrace}
}

func TestALeakThatIsAttachedIsAnnouncedBeforeItGoes(t *testing.T) {
	w := newMinimalEC2(limits(4))
	w.drive(desired(claim("a", desiredInterface(0, 1, "s1"))), nil)
	w.pass(24 * time.Hour)
	missed := w.now
	leaked := desired(leakedAt(missed))
	for after, want := range map[time.Duration]plan.Reason{
		0: plan.Orphaned, identity.AttachedOrphanGrace - time.Second: plan.Orphaned, identity.AttachedOrphanGrace: plan.Removing,
	} {
		p := compute(leaked, w.observe(nil), missed.Add(after))
		if got := reasons(p); !slices.Equal(got, []plan.Reason{want}) || (len(p.Actions) > 0) != (want == plan.Removing) {
			t.Errorf("after %s: %s", after, p.Explain())
		}
		if want == plan.Orphaned && !p.RequeueAt.Equal(missed.Add(identity.AttachedOrphanGrace)) {
			t.Errorf("after %s it looks again at %s", after, p.RequeueAt)
		}
	}
}

// TestAnUnattachedInterfaceIsAttachingOnlyIfItIsDesired checks the phase of an unattached interface that waits for its
// removal: no call attaches it.
func TestAnUnattachedInterfaceIsAttachingOnlyIfItIsDesired(t *testing.T) {
	for name, tc := range map[string]struct {
		claim  render.Claim
		reason plan.Reason
		want   plan.Phase
	}{
		"desired":                              {claim("a", desiredInterface(0, 1, "s1")), "", plan.Attaching},
		"of a deleted NodeENI, not old enough": {leakedAt(time.Time{}), plan.Retained, plan.Pending},
	} {
		t.Run(name, func(t *testing.T) {
			w := newMinimalEC2(limits(4))
			w.drive(desired(claim("a", desiredInterface(0, 1, "s1"))), nil)
			o := w.observe(nil)
			o.Owned[0].Attachment, o.Owned[0].Status = nil, eni.Available
			p := compute(desired(tc.claim), o, w.now)
			if m := p.Members[0]; m.Phase != tc.want || m.Why.Reason != tc.reason {
				t.Errorf("want phase %s for reason %q:\n%s", tc.want, tc.reason, p.Explain())
			}
		})
	}
}

// TestAnAttachThatNeverEnds expects that such an attach is canceled repeatedly with growing backoff, and needs a person
// from the third time on.
func TestAnAttachThatNeverEnds(t *testing.T) {
	w := newMinimalEC2(limits(4))
	w.drive(desired(claim("a", desiredInterface(0, 1, "s1"))), nil)
	d := desired(claim("a", desiredInterface(0, 1, "s1")))
	available := func(undone int, ago time.Duration) plan.Observed {
		o := w.observe(nil)
		o.Owned[0].Attachment, o.Owned[0].Status = nil, eni.Available
		o.Owned[0].FailedAttaches, o.Owned[0].LastFailedAttach = undone, w.now.Add(-ago)
		o.Snapshot.Interfaces = nil
		return o
	}
	cases := map[string]struct {
		undone int
		ago    time.Duration
		want   plan.Reason
		phase  plan.Phase
	}{
		"twice, it is tried at once":         {undone: 2, phase: plan.Attaching},
		"three times, a person is told":      {undone: 3, want: plan.AttachStuck, phase: plan.Blocked},
		"three times, it is tried later":     {undone: 3, ago: 5 * time.Minute, phase: plan.Attaching},
		"four times, it is tried later yet":  {undone: 4, ago: 5 * time.Minute, want: plan.AttachStuck, phase: plan.Blocked},
		"very often, it is never given up":   {undone: 40, ago: 30 * time.Minute, phase: plan.Attaching},
		"very often, it is tried not sooner": {undone: 40, ago: 29 * time.Minute, want: plan.AttachStuck, phase: plan.Blocked},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := compute(d, available(tc.undone, tc.ago), w.now)
			if got := p.Members[0]; got.Phase != tc.phase || got.Why.Reason != tc.want || (len(p.Actions) == 0) != (tc.phase == plan.Blocked) {
				t.Errorf("want %s %q:\n%s", tc.phase, tc.want, p.Explain())
			}
		})
	}
}

// TestReplacementSaysWhatItWaitsFor gives drift to a live interface that may be replaced, and blocks the replacement.
func TestReplacementSaysWhatItWaitsFor(t *testing.T) {
	cases := map[string]struct {
		claims  []render.Claim
		replace fleet.Permission
		want    plan.Reason
		says    string
	}{
		"its turn": {claims: []render.Claim{replacing(claim("a", desiredInterface(0, 1, "s2")))}, replace: fleet.Permission{Denied: "another node has had its turn"}, want: plan.Replacing, says: "another node has had its turn"},
		"selectors that are not all resolved": {
			claims: []render.Claim{unresolved(replacing(claim("a", desiredInterface(0, 1, "s2"))))}, replace: granted,
			want: plan.Replacing, says: "selectors of its NodeENI are resolved",
		},
		"a member of another NodeENI that has no slot": {
			claims:  []render.Claim{replacing(claim("a", desiredInterface(0, 1, "s2"))), exactly(claim("b", desiredInterface(0, 0, "s1")))},
			replace: granted, want: plan.Replacing,
		},
		"a slot that another holds": {
			claims: []render.Claim{exactly(replacing(claim("a", desiredInterface(0, 0, "s2"))))}, replace: granted,
			want: plan.SlotTaken,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newMinimalEC2(limits(4))
			w.drive(desired(claim("a", desiredInterface(0, 1, "s1"))), nil)
			p := computeWith(desired(tc.claims...), w.observe(nil), tc.replace, w.now)
			if got := p.Members[0]; got.Why.Reason != tc.want || !strings.Contains(got.Why.Message, tc.says) || len(got.Drift) == 0 || len(p.Actions) > 0 {
				t.Errorf("want the reason %s that says %q, a drift and no call:\n%s", tc.want, tc.says, p.Explain())
			}
		})
	}
}

func replacing(c render.Claim) render.Claim { c.ReplaceAllowed = true; return c }

func unresolved(c render.Claim) render.Claim { c.AllResolved = false; return c }

func exactly(c render.Claim) render.Claim { c.ExactSlot = true; return c }

// TestAPreferredSlotIsNotWaitedForInVain has EC2 refuse to free the requested slot.
func TestAPreferredSlotIsNotWaitedForInVain(t *testing.T) {
	for name, tc := range map[string]struct {
		failure plan.Backoff
		want    eni.Slot
	}{
		"refused once for now": {plan.Backoff{Class: eni.Transient, Count: 1}, device(1)},
		"refused for good":     {plan.Backoff{Class: eni.Unauthorized, Count: 1}, device(2)},
		"refused too often":    {plan.Backoff{Class: eni.Transient, Count: 5}, device(2)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newMinimalEC2(limits(4))
			w.drive(desired(claim("a", desiredInterface(0, 1, "s1"))), nil)
			o := w.observe(nil)
			tc.failure.At, tc.failure.Removal = w.now, true
			o.Backoffs = map[identity.Key]plan.Backoff{o.Owned[0].Member.Key: tc.failure}
			released := render.Claim{NodeENI: "a", Owner: "uid-a", Mode: render.Release}
			p := compute(desired(released, claim("b", desiredInterface(0, 1, "s2"))), o, w.now)
			if got := p.Members[1]; got.Slot != tc.want || (got.Phase == plan.Creating) != (tc.want == device(2)) {
				t.Errorf("want %s:\n%s", tc.want, p.Explain())
			}
		})
	}
}

// TestAnInterfaceWithoutASlotDelaysNoOther has foreign interfaces in the slots of the maximum number of unattached
// interfaces.
func TestAnInterfaceWithoutASlotDelaysNoOther(t *testing.T) {
	w := newMinimalEC2(limits(8))
	crowded := exactly(claim("a", desiredInterface(0, 1, "s1"), desiredInterface(1, 2, "s2"), desiredInterface(2, 3, "s3")))
	p := compute(desired(crowded), w.observe(nil), w.now)
	for n, create := range p.Actions {
		w.apply(create)
		w.occupy(device(n + 1))
	}
	p = compute(desired(crowded, claim("b", desiredInterface(0, 4, "s4"))), w.observe(p.Ledger), w.now)
	if len(p.Members) != 4 || p.Members[2].Phase != plan.Blocked || p.Members[3].Phase != plan.Creating {
		t.Errorf("want three blocked interfaces, and one that is made:\n%s", p.Explain())
	}
}

// TestFullSubnetsAreTriedOneAfterTheOther tries the subnets of a selector in turn, also after all of them were full.
func TestFullSubnetsAreTriedOneAfterTheOther(t *testing.T) {
	w := newMinimalEC2(limits(4))
	d := desired(claim("a", desiredInterface(0, 1, "s1", "s2", "s3")))
	var tried []string
	failure := plan.Backoff{}
	for range 5 {
		now := w.now
		if failure.Count > 0 && failure.Count%3 == 0 {
			now = failure.Retry()
		}
		o := w.observe(nil)
		if failure.Count > 0 {
			o.Backoffs = map[identity.Key]plan.Backoff{{Owner: "uid-a"}: failure}
		}
		p := compute(d, o, now)
		if len(p.Actions) != 1 {
			t.Fatal(p.Explain())
		}
		tried = append(tried, p.Actions[0].(plan.Create).SubnetID)
		failure = failure.Next(eni.NoAddresses, "full", now)
	}
	if diff := cmp.Diff([]string{"s1", "s2", "s3", "s1", "s2"}, tried); diff != "" {
		t.Error(diff)
	}
}

// TestSubnetsKnownToBeFullAreNotTried checks that a fleet does not repeat create calls in a full subnet.
func TestSubnetsKnownToBeFullAreNotTried(t *testing.T) {
	w := newMinimalEC2(limits(4))
	d := desired(claim("a", desiredInterface(0, 1, "s1", "s2")))
	o := w.observe(nil)
	soon := w.now.Add(time.Minute)
	o.FullSubnets = map[plan.SubnetDemand]plan.FullSubnet{{Owner: "uid-a", SubnetID: "s1"}: {Until: soon}}
	if p := compute(d, o, w.now); len(p.Actions) != 1 || p.Actions[0].(plan.Create).SubnetID != "s2" {
		t.Errorf("want it made in s2:\n%s", p.Explain())
	}
	o.FullSubnets[plan.SubnetDemand{Owner: "uid-a", SubnetID: "s2"}] = plan.FullSubnet{Until: soon.Add(time.Minute)}
	p := compute(d, o, w.now)
	if len(p.Actions) != 0 || p.Members[0].Why.Reason != plan.SubnetFull || !p.RequeueAt.Equal(soon) {
		t.Errorf("want it blocked until %s:\n%s", soon, p.Explain())
	}
}

// TestAFullSubnetSaysHowManyAddressesAnInterfaceNeeds checks that a subnet with a few free addresses does not count as
// one without any.
func TestAFullSubnetSaysHowManyAddressesAnInterfaceNeeds(t *testing.T) {
	cases := map[string]struct {
		counts eni.AddressCounts
		want   string
	}{
		"its primary address":          {want: "EC2 has no free address in s1; free some"},
		"further addresses":            {eni.AddressCounts{SecondaryIPv4: 3}, "fewer than the 4 free addresses that the interface needs in s1"},
		"prefixes":                     {eni.AddressCounts{IPv4Prefixes: 2}, "fewer than the 33 free addresses that the interface needs, 16 of them in a free block for each prefix"},
		"an IPv6 prefix takes no IPv4": {eni.AddressCounts{IPv6Prefixes: 1}, "EC2 has no free address in s1; free some"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newMinimalEC2(limits(4))
			asks := claim("a", desiredInterface(0, 1, "s1"))
			asks.Interfaces[0].Spec.AddressCounts = tc.counts
			o := w.observe(nil)
			demand := plan.DemandOf("uid-a", "s1", asks.Interfaces[0].Spec)
			o.FullSubnets = map[plan.SubnetDemand]plan.FullSubnet{demand: {Until: w.now.Add(time.Minute), Class: eni.NoAddresses}}
			p := compute(desired(asks), o, w.now)
			if why := p.Members[0].Why; why.Reason != plan.SubnetFull || !strings.Contains(why.Message, tc.want) {
				t.Errorf("want %q:\n%s", tc.want, p.Explain())
			}
		})
	}
}

// TestAFullSubnetIsNoNewsAgain checks that the message stays the same before an attempt, after it, and at the end of
// the backoff.
func TestAFullSubnetIsNoNewsAgain(t *testing.T) {
	w := newMinimalEC2(limits(4))
	d, key := desired(claim("a", desiredInterface(0, 1, "s1"))), identity.Key{Owner: "uid-a"}
	failure := plan.Backoff{}.Next(eni.NoAddresses, "InsufficientFreeAddressesInSubnet", w.now)
	o := w.observe(nil)
	o.Backoffs = map[identity.Key]plan.Backoff{key: failure}
	o.FullSubnets = map[plan.SubnetDemand]plan.FullSubnet{{Owner: "uid-a", SubnetID: "s1"}: {Until: failure.Retry().Add(time.Minute), Class: eni.NoAddresses}}
	refused := compute(d, o, w.now.Add(time.Second)).Members[0]
	o.Snapshot = nil
	waiting := compute(d, o, failure.Retry()).Members[0]
	if refused.Phase != waiting.Phase || refused.Why != waiting.Why || refused.Why.Reason != plan.SubnetFull {
		t.Errorf("%s %s, and then %s %s", refused.Phase, refused.Why, waiting.Phase, waiting.Why)
	}
}

// TestASubnetWithoutABlockForAPrefix checks that the message on every node names missing blocks, and not missing
// addresses. Interfaces without prefixes are still created in the subnet.
func TestASubnetWithoutABlockForAPrefix(t *testing.T) {
	w := newMinimalEC2(limits(4))
	withPrefixes := func(subnets ...string) render.Claim {
		c := claim("a", desiredInterface(0, 1, subnets...))
		c.Interfaces[0].Spec.IPv4Prefixes = 1
		return c
	}
	full := func(subnet string, class eni.Class) (plan.SubnetDemand, plan.FullSubnet) {
		return plan.SubnetDemand{Owner: "uid-a", SubnetID: subnet, Prefixes: true}, plan.FullSubnet{Until: w.now.Add(time.Minute), Class: class}
	}
	key := identity.Key{Owner: "uid-a"}
	refused := map[identity.Key]plan.Backoff{key: plan.Backoff{}.Next(eni.NoPrefixes, "InsufficientCidrBlocks", w.now)}

	t.Run("every node says the same", func(t *testing.T) {
		first, other := w.observe(nil), w.observe(nil)
		first.Backoffs = refused
		demand, known := full("s1", eni.NoPrefixes)
		first.FullSubnets = map[plan.SubnetDemand]plan.FullSubnet{demand: known}
		other.FullSubnets = first.FullSubnets
		one, two := compute(desired(withPrefixes("s1")), first, w.now).Members[0].Why, compute(desired(withPrefixes("s1")), other, w.now).Members[0].Why
		if one.Reason != plan.NoFreePrefix || one != two || !strings.Contains(one.Message, "s1") || !strings.Contains(one.Message, "create-subnet-cidr-reservation") {
			t.Errorf("%s, and another node %s", one, two)
		}
	})
	t.Run("one subnet without addresses, one without blocks", func(t *testing.T) {
		o := w.observe(nil)
		s1, known1 := full("s1", eni.NoAddresses)
		s2, known2 := full("s2", eni.NoPrefixes)
		o.FullSubnets = map[plan.SubnetDemand]plan.FullSubnet{s1: known1, s2: known2}
		if p := compute(desired(withPrefixes("s1", "s2")), o, w.now); len(p.Actions) != 0 || p.Members[0].Why.Reason != plan.NoFreePrefix {
			t.Errorf("%s", p.Explain())
		}
	})
	t.Run("all subnets are tried once in turn", func(t *testing.T) {
		failure := plan.Backoff{}.Next(eni.NoAddresses, "full", w.now).Next(eni.NoPrefixes, "no block", w.now)
		o := w.observe(nil)
		o.Backoffs = map[identity.Key]plan.Backoff{key: failure}
		if p := compute(desired(withPrefixes("s1", "s2")), o, w.now); len(p.Actions) != 0 {
			t.Errorf("a third attempt without a wait:\n%s", p.Explain())
		}
	})
	t.Run("without prefixes", func(t *testing.T) {
		o := w.observe(nil)
		demand, known := full("s1", eni.NoPrefixes)
		o.Backoffs, o.FullSubnets = refused, map[plan.SubnetDemand]plan.FullSubnet{demand: known}
		if p := compute(desired(claim("a", desiredInterface(0, 1, "s1"))), o, w.now); len(p.Actions) != 1 {
			t.Errorf("no interface is created:\n%s", p.Explain())
		}
	})
}

// TestWhatIsRefusedToOneHoldsUpNoOther has a member with two interfaces, as after a user restored the tags of one that
// was replaced. EC2 refuses addresses to the one that stays; the other one is still removed.
func TestWhatIsRefusedToOneHoldsUpNoOther(t *testing.T) {
	w := newMinimalEC2(limits(4))
	d, key := desired(claim("a", desiredInterface(0, 1, "s1"))), identity.Key{Owner: "uid-a"}
	w.drive(d, nil)
	twin := w.make("s1", w.observe(nil).Owned[0].Tags)
	w.interfaces[twin.ID] = twin
	refused := &eni.APIError{Class: eni.NoAddresses, Operation: "AssignPrivateIpAddresses", Code: "InsufficientFreeAddressesInSubnet"}
	for name, tc := range map[string]struct {
		action plan.Action
		leaves bool
	}{
		"its sibling was refused addresses": {action: plan.Change{}, leaves: true},
		"it was refused itself":             {action: plan.Delete{}},
	} {
		t.Run(name, func(t *testing.T) {
			o := w.observe(nil)
			o.Backoffs = map[identity.Key]plan.Backoff{key: plan.Backoff{}.WithFailure(tc.action, refused, w.now)}
			p := compute(d, o, w.now)
			leaves := slices.ContainsFunc(p.Actions, func(a plan.Action) bool { d, is := a.(plan.Delete); return is && d.InterfaceID == twin.ID })
			if leaves != tc.leaves {
				t.Errorf("%s is deleted: %t, want %t\n%s", twin.ID, leaves, tc.leaves, p.Explain())
			}
		})
	}
}

// TestALedgerFromBeforeAStartIsKeptUntilReadingsShowWhatWasMade crashes after a create whose answer was lost, long
// after the generation was stored, and then removes the desired interface.
func TestALedgerFromBeforeAStartIsKeptUntilReadingsShowWhatWasMade(t *testing.T) {
	w := newMinimalEC2(limits(4))
	key := identity.Key{Owner: "uid-a"}
	o := w.observe(identity.Generations{key: identity.GenerationAt(w.now.Add(-time.Hour))})
	o.Era = era.Era{Since: w.now}
	released := desired(render.Claim{NodeENI: "a", Owner: "uid-a", Mode: render.Release})
	if p := compute(released, o, w.now); len(p.Ledger) != 1 || p.RequeueAt.IsZero() {
		t.Errorf("the promise is dropped at once:\n%s", p.Explain())
	}
	if p := compute(released, o, w.now.Add(inventory.VisibilityWindow)); len(p.Ledger) != 0 {
		t.Errorf("the promise is kept for ever:\n%s", p.Explain())
	}
}
