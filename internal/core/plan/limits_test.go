// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// TestAFullCardWaitsOnlyForASlotOfItsOwn removes an interface from one of two cards of an instance. The other card is
// full or not.
func TestAFullCardWaitsOnlyForASlotOfItsOwn(t *testing.T) {
	on := func(card, device int) plan.DesiredInterface {
		return plan.DesiredInterface{Subnets: []string{"s1"}, Slot: eni.Slot{Card: card, Device: device}, Spec: spec()}
	}
	cases := map[string]struct {
		leaving, wanted plan.DesiredInterface
		foreign         []eni.Slot
		want            plan.Reason
	}{
		"the slot is on the full card": {leaving: on(0, 1), wanted: on(0, 1), want: plan.InProgress},
		"the slot is on another card":  {leaving: on(1, 0), wanted: on(0, 1), foreign: []eni.Slot{{Device: 1}}, want: plan.InstanceFull},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newMinimalEC2(eni.Limits{Cards: []int{2, 2}, Interfaces: 4, IPv4: 10}, tc.foreign...)
			_, ledger := w.drive(desired(claim("a", tc.leaving)), nil)
			w.now = w.now.Add(time.Hour)
			released := render.Claim{NodeENI: "a", Owner: "uid-a", Mode: render.Release, Why: "its NodeENI is being deleted"}
			p := compute(desired(released, claim("b", tc.wanted)), w.observe(ledger), w.now)
			if got := reasons(p); got[len(got)-1] != tc.want {
				t.Errorf("the reason is %s, want %s:\n%s", got[len(got)-1], tc.want, p.Explain())
			}
		})
	}
}

// TestThreeInterfacesOfANodeAtATime checks that no failure leaves more than three interfaces behind.
func TestThreeInterfacesOfANodeAtATime(t *testing.T) {
	const atATime = 3
	w := newMinimalEC2(limits(8))
	wanted := desired(claim("a", desiredInterface(0, 1, "s1"), desiredInterface(1, 2, "s2"), desiredInterface(2, 3, "s3"), desiredInterface(3, 4, "s4"), desiredInterface(4, 5, "s5"), desiredInterface(5, 6, "s6")))
	var ledger identity.Generations
	for range 10 {
		p := compute(wanted, w.observe(ledger), w.now)
		ledger = p.Ledger
		for _, action := range p.Actions {
			w.apply(action)
		}
		unattached := 0
		for _, i := range w.ours() {
			if i.Attachment == nil {
				unattached++
			}
		}
		if unattached > atATime {
			t.Fatalf("%d interfaces are there and not attached, want at most %d:\n%s", unattached, atATime, p.Explain())
		}
		w.pass(5 * time.Second)
	}
	if got := len(placements(w)); got != 6 {
		t.Errorf("%d interfaces are attached in the end, want 6", got)
	}
}

// TestASlotStaysWithACallUnderWay has two NodeENIs request the same index. The interface of the second one exists
// before EC2 answers the call for the first one.
func TestASlotStaysWithACallUnderWay(t *testing.T) {
	w := newMinimalEC2(limits(4))
	d := desired(claim("a", desiredInterface(0, 1, "s1")), claim("b", desiredInterface(0, 1, "s2")))
	planned := compute(d, w.observe(nil), w.now)
	slots := map[string]eni.Slot{}
	for _, action := range planned.Actions {
		slots[action.Of().NodeENI] = action.(plan.Create).Slot
	}
	if diff := cmp.Diff(map[string]eni.Slot{"a": device(1), "b": device(2)}, slots); diff != "" {
		t.Fatalf("slots of the interfaces to be made (-want +got):\n%s", diff)
	}
	w.apply(planned.Actions[1])
	o := w.observe(planned.Ledger)
	o.InFlight = planned.Actions[:1]
	for _, action := range compute(d, o, w.now).Actions {
		if attach, is := action.(plan.Attach); is && attach.Slot != device(2) {
			t.Errorf("the second interface is to be attached at %s, which is given to the first one", attach.Slot)
		}
	}
}

