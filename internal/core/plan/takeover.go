// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/message"
)

// An object has one interface at most in its life. One that records none takes over an existing interface of its
// instance, before it creates one. Tags can be copied, and calls of earlier leaders may still be under way, so that
// only two answers count: EC2's answer to the object's client token, and a read that shows all effects of earlier
// calls. The caller records the interface in the object before any call that depends on it.

// takeOver finds the existing interface of each object.
func (p *planner) takeOver() {
	taken := map[string]bool{}
	for _, m := range p.items {
		if m.ENIID != "" {
			taken[m.ENIID] = true
			m.record, m.isLaunched = p.recorded(m.ENIID)
			m.isLaunched = m.isLaunched || m.Launched
		}
	}
	for _, m := range p.items {
		if m.ENIID == "" {
			p.takeOverFor(m, taken)
		}
		if m.record != nil {
			taken[m.record.ID] = true
			if m.record.Attachment != nil {
				m.slot = m.record.Attachment.Slot
			}
		}
	}
}

// recorded returns the interface that an object records, if it is known, and whether it is a launch interface.
func (p *planner) recorded(id string) (record *inventory.Record, launched bool) {
	has := func(r inventory.Record) bool { return r.ID == id }
	if n := slices.IndexFunc(p.Interfaces, has); n >= 0 {
		return &p.Interfaces[n], false
	}
	if n := slices.IndexFunc(p.Facts.Launched, has); n >= 0 {
		return &p.Facts.Launched[n], true
	}
	return nil, false
}

// takeOverFor finds the existing interface of an object that records none.
func (p *planner) takeOverFor(m *item, taken map[string]bool) {
	find := func(all []inventory.Record, is func(inventory.Record) bool) *inventory.Record {
		n := slices.IndexFunc(all, func(r inventory.Record) bool { return !taken[r.ID] && is(r) })
		if n < 0 {
			return nil
		}
		return &all[n]
	}
	if r := find(p.Interfaces, func(r inventory.Record) bool { return r.CreatedFor == m.Key.UID }); r != nil {
		m.record, m.evidence = r, Created
		return
	}
	asks := p.asksToken(m)
	for _, is := range []func(inventory.Record) bool{
		func(r inventory.Record) bool { return r.Tagged.UID == m.Key.UID && p.isHere(r) },
		func(r inventory.Record) bool { return r.Tagged.UID == m.Key.UID && asks },
		func(r inventory.Record) bool { return r.Tagged.Name == m.Key.Name && p.serves(m, r) },
		func(r inventory.Record) bool { return p.isOfNetwork(m, r) && p.serves(m, r) },
	} {
		if r := find(p.Interfaces, is); r != nil {
			p.takeOverSettled(m, r, TakenOver)
			return
		}
	}
	if r := find(p.Facts.Launched, func(r inventory.Record) bool { return p.isLaunchedFor(m, r) }); r != nil {
		p.takeOverSettled(m, r, Launched)
	}
}

// isHere reports whether no other instance has the interface. Tags alone prove nothing about one that another has.
func (p *planner) isHere(r inventory.Record) bool {
	return r.Attachment == nil || r.AttachedTo(p.instanceID)
}

// serves reports whether an interface with the name of the object can serve it: it is in an allowed subnet, and no
// other instance has it. An object that is being deleted takes over one of any subnet.
func (p *planner) serves(m *item, r inventory.Record) bool {
	return p.isHere(r) && (m.Goal == Release || !r.Missing && m.Settings.Allows(r.SubnetID))
}

// isOfNetwork reports whether a lifecycle hook or the boot of the instance made the interface for what the object
// serves: a network of the same name, or one in its slot whose name is that of no other object that can take it over.
func (p *planner) isOfNetwork(m *item, r inventory.Record) bool {
	switch {
	case m.Goal == Release || !r.Tagged.UID.IsNetwork():
		return false
	case r.Tagged.NodeENI == m.Key.NodeENI:
		return true
	default:
		return r.Attachment != nil && r.Attachment.Slot == m.Settings.Slot &&
			!slices.ContainsFunc(p.items, func(other *item) bool {
				return other.Key.NodeENI == r.Tagged.NodeENI && (!other.OfNetwork || other.ENIID == "")
			})
	}
}

// isLaunchedFor reports whether a launch interface is in the slot of the object.
func (p *planner) isLaunchedFor(m *item, r inventory.Record) bool {
	return m.Goal != Release && r.AttachedTo(p.instanceID) && r.Attachment.Slot == m.Settings.Slot &&
		r.Attachment.Slot != eni.Primary && m.Settings.Allows(r.SubnetID)
}

// takeOverSettled makes a record the interface of the object once the read of it is settled. Until then the object
// waits, or asks EC2 with its client token if the tags name the object itself.
func (p *planner) takeOverSettled(m *item, r *inventory.Record, evidence Evidence) {
	settled := p.settledAt(m, r)
	isItsOwn := r.Tagged.UID == m.Key.UID
	if isItsOwn && p.asksToken(m) {
		m.again = r
		return
	}
	if !r.Missing && !r.LastRead.IsZero() && !r.LastRead.Before(settled) && (!isItsOwn || !p.isCopied(r)) {
		m.record, m.evidence, m.isLaunched = r, evidence, evidence == Launched
		return
	}
	if !r.Missing && isItsOwn && p.isCopied(r) && !p.now.Before(settled) {
		m.awaited = &wait{
			why:   Problem{NotImported, message.TagsCopied(r.ID)},
			until: p.now.Add(foreignSlotRecheck), needsRead: p.Snapshot == nil,
		}
		return
	}
	m.likely = r
	m.awaited = &wait{
		why:       Problem{InProgress, message.MayBeTakenOver(r.ID)},
		until:     later(settled, p.now.Add(uncertainRecheck)),
		needsRead: p.Snapshot == nil && !p.now.Before(settled),
	}
	if p.now.Before(settled) {
		m.awaited.until = settled
	}
}

// asksToken reports whether the planner asks EC2 with the client token of the object which interface is its own. EC2
// certainly remembers the token, if it was used, and has not refused the call.
func (p *planner) asksToken(m *item) bool {
	refusal := p.Attempts[m.Key.UID].Failure.Class
	return m.Goal != Keep && !p.ended && p.now.Sub(m.Since) < TokenMemory &&
		refusal != eni.IdempotencyMismatch && !IsFull(refusal) && !NeedsCorrection(refusal) &&
		!m.Settings.LowestFree // a repetition would name another address
}

// isCopied reports whether several interfaces have the UID of one in their tags.
func (p *planner) isCopied(r *inventory.Record) bool {
	return slices.ContainsFunc(p.Interfaces, func(other inventory.Record) bool {
		return other.ID != r.ID && other.Tagged.UID == r.Tagged.UID
	})
}

// settledAt returns the time from which a read of the interface certainly shows all changes: those by earlier leaders,
// and those by calls of this process without an answer, for this object or for the one that the tags name.
func (p *planner) settledAt(m *item, r *inventory.Record) time.Time {
	at := p.Era.SettledAt()
	for _, attempts := range []Attempts{p.Attempts[m.Key.UID], p.Attempts[r.Tagged.UID]} {
		if !attempts.Unanswered.IsZero() {
			at = later(at, attempts.Unanswered.Add(inventory.StaleReadWindow))
		}
	}
	return at
}
