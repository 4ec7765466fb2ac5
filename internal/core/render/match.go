// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"slices"

	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
)

// matching says which owned interface belongs to which desired one. Each index appears once.
type matching struct {
	// byDesired maps the index of a desired interface to the index of its interface.
	byDesired map[int]int
	// surplus are the indices of interfaces without a desired one.
	surplus []int
}

// match pairs desired interfaces with those that a NodeENI already has on the instance. An interface that needs no
// replacement for a desired one is paired first, so that none in its place is replaced for another one. The subnet
// takes precedence over the ordinal, so that the removal of one subnet from a list never pairs the others with
// different interfaces. The remaining interfaces are paired only if they are attached: a live interface in a replaced
// subnet is drift to report, not an interface to remove. Verified interfaces are paired first.
func match(
	claim *Claim, owned []inventory.Record, instanceID string, verified func(inventory.Record) bool,
) matching {
	candidates := make([]int, len(owned))
	for i := range owned {
		candidates[i] = i
	}
	slices.SortStableFunc(candidates, func(a, b int) int { return compareRetention(owned[a], owned[b], instanceID) })

	pairs := matching{byDesired: map[int]int{}}
	taken := map[int]bool{}
	pass := func(fits func(plan.DesiredInterface, inventory.Record) bool) {
		for w, d := range claim.Interfaces {
			if _, done := pairs.byDesired[w]; done {
				continue
			}
			for _, i := range candidates {
				if !taken[i] && fits(d, owned[i]) {
					pairs.byDesired[w], taken[i] = i, true
					break
				}
			}
		}
	}
	inPlace := func(w plan.DesiredInterface, record inventory.Record) bool {
		return record.Ready() && record.AttachedTo(instanceID) && len(claim.drift(w, record.Interface)) == 0
	}
	sameOrdinal := func(w plan.DesiredInterface, record inventory.Record) bool {
		return w.Ordinal == record.Member.Ordinal
	}
	allowed := func(w plan.DesiredInterface, record inventory.Record) bool { return w.Allows(record.SubnetID) }
	attached := func(_ plan.DesiredInterface, record inventory.Record) bool { return record.AttachedTo(instanceID) }
	for _, sure := range []bool{true, false} {
		for _, fit := range [][]func(plan.DesiredInterface, inventory.Record) bool{{sameOrdinal, inPlace}, {inPlace},
			{sameOrdinal, allowed}, {allowed}, {sameOrdinal, attached}, {attached}} {
			pass(func(w plan.DesiredInterface, record inventory.Record) bool {
				return verified(record) == sure && !slices.ContainsFunc(fit,
					func(fits func(plan.DesiredInterface, inventory.Record) bool) bool { return !fits(w, record) })
			})
		}
	}
	for i := range owned {
		if !taken[i] {
			pairs.surplus = append(pairs.surplus, i)
		}
	}
	return pairs
}

// isCertain reports whether every interface that is paired with a desired one certainly exists. A deleted interface can
// reappear in a stale read, and its apparent duplicate may be its successor.
func (pairs matching) isCertain(owned []inventory.Record) bool {
	for _, i := range pairs.byDesired {
		if !owned[i].Confirmed || owned[i].Missing {
			return false
		}
	}
	return true
}

// compareRetention orders two interfaces by preference for retention: the attached one first, then the older one.
func compareRetention(a, b inventory.Record, instanceID string) int {
	rank := func(record inventory.Record) int {
		switch {
		case record.AttachedTo(instanceID) && record.Ready():
			return 0
		case record.AttachedTo(instanceID):
			return 1
		default:
			return 2
		}
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Member.Generation, b.Member.Generation),
		cmp.Compare(a.ID, b.ID))
}

// ordinals chooses the ordinal of each desired interface without an interface. It reuses an ordinal with a create call
// whose interface may still become visible, so that the same call is repeated, regardless of other changes. Otherwise
// it chooses the desired interface's own ordinal or, if an interface of the NodeENI has that, the lowest free one.
func (r *renderer) ordinals(claim *Claim, pairs matching, owned []inventory.Record) map[int]int {
	used := map[int]bool{}
	for _, record := range owned {
		used[record.Member.Ordinal] = true
	}
	pending := r.ledgerOrdinals(claim, pairs, used)
	chosen := map[int]int{}
	var displaced []int
	for w, d := range claim.Interfaces {
		_, paired := pairs.byDesired[w]
		own := identity.Key{Owner: claim.Owner, Ordinal: d.Ordinal}
		switch {
		case paired:
		case len(pending) > 0 && (used[own.Ordinal] || !r.mayBecomeVisible(own)):
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
func (r *renderer) ledgerOrdinals(claim *Claim, pairs matching, used map[int]bool) (pending []int) {
	for key := range r.Ledger {
		own := slices.IndexFunc(claim.Interfaces, func(w plan.DesiredInterface) bool { return w.Ordinal == key.Ordinal })
		_, paired := pairs.byDesired[own]
		if key.Owner == claim.Owner && !used[key.Ordinal] && (own < 0 || paired) && r.mayBecomeVisible(key) {
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
func (r *renderer) mayBecomeVisible(key identity.Key) bool {
	generation, stored := r.Ledger[key]
	return stored && r.now.Before(r.VisibleBy(key, generation, r.now))
}
