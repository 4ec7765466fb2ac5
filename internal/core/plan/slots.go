// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/message"
)

// Slots are the slots of one instance: the interface in each slot, and how many more the instance supports.
type Slots struct {
	instanceType string
	limits       eni.Limits
	// holders describes the holder of each taken slot, for people.
	holders map[eni.Slot]string
	// cni is set if the VPC CNI has one of them.
	cni bool
	// leaving are the taken slots that the controller is freeing.
	leaving map[eni.Slot]bool
	// reserved are the slots that a claim requests exactly.
	reserved map[eni.Slot]bool
	// refused are the slots that EC2 reported as taken although it returns no interface there.
	refused map[eni.Slot]bool
}

// ObservedSlots returns the slots as the snapshot shows them. For our own interfaces it uses the inventory, which can
// be newer: an interface in the snapshot that the inventory does not have was deleted, and has no slot.
func ObservedSlots(cluster, instanceID string, f Facts, now time.Time) *Slots {
	s := &Slots{limits: f.Limits, holders: map[eni.Slot]string{}, leaving: map[eni.Slot]bool{},
		reserved: map[eni.Slot]bool{}, refused: map[eni.Slot]bool{}}
	known := map[string]bool{}
	for _, r := range slices.Concat(f.expected(), f.Launched) {
		known[r.ID] = true
		s.occupy(r.Interface, instanceID)
	}
	var lookedAt time.Time
	if f.Snapshot != nil {
		lookedAt, s.instanceType = f.Snapshot.At, f.Snapshot.Instance.Type
		for _, i := range f.Snapshot.Interfaces {
			tagged, verdict := identity.Read(cluster, i.Tags)
			ours := known[i.ID] || verdict == identity.Owned && tagged.InstanceID == instanceID
			if !ours || i.Attachment != nil && i.Attachment.Slot == eni.Primary {
				s.occupy(i, instanceID)
			}
		}
	}
	for slot, refusal := range f.refusals() {
		s.markUnusable(slot, refusal, lookedAt, now)
	}
	return s
}

// refusals returns EC2's refusals by slot, over all objects: a slot that one interface cannot use is unusable for all.
func (f Facts) refusals() map[eni.Slot]UnusableSlot {
	all := map[eni.Slot]UnusableSlot{}
	for _, attempts := range f.Attempts {
		for slot, refusal := range attempts.UnusableSlots {
			known := all[slot]
			if refusal.At.Before(known.At) {
				refusal.At = known.At
			}
			all[slot] = UnusableSlot{At: refusal.At, Count: known.Count + refusal.Count}
		}
	}
	return all
}

// markUnusable treats a slot as taken if EC2 reported it as taken but returns no interface there. After a forced detach
// an index can stay unusable until the instance is stopped and started (EC2 user guide, "Detach a network interface").
// After the second refusal no further snapshot is necessary.
func (s *Slots) markUnusable(slot eni.Slot, refusal UnusableSlot, lookedAt, now time.Time) {
	if s.holders[slot] != "" {
		return
	}
	s.refused[slot] = true
	if (lookedAt.After(refusal.At) || refusal.Count > 1) && now.Before(refusal.until()) {
		s.holders[slot] = message.Unusable
	}
}

// wouldBeFull reports why no further interface fits if EC2 keeps refusing, so that retries of one slot after another do
// not change the status.
func (s *Slots) wouldBeFull(slot eni.Slot) *Problem {
	pessimist := *s
	pessimist.holders = maps.Clone(s.holders)
	for refused := range s.refused {
		pessimist.holders[refused] = message.Unusable
	}
	return pessimist.room(slot)
}

func (s *Slots) occupy(i eni.Interface, instanceID string) {
	if !i.AttachedTo(instanceID) {
		return
	}
	// Two reads from different times can have two interfaces in one slot. Either will do, but the choice must be stable.
	holder, cni := message.Holder(i)
	s.cni = s.cni || cni
	if other := s.holders[i.Attachment.Slot]; other == "" || holder < other {
		s.holders[i.Attachment.Slot] = holder
	}
}

// freeWhenGone records that the controller is freeing a slot.
func (s *Slots) freeWhenGone(slot eni.Slot) { s.leaving[slot] = true }

