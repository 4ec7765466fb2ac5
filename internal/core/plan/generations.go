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

// pruneGenerations drops the members that neither exist nor are wanted, and of which nothing may come to light any more.
func (p *planner) pruneGenerations() {
	current := map[identity.Key]bool{}
	for _, m := range p.members {
		current[m.Key] = true
	}
	maps.DeleteFunc(p.plan.Ledger, func(key identity.Key, generation int64) bool {
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
	p.limitGenerations()
}

// MaxLedger is how many members the ledger of an instance holds (the schema of NodeENIState). No instance has slots for as
// many.
const MaxLedger = 128

// limitGenerations drops from a ledger that has grown too long first what tags tell as well, then what can no longer come to
// light: neither is lost with it, since a generation is the time of its creation.
func (p *planner) limitGenerations() {
	if len(p.plan.Ledger) <= MaxLedger {
		return
	}
	var exist, settled []identity.Key
	for _, m := range p.members {
		generation, promised := p.plan.Ledger[m.Key]
		switch {
		case !promised || m.Phase == Creating:
		case m.record != nil:
			exist = append(exist, m.Key)
		case !p.now.Before(p.visibleBy(m.Key, generation)):
			settled = append(settled, m.Key)
		}
	}
	for _, keys := range [][]identity.Key{exist, settled} {
		slices.SortFunc(keys, func(a, b identity.Key) int { return b.Compare(a) })
		for _, key := range keys[:min(len(keys), max(0, len(p.plan.Ledger)-MaxLedger))] {
			delete(p.plan.Ledger, key)
		}
	}
}

// clockSkew is by how much the clocks of two controllers may differ.
const clockSkew = time.Hour

// visibleBy returns until when an interface that the ledger speaks of, and that is not known to exist, may come to light,
// because the answer to its creation was lost; zero if it cannot.
func (p *planner) visibleBy(key identity.Key, generation int64) time.Time {
	if generation == adoptedGeneration || p.UsedGenerations[key] >= generation {
		return time.Time{} // nothing was ever made for it, or it is gone
	}
	tried := time.Unix(generation, 0)
	if tried.After(p.now.Add(clockSkew)) {
		tried = time.Time{} // somebody's number, and no time
	}
	for _, at := range []time.Time{p.Backoffs[key].At, p.ObservedSince} {
		if at.After(tried) {
			tried = at
		}
	}
	return tried.Add(inventory.VisibilityWindow)
}

// ReleaseInstance plans for an instance under the name of a node that does not have it any more, or not yet: another Node has it, and
// what is there is that one's. Nothing is done. What no other ledger speaks of stays in this one: what is attached until one
// does, and the rest until it would have come to light.
func ReleaseInstance(o Observed, now time.Time) Plan {
	p := &planner{Observed: o, now: now, plan: Plan{Ledger: maps.Clone(o.Ledger)}}
	alone := map[identity.Key]int64{}
	for _, r := range o.Owned {
		generation, promised := o.Ledger[r.Member.Key]
		if !promised || r.Member.Generation < generation {
			continue
		}
		if r.Attachment != nil && o.OtherLedgers[r.Member.Key] < generation {
			alone[r.Member.Key] = generation
			p.requeueAt(now.Add(p.takeoverRecheck(r)))
		}
		delete(p.plan.Ledger, r.Member.Key)
	}
	p.pruneGenerations()
	maps.Copy(p.plan.Ledger, alone)
	return p.plan
}

// takeoverRecheck is after what time to look whether the node that has the instance has an interface in its ledger. It takes over at
// once what more than tags says to be ours, and leaves the rest for a person.
func (p *planner) takeoverRecheck(r inventory.Record) time.Duration {
	if p.hasEvidence(r) && p.whyCopy(r) == "" {
		return uncertainRecheck
	}
	return foreignSlotRecheck
}
