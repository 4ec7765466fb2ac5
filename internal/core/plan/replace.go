// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"slices"
)

// FreeFor reports whether a slot is free for the successor of a live interface. With Prefer, that is any one of the
// card.
func (s *Slots) FreeFor(i Interface) bool {
	return i.Slot == i.Target || (!i.ExactSlot || s.holders[i.Target] == "") && s.roomAtTarget(i) == nil
}

// roomAtTarget says why the network card of the target slot has no room for a live interface, once the interface has
// left its present slot.
func (s *Slots) roomAtTarget(i Interface) *Problem {
	if i.Slot == i.Target {
		return nil
	}
	without := *s
	without.holders = maps.Clone(s.holders)
	delete(without.holders, i.Slot)
	if beyond := without.beyondLast(i.Target); beyond != nil && i.ExactSlot {
		return beyond
	}
	return without.room(i.Target)
}

// waitsForReplacement says why a live interface is not replaced yet, although it may be.
func (p *planner) waitsForReplacement(m *Interface) Problem {
	waits := func(format string, args ...any) Problem {
		return Problem{Replacing, fmt.Sprintf("%s will be replaced (%s) once ", m.Record.ID, m.Drift[0]) +
			fmt.Sprintf(format, args...)}
	}
	for _, other := range p.members {
		if other.Settings != nil && other.Desired && other != m && (other.Record == nil || other.Goal == Release ||
			!other.Record.Ready() || !other.Record.AttachedTo(p.InstanceID)) {
			return waits("interface %d of NodeENI %s is attached; it is now %s", other.Ordinal, other.NodeENI, phaseIn(other))
		}
	}
	if !m.AllResolved {
		return waits("all selectors of its NodeENI are resolved")
	}
	if p.Replacement.Denied != "" {
		return waits("%s", p.Replacement.Denied)
	}
	return waits("another interface of the node has been replaced")
}

// forbidsReplacement says what a person must correct before a live interface can be replaced.
func (p *planner) forbidsReplacement(m *Interface) *Problem {
	if m.SecurityGroupProblem != nil {
		return m.SecurityGroupProblem
	}
	if outside := p.outsideCluster(); outside != nil {
		return outside
	}
	// Another interface of its NodeENI that is about to move, or on its way, may be the holder.
	siblingsFirst := p.Replacement.Owner == m.Owner || slices.ContainsFunc(p.members, func(other *Interface) bool {
		return other.Owner == m.Owner && other.IsUnsettled(p.InstanceID)
	})
	holder := p.slots.holders[m.Target]
	if m.ExactSlot && holder != "" && m.Slot != m.Target && !siblingsFirst {
		return &Problem{SlotTaken, fmt.Sprintf(
			"%s must move to %s, which is held by %s; free it, or ask for another deviceIndex, or set "+
				"deviceIndexPolicy: Prefer", m.Record.ID, m.Target, holder)}
	}
	if full := p.slots.roomAtTarget(*m); full != nil && !full.Reason.Transient() {
		return &Problem{full.Reason, fmt.Sprintf("%s stays at %s instead of %s: %s", m.Record.ID, m.Slot,
			m.Target, full.Message)}
	}
	return nil
}