// reserve reserves a slot, so that interfaces that accept another one do not take it.
func (s *Slots) reserve(slot eni.Slot) { s.reserved[slot] = true }

// allocate returns a slot for a desired interface and marks it taken: the requested one or, unless only that one is
// allowed, another one of the same card.
func (s *Slots) allocate(asked eni.Slot, exact bool, forWhom string) (eni.Slot, *Problem) {
	slot, problem := s.choose(asked, exact)
	if problem != nil {
		return asked, problem
	}
	s.holders[slot] = forWhom
	return slot, nil
}

// choose returns the first free slot of those that serve for the requested one. A slot that another interface requests
// exactly is the last choice.
func (s *Slots) choose(asked eni.Slot, exact bool) (eni.Slot, *Problem) {
	if exact {
		if s.holders[asked] != "" {
			return asked, s.whyTaken(asked)
		}
		if p := s.beyondLast(asked); p != nil {
			return asked, p
		}
		return asked, s.room(asked)
	}
	if p := s.room(asked); p != nil {
		return asked, p
	}
	var reserved []eni.Slot
	for _, slot := range s.inOrder(asked) {
		switch {
		case s.leaving[slot]:
			return asked, s.waitForSlot(slot)
		case s.holders[slot] != "":
		case s.reserved[slot]:
			reserved = append(reserved, slot)
		default:
			return slot, nil
		}
	}
	if len(reserved) == 0 {
		return asked, s.cardFull(asked.Card)
	}
	return reserved[0], nil
}

// inOrder returns the slots of a card that serve for a requested one, the preferred ones first: those from the
// requested one up, and then those below it, down to the first. A card has as many device indices as it takes
// interfaces: EC2 refuses a launch with a higher one (aws/aws-k8s-tester#526). If the limits are unknown, as many are
// returned as it takes for one of them to be free.
func (s *Slots) inOrder(asked eni.Slot) []eni.Slot {
	last := asked.Device + 1 + len(s.holders) + len(s.reserved)
	if s.limits.Known() {
		last = s.limits.MaxOnCard(asked.Card) - 1
	}
	var all []eni.Slot
	for device := asked.Device; device <= last; device++ {
		all = append(all, eni.Slot{Card: asked.Card, Device: device})
	}
	for device := min(asked.Device-1, last); device >= 0; device-- {
		all = append(all, eni.Slot{Card: asked.Card, Device: device})
	}
	isPrimary := func(slot eni.Slot) bool { return slot == eni.Primary } // without a read, nothing holds it
	return slices.DeleteFunc(all, isPrimary)
}

// beyondLast reports why a slot that is requested exactly does not exist on its card. If the limits are unknown, EC2
// decides.
func (s *Slots) beyondLast(slot eni.Slot) *Problem {
	last := s.limits.MaxOnCard(slot.Card) - 1
	if last < 0 || slot.Device <= last {
		return nil
	}
	return &Problem{NoSuchDeviceIndex, message.NoSuchDeviceIndex(slot, s.instanceType, last)}
}

// whyTaken says why the only allowed slot is not available. Room elsewhere on the instance does not matter then.
func (s *Slots) whyTaken(slot eni.Slot) *Problem {
	if s.leaving[slot] {
		return s.waitForSlot(slot)
	}
	return &Problem{SlotTaken, message.SlotTaken(slot, s.holders[slot])}
}

// room reports why no further interface fits on the card of the slot. If the limits are unknown, EC2 decides.
func (s *Slots) room(slot eni.Slot) *Problem {
	if !s.limits.Known() {
		return nil
	}
	onCard := s.limits.MaxOnCard(slot.Card)
	if onCard == 0 {
		return &Problem{NoSuchNetworkCard, message.NoSuchNetworkCard(slot.Card, s.instanceType, s.limits)}
	}
	total, there := len(s.holders), 0
	for held := range s.holders {
		if held.Card == slot.Card {
			there++
		}
	}
	full := total >= s.limits.Interfaces || there >= onCard
	for _, leaving := range slices.SortedFunc(maps.Keys(s.leaving), eni.CompareSlots) {
		if full && (leaving.Card == slot.Card || there < onCard) {
			return s.waitForSlot(leaving)
		}
	}
	switch {
	case total >= s.limits.Interfaces:
		return &Problem{InstanceFull, message.InstanceFull(s.instanceType, s.limits.Interfaces, s.holders, s.cni)}
	case there >= onCard:
		return s.cardFull(slot.Card)
	}
	return nil
}

