// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"maps"
	"slices"

	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
)

// preJoinWithoutClaim returns the pre-join interfaces of networks without a claim.
func preJoinWithoutClaim(claims []Claim, byOwner map[identity.Owner][]inventory.Record) []inventory.Record {
	return slices.DeleteFunc(withoutClaim(claims, byOwner), func(record inventory.Record) bool {
		return !record.Member.Owner.IsNetwork()
	})
}

// withoutClaim returns the interfaces without a claim, ordered by owner.
func withoutClaim(claims []Claim, byOwner map[identity.Owner][]inventory.Record) []inventory.Record {
	var unknown []inventory.Record
	for _, owner := range slices.Sorted(maps.Keys(byOwner)) {
		if !slices.ContainsFunc(claims, func(c Claim) bool { return c.Owner == owner }) {
			unknown = append(unknown, byOwner[owner]...)
		}
	}
	return unknown
}

// missingOrphans returns the orphans that EC2's last answer omitted.
func missingOrphans(claims []Claim, byOwner map[identity.Owner][]inventory.Record) []inventory.Record {
	var missing []inventory.Record
	for _, c := range claims {
		if c.Leaked {
			missing = append(missing, slices.DeleteFunc(slices.Clone(byOwner[c.Owner]), func(record inventory.Record) bool {
				return !record.Missing
			})...)
		}
	}
	return missing
}

// inAdoptionOrder puts the claims in the ledger first: they keep the interfaces that they adopted, even before the tags
// say so.
func (r *renderer) inAdoptionOrder(claims []Claim) []*Claim {
	var known, others []*Claim
	for n := range claims {
		if slices.ContainsFunc(slices.Collect(maps.Keys(r.Ledger)), func(key identity.Key) bool {
			return key.Owner == claims[n].Owner
		}) {
			known = append(known, &claims[n])
		} else {
			others = append(others, &claims[n])
		}
	}
	return append(known, others...)
}

// adoptOrphans assigns existing interfaces that match without a change to desired ones that have none. It takes
// pre-join interfaces, and orphans in use of a lost NodeENI with the same name, so that a user who creates lost
// NodeENIs again loses no interface. They become members of the claim. Their tags are updated in place like any other
// attribute, so that other processes know.
func (r *renderer) adoptOrphans(claim *Claim, byOwner map[identity.Owner][]inventory.Record) {
	if r.ended || claim.Mode != Ensure || claim.Owner.IsNetwork() {
		return
	}
	for _, dead := range r.Claims {
		if dead.Mode == Release && dead.Leaked && dead.NodeENI == claim.NodeENI {
			byOwner[dead.Owner] = r.adoptFrom(claim, byOwner, byOwner[dead.Owner], r.bestOrphan)
		}
	}
	r.preJoin = r.adoptFrom(claim, byOwner, r.preJoin, func(desired plan.DesiredInterface, joined []inventory.Record) int {
		return r.preJoinMatching(claim, desired, joined)
	})
}

// adoptFrom assigns the chosen interfaces to the claim, and returns the others.
func (r *renderer) adoptFrom(
	claim *Claim, byOwner map[identity.Owner][]inventory.Record, from []inventory.Record,
	choose func(plan.DesiredInterface, []inventory.Record) int,
) []inventory.Record {
	if len(from) == 0 {
		return from
	}
	owned, left := byOwner[claim.Owner], slices.Clone(from)
	pairs := match(claim, owned, r.InstanceID, r.verified)
	ordinal := r.ordinals(claim, pairs, owned)
	for w, desired := range claim.Interfaces {
		if _, paired := pairs.byDesired[w]; paired {
			continue
		}
		i := choose(desired, left)
		if i < 0 {
			continue
		}
		record := left[i]
		left = slices.Delete(left, i, i+1)
		generation := record.Member.Generation
		record.Member = r.identity(claim, identity.Key{Owner: claim.Owner, Ordinal: ordinal[w]})
		record.Member.Generation = generation
		owned = append(slices.Clip(owned), record)
	}
	byOwner[claim.Owner] = owned
	return left
}

