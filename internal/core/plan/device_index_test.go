// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// onCard declares an interface on a network card.
func onCard(card, device int) plan.DesiredInterface {
	i := desiredInterface(0, device, "s1")
	i.Slot.Card = card
	return i
}

// TestAnInterfaceGetsAnIndexOfItsCard declares interfaces at indices that are taken, or that the card does not have.
func TestAnInterfaceGetsAnIndexOfItsCard(t *testing.T) {
	twoCards := eni.Limits{Cards: []int{3, 2}, Interfaces: 5, IPv4: 15}
	slot := func(card, device int) eni.Slot { return eni.Slot{Card: card, Device: device} }
	for name, tc := range map[string]struct {
		limits  eni.Limits
		foreign []eni.Slot
		claims  []render.Claim
		want    []placed
		reasons []plan.Reason
	}{
		"the requested one": {limits: limits(3), claims: []render.Claim{inOrder(2, "s1")}, want: []placed{{"s1", device(2)}}, reasons: []plan.Reason{""}},
		"the next one above it before those below": {
			limits: limits(4), foreign: []eni.Slot{device(2)}, claims: []render.Claim{inOrder(2, "s1")}, want: []placed{{"s1", device(3)}}, reasons: []plan.Reason{""},
		},
		"the next one below it if all above are taken": {
			limits: limits(5), foreign: []eni.Slot{device(3), device(4)}, claims: []render.Claim{inOrder(3, "s1")}, want: []placed{{"s1", device(2)}}, reasons: []plan.Reason{""},
		},
		"the last one in place of a higher one": {
			limits: limits(3), claims: []render.Claim{inOrder(9, "s1")}, want: []placed{{"s1", device(2)}}, reasons: []plan.Reason{""},
		},
		"a list of subnets that ends above the last": {
			limits: limits(4), claims: []render.Claim{inOrder(2, "s1", "s2", "s3")},
			want: []placed{{"s3", device(1)}, {"s1", device(2)}, {"s2", device(3)}}, reasons: []plan.Reason{"", "", ""},
		},
		"none, because all are taken": {
			limits: limits(3), foreign: []eni.Slot{device(1), device(2)}, claims: []render.Claim{inOrder(2, "s1")}, reasons: []plan.Reason{plan.InstanceFull},
		},
		"none, because it accepts only one that the card does not have": {
			limits: limits(3), claims: []render.Claim{exactly(inOrder(3, "s1"))}, reasons: []plan.Reason{plan.NoSuchDeviceIndex},
		},
		"those of a list that the card has, each exactly": {
			limits: limits(3), claims: []render.Claim{exactly(inOrder(2, "s1", "s2"))}, want: []placed{{"s1", device(2)}}, reasons: []plan.Reason{"", plan.NoSuchDeviceIndex},
		},
		"the last one of another card": {limits: twoCards, claims: []render.Claim{claim("a", onCard(1, 4))}, want: []placed{{"s1", slot(1, 1)}}, reasons: []plan.Reason{""}},
		"the first one of another card": {
			limits: twoCards, foreign: []eni.Slot{slot(1, 1)}, claims: []render.Claim{claim("a", onCard(1, 1))}, want: []placed{{"s1", slot(1, 0)}}, reasons: []plan.Reason{""},
		},
		"none of another card exactly": {limits: twoCards, claims: []render.Claim{exactly(claim("a", onCard(1, 2)))}, reasons: []plan.Reason{plan.NoSuchDeviceIndex}},
		"one that no other interface accepts alone": {
			limits: limits(4), foreign: []eni.Slot{device(3)}, claims: []render.Claim{claim("a", desiredInterface(0, 3, "s1")), exactly(claim("b", desiredInterface(0, 2, "s2")))},
			want: []placed{{"s1", device(1)}, {"s2", device(2)}}, reasons: []plan.Reason{"", ""},
		},
		"never that of the primary one":    {claims: []render.Claim{inOrder(0, "s1")}, want: []placed{{"s1", device(1)}}, reasons: []plan.Reason{""}},
		"any, if the limits are not known": {claims: []render.Claim{inOrder(9, "s1")}, want: []placed{{"s1", device(9)}}, reasons: []plan.Reason{""}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newMinimalEC2(tc.limits, tc.foreign...)
			p := w.follow(desired(tc.claims...), nil, 5, 5*time.Second)
			if diff := cmp.Diff(tc.want, placements(w)); diff != "" {
				t.Errorf("placements (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.reasons, reasons(p)); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
			if made := len(w.ours()); made != len(tc.want) {
				t.Errorf("%d interfaces exist, want %d: one that cannot be attached was created", made, len(tc.want))
			}
		})
	}
}

// TestAnInterfaceThatExistsTakesTheLastFreeIndex detaches an interface whose index another NodeENI requests exactly. No
// other index is free. The existing interface comes first.
func TestAnInterfaceThatExistsTakesTheLastFreeIndex(t *testing.T) {
	w := newMinimalEC2(limits(3), device(1))
	a, b := claim("a", desiredInterface(0, 2, "s1")), exactly(claim("b", desiredInterface(0, 2, "s2")))
	_, ledger := w.drive(desired(a), nil)
	for id, i := range w.interfaces {
		if i.SubnetID == "s1" {
			i.Attachment, i.Status = nil, eni.Available
			w.interfaces[id] = i
		}
	}
	w.now = w.now.Add(time.Hour)
	p := w.follow(desired(a, b), ledger, 5, 5*time.Second)
	if diff := cmp.Diff([]placed{{"s1", device(2)}}, placements(w)); diff != "" {
		t.Errorf("placements (-want +got):\n%s\n%s", diff, p.Explain())
	}
	if got := reasons(p); got[0] != "" || got[1].Transient() {
		t.Errorf("reasons %v:\n%s", got, p.Explain())
	}
}

// TestAnIndexBelowTheRequestedOneIsNoDrift attaches an interface below deviceIndex, because all other indices are taken.
// It stays there under updatePolicy Replace when a higher index becomes free, and it is no drift without a read either.
func TestAnIndexBelowTheRequestedOneIsNoDrift(t *testing.T) {
	w := newMinimalEC2(limits(3), device(2))
	d := desired(replacing(inOrder(2, "s1")))
	_, ledger := w.drive(d, nil)
	for id, i := range w.interfaces {
		if i.AttachedTo(instance) && i.Attachment.Slot == device(2) {
			delete(w.interfaces, id)
		}
	}
	w.now = w.now.Add(time.Hour)
	o, blind := w.observe(ledger), w.observe(ledger)
	blind.Snapshot, blind.Limits = nil, eni.Limits{}
	for name, o := range map[string]plan.Observed{"with a read": o, "without a read": blind} {
		p := computeWith(d, o, granted, w.now)
		if m := p.Members[0]; len(p.Actions)+len(p.Proposed) > 0 || m.Slot != device(1) || len(m.Drift) > 0 || m.Why.Reason != "" {
			t.Errorf("%s:\n%s", name, p.Explain())
		}
	}
}

// TestALiveInterfaceDoesNotLeaveForAnIndexThatIsNone edits deviceIndex to one that the card does not have.
func TestALiveInterfaceDoesNotLeaveForAnIndexThatIsNone(t *testing.T) {
	for name, tc := range map[string]struct {
		policy func(render.Claim) render.Claim
		want   []placed
		reason plan.Reason
	}{
		"Exact":  {exactly, []placed{{"s1", device(1)}}, plan.NoSuchDeviceIndex},
		"Prefer": {func(c render.Claim) render.Claim { return c }, []placed{{"s1", device(1)}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newMinimalEC2(limits(3))
			_, ledger := w.drive(desired(inOrder(1, "s1")), nil)
			w.now = w.now.Add(time.Hour)
			d := desired(tc.policy(replacing(inOrder(3, "s1"))))
			p := computeWith(d, w.observe(ledger), granted, w.now)
			if len(p.Actions) > 0 || p.Members[0].Why.Reason != tc.reason {
				t.Errorf("%v for %s, want nothing for %s:\n%s", p.Actions, p.Members[0].Why.Reason, tc.reason, p.Explain())
			}
			if diff := cmp.Diff(tc.want, placements(w)); diff != "" {
				t.Errorf("placements (-want +got):\n%s", diff)
			}
		})
	}
}
