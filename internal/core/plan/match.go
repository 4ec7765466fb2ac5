// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"

	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
)

// matching says which owned interface belongs to which desired one. Each index appears once.
type matching struct {
	// byDesired maps the index of a desired interface to the index of its interface.
	byDesired map[int]int
	// surplus are the indices of interfaces without a desired one.
	surplus []int
}

// match pairs desired interfaces with those that a NodeENI already has on the instance. The subnet takes precedence
// over the ordinal, so that the removal of one subnet from a list never pairs the others with different interfaces. The
// remaining interfaces are paired only if they are attached: a live interface in a replaced subnet is drift to report,
// not an interface to remove. Verified interfaces are paired first.
func match(
	desired []DesiredInterface, owned []inventory.Record, instanceID string, verified func(inventory.Record) bool,
) matching {
	candidates := make([]int, len(owned))
	for i := range owned {
		candidates[i] = i
	}
	slices.SortStableFunc(candidates, func(a, b int) int { return compareRetention(owned[a], owned[b], instanceID) })

	p := matching{byDesired: map[int]int{}}
	taken := map[int]bool{}
	pass := func(fits func(DesiredInterface, inventory.Record) bool) {
		for w, d := range desired {
			if _, done := p.byDesired[w]; done {
				continue
			}
			for _, i := range candidates {
				if !taken[i] && fits(d, owned[i]) {
					p.byDesired[w], taken[i] = i, true
					break
				}
			}
		}
	}
	sameOrdinal := func(w DesiredInterface, r inventory.Record) bool { return w.Ordinal == r.Member.Ordinal }
	allowed := func(w DesiredInterface, r inventory.Record) bool { return w.allows(r.SubnetID) }
	attached := func(_ DesiredInterface, r inventory.Record) bool { return r.AttachedTo(instanceID) }
	for _, sure := range []bool{true, false} {
		for _, fit := range [][]func(DesiredInterface, inventory.Record) bool{{sameOrdinal, allowed}, {allowed},
			{sameOrdinal, attached}, {attached}} {
			pass(func(w DesiredInterface, r inventory.Record) bool {
				return verified(r) == sure && !slices.ContainsFunc(fit,
					func(fits func(DesiredInterface, inventory.Record) bool) bool { return !fits(w, r) })
			})
		}
	}
	for i := range owned {
		if !taken[i] {
			p.surplus = append(p.surplus, i)
		}
	}
	return p
}

// isCertain reports whether every interface that is paired with a desired one certainly exists. A deleted interface can
// reappear in a stale read, and its apparent duplicate may be its successor.
func (p matching) isCertain(owned []inventory.Record) bool {
	for _, i := range p.byDesired {
		if !owned[i].Confirmed || owned[i].Missing {
			return false
		}
	}
	return true
}

// compareRetention orders two interfaces by preference for retention: the attached one first, then the older one.
func compareRetention(a, b inventory.Record, instanceID string) int {
	rank := func(r inventory.Record) int {
		switch {
		case r.AttachedTo(instanceID) && r.Ready():
			return 0
		case r.AttachedTo(instanceID):
			return 1
		default:
			return 2
		}
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Member.Generation, b.Member.Generation),
		cmp.Compare(a.ID, b.ID))
}

func (w DesiredInterface) allows(subnetID string) bool { return slices.Contains(w.Subnets, subnetID) }

// ordinals chooses the ordinal of each desired interface without an interface. It reuses an ordinal with a create call
// whose interface may still become visible, so that the same call is repeated, regardless of other changes. Otherwise
// it chooses the desired interface's own ordinal or, if an interface of the NodeENI has that, the lowest free one.
func (p *planner) ordinals(claim *Claim, pairs matching, owned []inventory.Record) map[int]int {
	used := map[int]bool{}
	for _, r := range owned {
		used[r.Member.Ordinal] = true
	}
	pending := p.ledgerOrdinals(claim, pairs, used)
	chosen := map[int]int{}
	var displaced []int
	for w, d := range claim.Interfaces {
		_, paired := pairs.byDesired[w]
		own := identity.Key{Owner: claim.Owner, Ordinal: d.Ordinal}
		switch {
		case paired:
		case len(pending) > 0 && (used[own.Ordinal] || !p.mayBecomeVisible(own)):
			chosen[w], pending = pending[0], pending[1:]
		case used[d.Ordinal]:
			displaced = append(displaced, w)
		default:
			chosen[w], used[d.Ordinal] = d.Ordinal, true
		}
	}
	for _, w := range displaced {
		n := 0
		for used[n] {
			n++
		}
		chosen[w], used[n] = n, true
	}
	return chosen
}

// ledgerOrdinals returns, in order, the ordinals with a create call whose interface is unknown, and marks them as used.
// It leaves out the own ordinals of desired interfaces without an interface.
func (p *planner) ledgerOrdinals(claim *Claim, pairs matching, used map[int]bool) (pending []int) {
	for key := range p.plan.Ledger {
		own := slices.IndexFunc(claim.Interfaces, func(w DesiredInterface) bool { return w.Ordinal == key.Ordinal })
		_, paired := pairs.byDesired[own]
		if key.Owner == claim.Owner && !used[key.Ordinal] && (own < 0 || paired) && p.mayBecomeVisible(key) {
			pending = append(pending, key.Ordinal)
		}
	}
	slices.Sort(pending)
	for _, ordinal := range pending {
		used[ordinal] = true
	}
	return pending
}

// mayBecomeVisible reports whether the ledger names an interface that may exist and is not known yet.
func (p *planner) mayBecomeVisible(key identity.Key) bool {
	generation, stored := p.plan.Ledger[key]
	return stored && p.now.Before(p.visibleBy(key, generation))
}
