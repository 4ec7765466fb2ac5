// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"time"

	"github.com/multieni/multieni/inventory"
	"github.com/multieni/multieni/ownership"
)

// tidyLedger drops the members that neither exist nor are wanted, and of which nothing may come to light any more.
func (p *planner) tidyLedger() {
	current := map[ownership.Key]bool{}
	for _, m := range p.members {
		current[m.Key] = true
	}
	maps.DeleteFunc(p.plan.Ledger, func(key ownership.Key, generation int64) bool {
		if current[key] {
			return false
		}
		until := p.shownBy(key, generation)
		if !p.now.Before(until) {
			return true
		}
		p.again(until)
		return false
	})
}

// shownBy returns until when an interface that the ledger speaks of, and that is not known to exist, may come to light,
// because the answer to its creation was lost; zero if it cannot.
func (o Observed) shownBy(key ownership.Key, generation int64) time.Time {
	if generation == adopted || o.Spent[key] >= generation {
		return time.Time{} // nothing was ever made for it, or it is gone
	}
	tried := time.Unix(generation, 0)
	for _, at := range []time.Time{o.Setbacks[key].At, o.Since} {
		if at.After(tried) {
			tried = at
		}
	}
	return tried.Add(inventory.Newborn)
}

// LetGo plans for an instance under the name of a node that does not have it any more, or not yet: another Node has it, and
// what is there is that one's. Nothing is done; what only this ledger speaks of stays in it until it would have come to light.
func LetGo(o Observed, now time.Time) Plan {
	p := &planner{Observed: o, now: now, plan: Plan{Ledger: maps.Clone(o.Ledger)}}
	for _, r := range o.Owned {
		if r.Member.Generation >= o.Ledger[r.Member.Key] {
			delete(p.plan.Ledger, r.Member.Key)
		}
	}
	p.tidyLedger()
	return p.plan
}