func (s *Slots) cardFull(card int) *Problem {
	return &Problem{InstanceFull, message.CardFull(card, s.instanceType, s.limits.MaxOnCard(card), s.holders)}
}

func (s *Slots) waitForSlot(slot eni.Slot) *Problem {
	return &Problem{InProgress, message.SlotLeft(slot, s.holders[slot])}
}

// allocateSlots allocates a slot for every wanted interface without one. Existing interfaces come first, so that none
// of them stays unattached because a new one took its slot. Slots that are requested exactly are reserved. Interfaces
// that are being created come before all others and keep their slots.
func (p *planner) allocateSlots() {
	var unplaced []*item
	for _, m := range p.items {
		switch {
		case m.Goal == Release && m.record != nil && m.record.AttachedTo(p.instanceID) && !m.isLaunched:
			if !p.refused(m) {
				p.slots.freeWhenGone(m.slot)
			}
		case m.again != nil && m.again.AttachedTo(p.instanceID):
			m.slot = m.again.Attachment.Slot
		case m.Goal == Serve && !m.hasSlot():
			unplaced = append(unplaced, m)
			if m.Settings.ExactSlot {
				p.slots.reserve(m.Settings.Slot)
			}
		}
	}
	isBeingMade := func(m *item) bool { return p.creating(m.Key.UID) != nil }
	slices.SortStableFunc(unplaced, func(a, b *item) int {
		return cmp.Or(first(isBeingMade(a), isBeingMade(b)), first(a.record != nil, b.record != nil),
			first(a.Settings.ExactSlot, b.Settings.ExactSlot))
	})
	for _, m := range unplaced {
		p.allocateSlot(m)
	}
	p.countUnattached()
}

// hasSlot reports whether the interface has a slot, even while it is being detached. One that is gone has none.
func (m *item) hasSlot() bool {
	return m.record == nil && m.ENIID != "" || m.record != nil && m.record.Attachment != nil
}

func (p *planner) allocateSlot(m *item) {
	m.problem = p.outsideCluster()
	if m.problem == nil && m.record == nil {
		m.problem = p.cannotBeMade(m)
	}
	if m.problem == nil {
		slot := m.Settings.Slot
		if create := p.creating(m.Key.UID); create != nil {
			slot = create.Slot
		}
		m.slot, m.problem = p.slots.allocate(slot, m.Settings.ExactSlot, message.Planned(m.Key.NodeENI))
	}
}

// cannotBeMade says why EC2, or the controller, cannot create the interface in any slot.
func (p *planner) cannotBeMade(m *item) *Problem {
	if problem := p.notImported(m.Settings); problem != nil {
		return problem
	}
	if m.Interface.Problem != nil {
		return m.Interface.Problem
	}
	return addressProblem(m, p.Limits, p.slots.instanceType)
}

// countUnattached skips interfaces without a slot: they wait for a person and must not delay others. One that EC2 was
// asked to make counts before the answer.
func (p *planner) countUnattached() {
	for _, m := range p.items {
		onItsWay := m.Goal == Serve && (m.problem == nil || m.problem.Reason.Transient()) || m.Goal == Release
		r := cmp.Or(m.record, m.again, m.likely)
		isMade := r == nil && p.creating(m.Key.UID) != nil
		if isMade || onItsWay && r != nil && (r.Attachment == nil || isExpected(r.Attachment)) {
			p.unattached++
		}
	}
}

// refused reports whether EC2 refuses to detach an interface that is being removed, so that its slot may never become
// free.
func (p *planner) refused(m *item) bool {
	failure := p.Attempts[m.Key.UID].Failure
	return failure.isRemoval() && (failure.Count >= maxDetachFailures || !failure.problem().Reason.Transient())
}

// first orders true before false.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}
