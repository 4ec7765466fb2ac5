// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"

	"github.com/multieni/multieni/inventory"
	"github.com/multieni/multieni/ownership"
)

// pairing says which owned interface stands for which wish. Each index appears once.
type pairing struct {
	// byWish maps the index of a wish to the index of its interface.
	byWish map[int]int
	// surplus are the indices of interfaces that no wish accounts for.
	surplus []int
}

// match pairs wishes with the interfaces a NodeENI already has on the instance. An interface is recognised by its
// subnet before its ordinal, so that dropping one subnet of a list never shifts its neighbours onto other interfaces.
// What is left over on both sides is paired only when it is attached: a live interface in a subnet that was exchanged
// is a difference to report, not an interface to throw away. What is verified is paired first.
func match(wishes []Wish, owned []inventory.Record, instanceID string, verified func(inventory.Record) bool) pairing {
	candidates := make([]int, len(owned))
	for i := range owned {
		candidates[i] = i
	}
	slices.SortStableFunc(candidates, func(a, b int) int { return compareKeepers(owned[a], owned[b], instanceID) })

	p := pairing{byWish: map[int]int{}}
	taken := map[int]bool{}
	pass := func(fits func(Wish, inventory.Record) bool) {
		for w, wish := range wishes {
			if _, done := p.byWish[w]; done {
				continue
			}
			for _, i := range candidates {
				if !taken[i] && fits(wish, owned[i]) {
					p.byWish[w], taken[i] = i, true
					break
				}
			}
		}
	}
	sameOrdinal := func(w Wish, r inventory.Record) bool { return w.Ordinal == r.Member.Ordinal }
	allowed := func(w Wish, r inventory.Record) bool { return w.allows(r.SubnetID) }
	attached := func(_ Wish, r inventory.Record) bool { return r.AttachedTo(instanceID) }
	for _, sure := range []bool{true, false} {
		for _, fit := range [][]func(Wish, inventory.Record) bool{{sameOrdinal, allowed}, {allowed}, {sameOrdinal, attached}, {attached}} {
			pass(func(w Wish, r inventory.Record) bool {
				return verified(r) == sure && !slices.ContainsFunc(fit, func(fits func(Wish, inventory.Record) bool) bool { return !fits(w, r) })
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

// certain reports whether everything that stands for a wish is known for certain to exist. An interface that is gone can
// come back in a stale reading: whatever seems to be one too many beside it may be its successor.
func (p pairing) certain(owned []inventory.Record) bool {
	for _, i := range p.byWish {
		if !owned[i].Proven || owned[i].Missing {
			return false
		}
	}
	return true
}

// compareKeepers puts first which of two interfaces is rather kept: the attached one, then the older one.
func compareKeepers(a, b inventory.Record, instanceID string) int {
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
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Member.Generation, b.Member.Generation), cmp.Compare(a.ID, b.ID))
}

func (w Wish) allows(subnetID string) bool { return slices.Contains(w.Subnets, subnetID) }

// ordinals chooses the ordinal of each wish that has no interface yet. One under which an interface was asked for that may
// still come to light is asked for again, so that the same interface is made whatever else came and went meanwhile. Otherwise
// it is the wish's own, unless an interface of the NodeENI bears it already; then the lowest that nothing else bears.
func (p *planner) ordinals(claim *Claim, pairs pairing, owned []inventory.Record) map[int]int {
	used := map[int]bool{}
	for _, r := range owned {
		used[r.Member.Ordinal] = true
	}
	promised := p.promisedOrdinals(claim, pairs, used)
	chosen := map[int]int{}
	var displaced []int
	for w, wish := range claim.Wishes {
		_, paired := pairs.byWish[w]
		own := ownership.Key{NodeENIUID: claim.NodeENIUID, Ordinal: wish.Ordinal}
		switch {
		case paired:
		case len(promised) > 0 && (used[own.Ordinal] || !p.mayComeToLight(own)):
			chosen[w], promised = promised[0], promised[1:]
		case used[wish.Ordinal]:
			displaced = append(displaced, w)
		default:
			chosen[w], used[wish.Ordinal] = wish.Ordinal, true
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

// promisedOrdinals returns the ordinals, in order, under which the NodeENI asked for interfaces that are not known yet, without
// those that are the own ones of wishes that have no interface. They count as used from then on.
func (p *planner) promisedOrdinals(claim *Claim, pairs pairing, used map[int]bool) (promised []int) {
	for key := range p.plan.Ledger {
		own := slices.IndexFunc(claim.Wishes, func(w Wish) bool { return w.Ordinal == key.Ordinal })
		_, paired := pairs.byWish[own]
		if key.NodeENIUID == claim.NodeENIUID && !used[key.Ordinal] && (own < 0 || paired) && p.mayComeToLight(key) {
			promised = append(promised, key.Ordinal)
		}
	}
	slices.Sort(promised)
	for _, ordinal := range promised {
		used[ordinal] = true
	}
	return promised
}

// mayComeToLight reports whether the ledger speaks of an interface that need not be known yet.
func (p *planner) mayComeToLight(key ownership.Key) bool {
	generation, stored := p.plan.Ledger[key]
	return stored && p.now.Before(p.shownBy(key, generation))
}
