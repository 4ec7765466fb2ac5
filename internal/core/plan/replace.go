// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/multieni/multieni/internal/core/identity"
)

// selectReplacement selects at most one interface with drift for removal, and none while another desired member of the
// instance is not attached. A partial answer to the selectors is no reason to replace one.
func (p *planner) selectReplacement() {
	var drifted []*Interface
	for _, m := range p.members {
		if !m.Desired || m.Launched != nil && m.Launched.Ready() {
			continue
		}
		if m.Settings == nil {
			continue // it cannot exist here, and would block every replacement
		}
		if !p.settled(m) {
			p.plan.Unsettled = append(p.plan.Unsettled, m.Owner)
			continue
		}
		if m.mayBeReplaced() && m.replaceable() && p.outsideCluster() == nil {
			drifted = append(drifted, m)
		}
	}
	n := slices.IndexFunc(drifted, p.slotFreeFor)
	if n < 0 || len(p.plan.Unsettled) > 0 {
		return
	}
	p.plan.ReplaceCandidate = drifted[n].Owner
	if p.ReplaceAllowed {
		drifted[n].Goal, drifted[n].Why.Message = Release, "it is replaced: "+drifted[n].Drift[0].String()
	}
}

// InRollout returns the owners whose rollout has not ended on the instance: they lack an interface, or replace or
// remove one. A retained interface without an attachment counts as lacking until a user ends the pause.
func (p Plan) InRollout() []identity.Owner {
	owners := append(slices.Clone(p.Unsettled), p.ReplaceCandidate, p.EvictCandidate)
	for _, m := range p.Members {
		if m.Why.Reason == Retained && m.Phase != Attached {
			owners = append(owners, m.Owner)
		}
	}
	return slices.DeleteFunc(owners, func(owner identity.Owner) bool { return owner == "" })
}

// settled reports whether the member has its interface, in its slot.
func (p *planner) settled(m *Interface) bool {
	return m.Record != nil && m.Record.Ready() && m.Record.AttachedTo(p.InstanceID)
}

// mayBeReplaced reports whether the NodeENI allows the replacement of its interfaces and everything is known that a new
// one needs.
func (m *Interface) mayBeReplaced() bool {
	return m.ReplaceAllowed && m.AllResolved && m.SecurityGroupProblem == nil
}

// replaceable reports whether a live interface with drift may be replaced: it is in no transition, only its subnet or
// slot differs, and its tags name its NodeENI. An adopted interface without those tags is retained like any other
// interface in use of a lost NodeENI.
func (m *Interface) replaceable() bool {
	r := m.Record
	return len(m.Drift) > 0 && !r.Missing && r.Tags[identity.TagNodeENIUID] == string(r.Member.Owner)
}

// slotFreeFor reports whether a slot is free for the successor of a live interface. With Prefer, that is the next free
// one from the requested one on.
func (p *planner) slotFreeFor(m *Interface) bool {
	return m.Slot == m.Target || (!m.ExactSlot || p.slots.holders[m.Target] == "") && p.noRoomAtTarget(m) == nil
}

// noRoomAtTarget says why the network card of the target slot has no room for a live interface, once the interface has
// left its present slot.
func (p *planner) noRoomAtTarget(m *Interface) *Problem {
	if m.Slot == m.Target {
		return nil
	}
	without := *p.slots
	without.holders = maps.Clone(p.slots.holders)
	delete(without.holders, m.Slot)
	return without.room(m.Target)
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
	if p.plan.ReplaceCandidate != "" && p.ReplaceDenied != "" {
		return waits("%s", p.ReplaceDenied)
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
	siblingsFirst := p.plan.ReplaceCandidate == m.Owner || slices.Contains(p.plan.Unsettled, m.Owner)
	holder := p.slots.holders[m.Target]
	if m.ExactSlot && holder != "" && m.Slot != m.Target && !siblingsFirst {
		return &Problem{SlotTaken, fmt.Sprintf(
			"%s must move to %s, which is held by %s; free it, or ask for another deviceIndex, or set "+
				"deviceIndexPolicy: Prefer", m.Record.ID, m.Target, holder)}
	}
	if full := p.noRoomAtTarget(m); full != nil && !full.Reason.Transient() {
		return &Problem{full.Reason, fmt.Sprintf("%s stays at %s instead of %s: %s", m.Record.ID, m.Slot,
			m.Target, full.Message)}
	}
	return nil
}
