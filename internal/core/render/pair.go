// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
)

// pairs says which object belongs to which declared interface. Each index appears once.
type pairs struct {
	// byWanted maps the index of a declared interface to the index of its object.
	byWanted map[int]int
	// surplus are the indices of objects without a declared interface.
	surplus []int
}

// fit is a reason to pair an object with a declared interface.
type fit func(w Wanted, o Object) bool

// pair pairs declared interfaces with the objects that a NodeENI has on the instance. An object that needs no
// replacement for a declared interface is paired first, so that none in its place is replaced for another one. The
// subnet takes precedence over the ordinal, so that the removal of one subnet from a list never pairs the others with
// different objects (docs/decisions/0004). An attached interface in another subnet is drift to report, not an interface
// to remove. An object of a network is paired only in a subnet that fits. One that is being deleted is paired last: no
// object that stays goes in its place.
func (n NodeENI) pair(wanted []Wanted, objects []Object) pairs {
	candidates := make([]int, len(objects))
	for i := range objects {
		candidates[i] = i
	}
	slices.SortStableFunc(candidates, func(a, b int) int { return compareRetention(objects[a], objects[b]) })
	found, taken := pairs{byWanted: map[int]int{}}, map[int]bool{}
	stays := func(_ Wanted, o Object) bool { return !o.Deleting }
	goes := func(_ Wanted, o Object) bool { return o.Deleting }
	var all []fit
	for _, life := range []fit{stays, goes} {
		for _, fits := range n.fits() {
			all = append(all, both(life, fits))
		}
	}
	for _, fits := range all {
		for w := range wanted {
			if _, done := found.byWanted[w]; done {
				continue
			}
			for _, i := range candidates {
				if !taken[i] && fits(wanted[w], objects[i]) {
					found.byWanted[w], taken[i] = i, true
					break
				}
			}
		}
	}
	for i := range objects {
		if !taken[i] {
			found.surplus = append(found.surplus, i)
		}
	}
	return found
}

// fits returns the reasons to pair, the best one first.
func (n NodeENI) fits() []fit {
	live := func(_ Wanted, o Object) bool { return o.Slot != nil && o.isDeclared() }
	bare := func(_ Wanted, o Object) bool { return o.ENIID == "" && o.isDeclared() }
	sameOrdinal := func(w Wanted, o Object) bool { return w.Ordinal == o.Spec.Ordinal }
	inPlace := func(w Wanted, o Object) bool { return o.ENIID != "" && len(n.Drift(w, o)) == 0 }
	allowed := func(w Wanted, o Object) bool {
		return o.ENIID != "" && w.Allows(o.SubnetID) ||
			o.ENIID == "" && slices.ContainsFunc(o.Spec.Subnets, func(s Subnet) bool { return w.Allows(s.ID) })
	}
	return []fit{
		both(sameOrdinal, inPlace), inPlace, both(sameOrdinal, allowed), allowed, both(sameOrdinal, live), live,
		both(sameOrdinal, bare), bare,
	}
}

func both(a, b fit) fit { return func(w Wanted, o Object) bool { return a(w, o) && b(w, o) } }

// compareRetention orders two objects by preference for retention: one with an attachment first, then one with an
// interface, then the lower ordinal.
func compareRetention(a, b Object) int {
	rank := func(o Object) int {
		switch {
		case o.Slot != nil:
			return 0
		case o.ENIID != "":
			return 1
		default:
			return 2
		}
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Spec.Ordinal, b.Spec.Ordinal))
}

// Pair returns the index of the object that each declared interface has, by the index of that one.
func (n NodeENI) Pair(wanted []Wanted, objects []Object) map[int]int {
	return n.pair(wanted, objects).byWanted
}

// target returns the slot where an interface belongs: the declared one, or its present one if the NodeENI allows that.
// Prefer allows every index of the card: the declared one and the order of subnets count only when an interface is
// created. No interface in use is detached for them.
func (n NodeENI) target(wanted eni.Slot, o Object) eni.Slot {
	if o.Slot == nil || n.ExactSlot || o.Slot.Card != n.FirstSlot.Card {
		return wanted
	}
	return *o.Slot
}

// Drift lists the differences of an object from its declared interface that cannot be updated in place: EC2 binds an
// interface to its subnet, and an attachment to its slot.
func (n NodeENI) Drift(w Wanted, o Object) []plan.Drift {
	var drift []plan.Drift
	if o.SubnetID != "" && !w.Allows(o.SubnetID) {
		var ids []string
		for _, s := range w.Candidates {
			ids = append(ids, s.ID)
		}
		slices.Sort(ids)
		drift = append(drift, plan.Drift{Field: plan.SubnetDrift, Want: strings.Join(ids, " or "), Have: o.SubnetID})
	}
	if target := n.target(w.Slot, o); o.Slot != nil && *o.Slot != target {
		drift = append(drift, plan.Drift{Field: plan.SlotDrift, Want: target.String(), Have: o.Slot.String()})
	}
	return drift
}
