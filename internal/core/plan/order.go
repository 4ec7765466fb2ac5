// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"github.com/multieni/multieni/internal/core/eni"
)

// target returns the slot where an interface belongs, regardless of its neighbors: the requested slot or, unless only
// that one is allowed, its present slot above it. Prefer accepts every index above the preferred one.
func (c *Claim) target(wanted eni.Slot, i eni.Interface) eni.Slot {
	if i.Attachment == nil {
		return wanted
	}
	have := i.Attachment.Slot
	if !c.ExactSlot && have.Card == wanted.Card && have.Device > wanted.Device {
		return have
	}
	return wanted
}

// arrange sets the target of every member with a desired interface. Members that prefer a slot keep their present one,
// unless the slots of their NodeENI are not in the declared order: then all of them get the lowest free slots, in that
// order, like new ones. If two NodeENIs could move interfaces to one slot, an exact index comes first, then the first
// NodeENI. Otherwise the second NodeENI would detach its interface without effect.
func (p *planner) arrange() {
	var claims []*Claim
	siblings := map[*Claim][]*member{}
	for _, m := range p.members {
		if m.desired == nil || m.launchInterface != nil {
			continue
		}
		m.target = m.desired.Slot
		if m.record != nil {
			m.target = m.claim.target(m.desired.Slot, m.record.Interface)
		}
		if siblings[m.claim] == nil {
			claims = append(claims, m.claim)
		}
		siblings[m.claim] = append(siblings[m.claim], m)
	}
	slices.SortStableFunc(claims, func(a, b *Claim) int { return first(a.ExactSlot, b.ExactSlot) })
	for _, claim := range claims {
		members := siblings[claim]
		if !claim.ExactSlot && p.disordered(members) {
			p.reorder(members)
		}
		moving := slices.ContainsFunc(members, p.moves)
		for _, m := range members {
			m.ordered = moving
			p.assign(m)
		}
	}
}

// assign reserves the slot that a member will get against the members of later NodeENIs.
func (p *planner) assign(m *member) {
	switch {
	case p.hasSlotHere(m) && !p.moves(m):
	case m.ordered || m.claim.ExactSlot:
		p.slots.assigned[m.target] = true
	default:
		p.slots.assigned[p.slotNow(m)] = true
	}
}

// disordered reports whether a member has a slot that it cannot keep. The members are those of one NodeENI in the order
// of its subnets. During a replacement, a member without a slot counts with the slot that it would get now, so that
// targets stay the same while an interface moves to another slot.
func (p *planner) disordered(members []*member) bool {
	for n, m := range members {
		if p.hasSlotHere(m) && m.record.Attachment.Slot != m.target {
			return true
		}
		for _, later := range members[n+1:] {
			if p.crossed(m, later) {
				return true
			}
		}
	}
	return false
}

// crossed reports whether two members, the first declared before the second, have their slots in the reverse order and
// must move: their ordinals are in the reverse order too, so they were created in an earlier declared order, or the
// first may be replaced and its requested slot is free. An interface in use does not move because another program took
// a slot, and never to a slot that EC2 once reported as taken, because each attempt would detach it without effect.
func (p *planner) crossed(a, b *member) bool {
	if !p.hasSlotHere(a) && !p.hasSlotHere(b) || eni.CompareSlots(p.slotNow(a), p.slotNow(b)) < 0 {
		return false
	}
	if !p.hasSlotHere(a) || !p.hasSlotHere(b) {
		return a.claim.ReplaceAllowed
	}
	wanted := a.desired.Slot
	free := p.slots.holders[wanted] == "" && !p.slots.refused[wanted] && !p.slots.assigned[wanted] ||
		p.at(a.claim, wanted) != nil
	return a.Ordinal > b.Ordinal || a.claim.ReplaceAllowed && free
}

// slotNow returns the slot of a member, or the one that it would get now. It waits for a slot that is being freed.
func (p *planner) slotNow(m *member) eni.Slot {
	if p.hasSlotHere(m) {
		return m.record.Attachment.Slot
	}
	slot := m.desired.Slot
	for p.slots.assigned[slot] || p.slots.holders[slot] != "" && !p.leaves(slot) {
		slot.Device++
	}
	return slot
}

// leaves reports whether the interface at a slot is being removed.
func (p *planner) leaves(slot eni.Slot) bool {
	return slices.ContainsFunc(p.members, func(m *member) bool {
		return m.removeReason != "" && m.record != nil && m.record.AttachedTo(p.InstanceID) &&
			m.record.Attachment.Slot == slot && !p.refused(m)
	})
}

// hasSlotHere reports whether the member has a slot of the instance and EC2 is not detaching it.
func (p *planner) hasSlotHere(m *member) bool { return m.record != nil && p.live(m.record) }

// reorder sets the targets of the members of one NodeENI, in their order, to the lowest slots that have no other holder
// and are not assigned.
func (p *planner) reorder(members []*member) {
	own := map[eni.Slot]bool{}
	for _, m := range members {
		if p.hasSlotHere(m) {
			own[m.record.Attachment.Slot] = true
		}
	}
	var next eni.Slot
	for _, m := range members {
		m.target = m.desired.Slot
		if m.target.Card == next.Card {
			m.target.Device = max(m.target.Device, next.Device)
		}
		for !own[m.target] && (p.slots.holders[m.target] != "" || p.slots.assigned[m.target]) {
			m.target.Device++
		}
		next = eni.Slot{Card: m.target.Card, Device: m.target.Device + 1}
	}
}

// slotFor returns the slot to allocate for a member without one, and whether only that slot is allowed. While other
// members of its NodeENI move, that is its target if free, and otherwise temporarily another slot.
func (p *planner) slotFor(m *member) (slot eni.Slot, alone bool) {
	if slot, beingMade := p.slotOf(m.Key); beingMade {
		return slot, m.claim.ExactSlot
	}
	if m.ordered {
		return m.target, p.slots.holders[m.target] == "" || m.claim.ExactSlot && !p.stepsAside(m)
	}
	return m.desired.Slot, m.claim.ExactSlot
}

// moves reports whether a member must, and may, leave its slot for its target.
func (p *planner) moves(m *member) bool {
	return m.desired != nil && m.launchInterface == nil && m.claim.ReplaceAllowed && p.hasSlotHere(m) &&
		m.record.Attachment.Slot != m.target
}

// at returns the member of a NodeENI in a slot, or nil.
func (p *planner) at(claim *Claim, slot eni.Slot) *member {
	for _, m := range p.members {
		if m.claim == claim && m.desired != nil && m.launchInterface == nil && p.hasSlotHere(m) &&
			m.record.Attachment.Slot == slot {
			return m
		}
	}
	return nil
}

// stepsAside reports whether a member uses another slot than its target until another member of its NodeENI, which also
// has to move, has left the target.
func (p *planner) stepsAside(m *member) bool {
	holder := p.at(m.claim, m.desired.Slot)
	return holder != nil && holder != m && p.moves(holder)
}

// inCircle reports whether a member and others of its NodeENI wait for each other's slots and all may be replaced, so
// that one of them has to move aside.
func (p *planner) inCircle(m *member) bool {
	next := m
	for range p.members {
		if !p.moves(next) || !next.replaceable() {
			return false
		}
		if next = p.at(next.claim, next.target); next == nil || next == m {
			return next == m
		}
	}
	return false
}