// bestOrphan returns the index of the interface in use that matches a desired one best, or -1. One with its ordinal is
// best.
func (r *renderer) bestOrphan(desired plan.DesiredInterface, orphans []inventory.Record) int {
	best := -1
	rank := func(record inventory.Record) int {
		switch {
		case !r.verified(record):
			return 2
		case record.Member.Ordinal != desired.Ordinal:
			return 1
		default:
			return 0
		}
	}
	for i, record := range orphans {
		if !record.Missing && r.inUseMatching(desired, record) && (best < 0 || rank(record) < rank(orphans[best])) {
			best = i
		}
	}
	return best
}

// inUseMatching reports whether an interface is attached to the instance, or about to be, in a subnet that the desired
// one allows.
func (r *renderer) inUseMatching(desired plan.DesiredInterface, record inventory.Record) bool {
	return r.live(&record) && desired.Allows(record.SubnetID)
}

// orphanMatching returns the ID of the interface that may be adopted for a desired one without one, or "". Its tags
// have the NodeENI's name, and it is uncertain whether the interface, or the NodeENI that it was created for, exists.
func (r *renderer) orphanMatching(nodeENI string, desired *plan.DesiredInterface) string {
	for _, record := range r.unknown {
		if record.Member.NodeENI == nodeENI && r.inUseMatching(*desired, record) {
			return record.ID
		}
	}
	return ""
}

// preJoinMatching returns the index of the pre-join interface that matches a desired one best, or -1. One that the
// claim adopted already is best: its pods can use it, even if no tag names the claim yet. Then comes an interface of a
// network with the NodeENI's name, then the one in the requested slot.
func (r *renderer) preJoinMatching(claim *Claim, desired plan.DesiredInterface, joined []inventory.Record) int {
	best := -1
	rank := func(record inventory.Record) int {
		switch {
		case r.adopter(record) == claim.Owner:
			return 0
		case record.Member.NodeENI == claim.NodeENI:
			return 1
		case record.Attachment != nil && record.Attachment.Slot == desired.Slot:
			return 2
		default:
			return 3
		}
	}
	for i, record := range joined {
		elsewhere := record.Attachment != nil && !record.AttachedTo(r.InstanceID)
		if record.Missing || elsewhere || !r.mayAdopt(claim, record) || !desired.Allows(record.SubnetID) {
			continue
		}
		if best < 0 || cmp.Or(cmp.Compare(rank(record), rank(joined[best])), cmp.Compare(record.ID, joined[best].ID)) < 0 {
			best = i
		}
	}
	return best
}

// mayAdopt reports whether a pre-join interface is free for a claim. A claim that adopted it keeps it, even if tags do
// not say so yet: pods can use it. Otherwise the NodeENI with the name of its network comes before all others.
func (r *renderer) mayAdopt(claim *Claim, record inventory.Record) bool {
	if adopter := r.adopter(record); adopter != "" {
		return adopter == claim.Owner
	}
	return record.Member.NodeENI == claim.NodeENI || !slices.ContainsFunc(r.Claims, func(c Claim) bool {
		return c.NodeENI == record.Member.NodeENI
	})
}

// adopter returns the owner for which a NodeENIState lists a pre-join interface, if that one still asks for it; "" for
// none.
func (r *renderer) adopter(record inventory.Record) identity.Owner {
	for _, known := range r.Recorded {
		if known.ID == record.ID && slices.ContainsFunc(r.Claims, func(c Claim) bool {
			return c.Owner == known.Owner && (c.Mode == Ensure || c.Mode == Paused) &&
				slices.ContainsFunc(c.Interfaces, func(d plan.DesiredInterface) bool { return d.Allows(record.SubnetID) })
		}) {
			return known.Owner
		}
	}
	return ""
}
