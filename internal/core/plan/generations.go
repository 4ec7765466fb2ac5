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
	if next := p.PruneLedger(p.plan.Ledger, current, p.now); !next.IsZero() {
		p.requeueAt(next)
	}
	p.limitGenerations(steps)
}

// PruneLedger removes from a ledger the members that are not current and cannot become visible any more. It returns
// when another one cannot; zero if none may become visible.
func (o Observed) PruneLedger(ledger identity.Generations, current map[identity.Key]bool, now time.Time) time.Time {
	var next time.Time
	maps.DeleteFunc(ledger, func(key identity.Key, generation identity.Generation) bool {
		if current[key] {
			return false
		}
		until := o.VisibleBy(key, generation, now)
		if !now.Before(until) {
			return true
		}
		next = earlier(next, until)
		return false
	})
	return next
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
		case s.m.Record != nil:
			exist = append(exist, s.Key)
		case !p.now.Before(p.VisibleBy(s.Key, generation, p.now)):
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

// VisibleBy returns the time until which an unknown interface in the ledger may become visible, because the answer to
// its create call was lost; zero if it cannot.
func (o Observed) VisibleBy(key identity.Key, generation identity.Generation, now time.Time) time.Time {
	if generation == identity.Adopted || o.UsedGenerations[key] >= generation {
		return time.Time{} // never created, or deleted
	}
	tried := generation.Time()
	if tried.After(now.Add(clockSkew)) {
		tried = time.Time{} // another program wrote it; it is no time
	}
	for _, at := range []time.Time{o.Backoffs[key].At, o.Era.Since} {
		if at.After(tried) {
			tried = at
		}
	}
	return tried.Add(inventory.VisibilityWindow)
}
