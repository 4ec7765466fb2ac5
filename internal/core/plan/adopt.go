// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"maps"
	"slices"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
)

// preJoinWithoutClaim returns the pre-join interfaces of networks without a claim.
func preJoinWithoutClaim(claims []Claim, byOwner map[identity.Owner][]inventory.Record) []inventory.Record {
	return slices.DeleteFunc(withoutClaim(claims, byOwner), func(r inventory.Record) bool {
		return !r.Member.Owner.IsNetwork()
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
			missing = append(missing, slices.DeleteFunc(slices.Clone(byOwner[c.Owner]), func(r inventory.Record) bool {
				return !r.Missing
			})...)
		}
	}
	return missing
}

// inAdoptionOrder puts the claims in the ledger first: they keep the interfaces that they adopted, even before the tags
// say so.
func (p *planner) inAdoptionOrder(claims []Claim) []*Claim {
	var known, others []*Claim
	for n := range claims {
		if slices.ContainsFunc(slices.Collect(maps.Keys(p.Observed.Ledger)), func(key identity.Key) bool {
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
func (p *planner) adoptOrphans(claim *Claim, byOwner map[identity.Owner][]inventory.Record) {
	if p.ended || claim.Mode != Ensure || claim.Owner.IsNetwork() {
		return
	}
	for _, dead := range p.Claims {
		if dead.Mode == Release && dead.Leaked && dead.NodeENI == claim.NodeENI {
			byOwner[dead.Owner] = p.adoptFrom(claim, byOwner, byOwner[dead.Owner], p.bestOrphan)
		}
	}
	p.preJoin = p.adoptFrom(claim, byOwner, p.preJoin, func(desired DesiredInterface, joined []inventory.Record) int {
		return p.preJoinMatching(claim, desired, joined)
	})
}

// adoptFrom assigns the chosen interfaces to the claim, and returns the others.
func (p *planner) adoptFrom(
	claim *Claim, byOwner map[identity.Owner][]inventory.Record, from []inventory.Record,
	choose func(DesiredInterface, []inventory.Record) int,
) []inventory.Record {
	if len(from) == 0 {
		return from
	}
	owned, left := byOwner[claim.Owner], slices.Clone(from)
	pairs := match(claim.Interfaces, owned, p.InstanceID, p.verified)
	ordinal := p.ordinals(claim, pairs, owned)
	for w, desired := range claim.Interfaces {
		if _, paired := pairs.byDesired[w]; paired {
			continue
		}
		i := choose(desired, left)
		if i < 0 {
			continue
		}
		r := left[i]
		left = slices.Delete(left, i, i+1)
		generation := r.Member.Generation
		r.Member = p.identity(claim, identity.Key{Owner: claim.Owner, Ordinal: ordinal[w]})
		r.Member.Generation = generation
		owned = append(slices.Clip(owned), r)
	}
	byOwner[claim.Owner] = owned
	return left
}

// bestOrphan returns the index of the interface in use that matches a desired one best, or -1. One with its ordinal is
// best.
func (p *planner) bestOrphan(desired DesiredInterface, orphans []inventory.Record) int {
	best := -1
	rank := func(r inventory.Record) int {
		switch {
		case !p.verified(r):
			return 2
		case r.Member.Ordinal != desired.Ordinal:
			return 1
		default:
			return 0
		}
	}
	for i, r := range orphans {
		if !r.Missing && p.inUseMatching(desired, r) && (best < 0 || rank(r) < rank(orphans[best])) {
			best = i
		}
	}
	return best
}

// inUseMatching reports whether an interface is attached to the instance, or about to be, in a subnet that the desired
// one allows.
func (p *planner) inUseMatching(desired DesiredInterface, r inventory.Record) bool {
	return r.AttachedTo(p.InstanceID) && r.Attachment.Status != eni.AttachmentDetaching && desired.allows(r.SubnetID)
}

// orphanMatching returns the ID of the interface that may be adopted for a member without one, or "". Its tags have the
// NodeENI's name, and it is uncertain whether the interface, or the NodeENI that it was created for, exists.
func (p *planner) orphanMatching(m *member) string {
	for _, r := range p.unknown {
		if m.desired != nil && r.Member.NodeENI == m.NodeENI && p.inUseMatching(*m.desired, r) {
			return r.ID
		}
	}
	return ""
}

// preJoinMatching returns the index of the pre-join interface that matches a desired one best, or -1. An interface of a
// network with the NodeENI's name is best, then the one in the requested slot. The interface of a network with another
// NodeENI's name is left to that NodeENI.
func (p *planner) preJoinMatching(claim *Claim, desired DesiredInterface, joined []inventory.Record) int {
	best := -1
	rank := func(r inventory.Record) int {
		switch {
		case r.Member.NodeENI == claim.NodeENI:
			return 0
		case r.Attachment != nil && r.Attachment.Slot == desired.Slot:
			return 1
		default:
			return 2
		}
	}
	for i, r := range joined {
		elsewhere := r.Attachment != nil && !r.AttachedTo(p.InstanceID)
		others := r.Member.NodeENI != claim.NodeENI && slices.ContainsFunc(p.Claims, func(c Claim) bool {
			return c.NodeENI == r.Member.NodeENI
		})
		if r.Missing || elsewhere || others || !desired.allows(r.SubnetID) {
			continue
		}
		if best < 0 || cmp.Or(cmp.Compare(rank(r), rank(joined[best])), cmp.Compare(r.ID, joined[best].ID)) < 0 {
			best = i
		}
	}
	return best
}
