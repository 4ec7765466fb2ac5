// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
)

// pruneGenerations removes the members that do not exist, are not desired, and cannot become visible any more.
func (p *planner) pruneGenerations(steps []step) {
	current := map[identity.Key]bool{}
	for _, s := range steps {
		current[s.Key] = true
	}
	maps.DeleteFunc(p.plan.Ledger, func(key identity.Key, generation identity.Generation) bool {
		if current[key] {
			return false
		}
		until := p.visibleBy(key, generation)
		if !p.now.Before(until) {
			return true
		}
		p.requeueAt(until)
		return false
	})
	p.limitGenerations(steps)
}

// MaxLedger is the largest number of members in the ledger of an instance (the schema of NodeENIState). No instance has
// as many slots.
const MaxLedger = 128

// limitGenerations shortens a ledger that is too long. It removes first the members that tags name as well, then those
// that cannot become visible any more. Neither loses information, because a generation is the time of its creation.
func (p *planner) limitGenerations(steps []step) {
	if len(p.plan.Ledger) <= MaxLedger {
		return
	}
	var exist, settled []identity.Key
	for _, s := range steps {
		generation, stored := p.plan.Ledger[s.Key]
		switch {
		case !stored || s.Phase == Creating:
		case s.m.record != nil:
			exist = append(exist, s.Key)
		case !p.now.Before(p.visibleBy(s.Key, generation)):
			settled = append(settled, s.Key)
		}
	}
	for _, keys := range [][]identity.Key{exist, settled} {
		slices.SortFunc(keys, func(a, b identity.Key) int { return b.Compare(a) })
		for _, key := range keys[:min(len(keys), max(0, len(p.plan.Ledger)-MaxLedger))] {
			delete(p.plan.Ledger, key)
		}
	}
}

// clockSkew is the assumed difference between the clocks of two controllers.
const clockSkew = time.Hour

// visibleBy returns the time until which an unknown interface in the ledger may become visible, because the answer to
// its create call was lost; zero if it cannot.
func (p *planner) visibleBy(key identity.Key, generation identity.Generation) time.Time {
	if generation == identity.Adopted || p.UsedGenerations[key] >= generation {
		return time.Time{} // never created, or deleted
	}
	tried := generation.Time()
	if tried.After(p.now.Add(clockSkew)) {
		tried = time.Time{} // another program wrote it; it is no time
	}
	for _, at := range []time.Time{p.Backoffs[key].At, p.ObservedSince} {
		if at.After(tried) {
			tried = at
		}
	}
	return tried.Add(inventory.VisibilityWindow)
}

// ReleaseInstance plans for a node that does not have the instance any more, or not yet: another Node owns the instance
// and its interfaces. The plan has no actions. Its ledger keeps the members that no other ledger names: existing
// interfaces until another ledger names them, and others until they would have become visible. That includes an
// interface that EC2 returns as unattached, because a call whose answer was lost may attach it.
func ReleaseInstance(o Observed, now time.Time) Plan {
	p := &planner{Observed: o, now: now, plan: Plan{Ledger: maps.Clone(o.Ledger)}}
	alone := identity.Generations{}
	for _, r := range o.Owned {
		generation, stored := o.Ledger[r.Member.Key]
		if !stored || r.Member.Generation < generation {
			continue
		}
		if o.OtherLedgers[r.Member.Key] < generation {
			alone[r.Member.Key] = generation
			p.requeueAt(now.Add(p.takeoverRecheck(r)))
		}
		delete(p.plan.Ledger, r.Member.Key)
	}
	p.pruneGenerations(nil)
	maps.Copy(p.plan.Ledger, alone)
	return p.plan
}

// takeoverRecheck is the requeue until the ledger of the node that owns the instance names an interface. That node
// adopts interfaces with evidence at once, and leaves the rest for a person, including interfaces that a user or
// another program attached to another instance.
func (p *planner) takeoverRecheck(r inventory.Record) time.Duration {
	if (r.Attachment == nil || r.AttachedTo(r.Member.InstanceID)) && p.hasEvidence(r) && p.whyCopy(r) == "" {
		return uncertainRecheck
	}
	return foreignSlotRecheck
}