// TestNoInterfaceInUseMovesToACardWithoutRoom edits the network card of an attached interface under updatePolicy Replace.
func TestNoInterfaceInUseMovesToACardWithoutRoom(t *testing.T) {
	for name, tc := range map[string]struct {
		cards      []int
		interfaces int
		foreign    []eni.Slot
		subnet     string
		want       plan.Reason
		moves      bool
	}{
		"the type has no such card":                          {cards: []int{4}, interfaces: 4, subnet: "s1", want: plan.NoSuchNetworkCard},
		"the type has no such card, and the subnet differs":  {cards: []int{4}, interfaces: 4, subnet: "s2", want: plan.NoSuchNetworkCard},
		"the card is full, and the index asked for is free":  {cards: []int{4, 1}, interfaces: 5, foreign: []eni.Slot{{Card: 1, Device: 5}}, subnet: "s1", want: plan.InstanceFull},
		"the instance is full, and the interface makes room": {cards: []int{2, 2}, interfaces: 2, subnet: "s1", moves: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newMinimalEC2(eni.Limits{Cards: tc.cards, Interfaces: tc.interfaces, IPv4: 10}, tc.foreign...)
			_, ledger := w.drive(desired(claim("a", desiredInterface(0, 1, "s1"))), nil)
			w.now = w.now.Add(time.Hour)
			moved := desiredInterface(0, 1, tc.subnet)
			moved.Slot.Card = 1
			p := computeWith(desired(replacing(claim("a", moved))), w.observe(ledger), granted, w.now)
			if moves := len(p.Actions) > 0; moves != tc.moves {
				t.Errorf("the interface is given up: %t, want %t:\n%s", moves, tc.moves, p.Explain())
			}
			if got := p.Members[0]; !tc.moves && (got.Why.Reason != tc.want || got.Phase != plan.Attached) {
				t.Errorf("it is %s for %s, want it Attached with %s:\n%s", got.Phase, got.Why.Reason, tc.want, p.Explain())
			}
		})
	}
}

// TestAnInterfaceWithoutACardIsLookedAtAgain detaches an interface whose NodeENI requests a card that the type does not
// have: no event reports the end of its instance.
func TestAnInterfaceWithoutACardIsLookedAtAgain(t *testing.T) {
	w := newMinimalEC2(limits(4))
	_, ledger := w.drive(desired(claim("a", desiredInterface(0, 1, "s1"))), nil)
	for id, i := range w.interfaces {
		if i.SubnetID == "s1" {
			i.Attachment, i.Status = nil, eni.Available
			w.interfaces[id] = i
		}
	}
	w.now = w.now.Add(time.Hour)
	elsewhere := desiredInterface(0, 1, "s1")
	elsewhere.Slot.Card = 1
	d := desired(claim("a", elsewhere))
	p := compute(d, w.observe(ledger), w.now)
	if p.Members[0].Why.Reason != plan.NoSuchNetworkCard || p.RequeueAt.Sub(w.now) != 5*time.Minute {
		t.Fatalf("%s, planned again after %s, want NoSuchNetworkCard and 5m:\n%s", p.Members[0].Why.Reason, p.RequeueAt.Sub(w.now), p.Explain())
	}
	w.end()
	w.now = p.RequeueAt
	blind := w.observe(ledger)
	blind.Snapshot, blind.Limits = nil, eni.Limits{}
	if p = compute(d, blind, w.now); !p.NeedsDescribe {
		t.Errorf("the instance is not looked at, and its end not seen:\n%s", p.Explain())
	}
	if p = compute(d, w.observe(ledger), w.now); len(p.Actions) != 1 {
		t.Errorf("%v, want the interface deleted:\n%s", p.Actions, p.Explain())
	}
}
