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

// withoutOwnerNetworks takes out of the interfaces by owner those that were made for networks and that no claim speaks of.
func withoutOwnerNetworks(claims []Claim, byOwner map[string][]inventory.Record) []inventory.Record {
	var joined []inventory.Record
	for _, uid := range slices.Sorted(maps.Keys(byOwner)) {
		claimed := slices.ContainsFunc(claims, func(c Claim) bool { return c.NodeENIUID == uid })
		if identity.IsNetworkOwner(uid) && !claimed {
			joined = append(joined, byOwner[uid]...)
			delete(byOwner, uid)
		}
	}
	return joined
}

// withoutOwner returns the interfaces that no claim speaks of.
func withoutOwner(claims []Claim, byOwner map[string][]inventory.Record) []inventory.Record {
	var unknown []inventory.Record
	for _, uid := range slices.Sorted(maps.Keys(byOwner)) {
		if !slices.ContainsFunc(claims, func(c Claim) bool { return c.NodeENIUID == uid }) {
			unknown = append(unknown, byOwner[uid]...)
		}
	}
	return unknown
}

// invisibleOrphans returns the interfaces of NodeENIs that do not exist which EC2's last answer did not show.
func invisibleOrphans(claims []Claim, byOwner map[string][]inventory.Record) []inventory.Record {
	var missing []inventory.Record
	for _, c := range claims {
		if c.Leaked {
			missing = append(missing, slices.DeleteFunc(slices.Clone(byOwner[c.NodeENIUID]), func(r inventory.Record) bool { return !r.Missing })...)
		}
	}
	return missing
}

// inAdoptionOrder puts the claims first that the ledger speaks of: what they took over stays theirs although no tag may say so.
func (p *planner) inAdoptionOrder(claims []Claim) []*Claim {
	var known, others []*Claim
	for n := range claims {
		if slices.ContainsFunc(slices.Collect(maps.Keys(p.Observed.Ledger)), func(key identity.Key) bool { return key.NodeENIUID == claims[n].NodeENIUID }) {
			known = append(known, &claims[n])
		} else {
			others = append(others, &claims[n])
		}
	}
	return append(known, others...)
}

// adoptOrphans gives to wishes of the claim that have none the interfaces that stand for them as they are: those in use that
// were made for a NodeENI of the same name which does not exist any more, so that whoever lost NodeENIs and creates them
// again loses no interface, and those that the instance got before it joined. They become the claim's own members: their
// tags are what says so to everybody else, and are mended like any other attribute.
func (p *planner) adoptOrphans(claim *Claim, byOwner map[string][]inventory.Record) {
	if p.ended || claim.Mode != Ensure || identity.IsNetworkOwner(claim.NodeENIUID) {
		return
	}
	for _, dead := range p.Claims {
		if dead.Mode == Release && dead.Leaked && dead.NodeENI == claim.NodeENI {
			byOwner[dead.NodeENIUID] = p.adoptFrom(claim, byOwner, byOwner[dead.NodeENIUID], p.bestOrphan)
		}
	}
	p.preJoin = p.adoptFrom(claim, byOwner, p.preJoin, func(wish DesiredInterface, joined []inventory.Record) int {
		return p.preJoinMatching(claim, wish, joined)
	})
}

// adoptFrom moves those of some interfaces that are chosen for wishes to the claim, and returns the others.
func (p *planner) adoptFrom(claim *Claim, byOwner map[string][]inventory.Record, from []inventory.Record, choose func(DesiredInterface, []inventory.Record) int) []inventory.Record {
	if len(from) == 0 {
		return from
	}
	owned, left := byOwner[claim.NodeENIUID], slices.Clone(from)
	pairs := match(claim.Interfaces, owned, p.InstanceID, p.verified)
	ordinal := p.ordinals(claim, pairs, owned)
	for w, wish := range claim.Interfaces {
		if _, paired := pairs.byWish[w]; paired {
			continue
		}
		i := choose(wish, left)
		if i < 0 {
			continue
		}
		r := left[i]
		left = slices.Delete(left, i, i+1)
		generation := r.Member.Generation
		r.Member = p.identity(claim, identity.Key{NodeENIUID: claim.NodeENIUID, Ordinal: ordinal[w]})
		r.Member.Generation = generation
		owned = append(slices.Clip(owned), r)
	}
	byOwner[claim.NodeENIUID] = owned
	return left
}

// bestOrphan returns the index of the interface in use that stands for a wish, or -1: that of its ordinal before others.
func (p *planner) bestOrphan(wish DesiredInterface, orphans []inventory.Record) int {
	best := -1
	rank := func(r inventory.Record) int {
		switch {
		case !p.verified(r):
			return 2
		case r.Member.Ordinal != wish.Ordinal:
			return 1
		default:
			return 0
		}
	}
	for i, r := range orphans {
		if !r.Missing && p.inUseMatching(wish, r) && (best < 0 || rank(r) < rank(orphans[best])) {
			best = i
		}
	}
	return best
}

// inUseMatching reports whether an interface is attached to the instance, or as good as that, in a subnet that the wish allows.
func (p *planner) inUseMatching(wish DesiredInterface, r inventory.Record) bool {
	return r.AttachedTo(p.InstanceID) && r.Attachment.Status != eni.AttachmentDetaching && wish.allows(r.SubnetID)
}

// orphanMatching returns the interface that may be taken over for a member that has none, or "": it bears the NodeENI's name,
// and it, or the NodeENI that it was made for, is not known for certain to exist or not.
func (p *planner) orphanMatching(m *member) string {
	for _, r := range p.unknown {
		if m.desired != nil && r.Member.NodeENI == m.NodeENI && p.inUseMatching(*m.desired, r) {
			return r.ID
		}
	}
	return ""
}

// preJoinMatching returns the index of the interface that stands best for a wish, or -1: one of a network of the NodeENI's name
// before others, and the one in the slot asked for before others. A network that bears another NodeENI's name is left to that.
func (p *planner) preJoinMatching(claim *Claim, wish DesiredInterface, joined []inventory.Record) int {
	best := -1
	rank := func(r inventory.Record) int {
		switch {
		case r.Member.NodeENI == claim.NodeENI:
			return 0
		case r.Attachment != nil && r.Attachment.Slot == wish.Slot:
			return 1
		default:
			return 2
		}
	}
	for i, r := range joined {
		elsewhere := r.Attachment != nil && !r.AttachedTo(p.InstanceID)
		others := r.Member.NodeENI != claim.NodeENI && slices.ContainsFunc(p.Claims, func(c Claim) bool { return c.NodeENI == r.Member.NodeENI })
		if r.Missing || elsewhere || others || !wish.allows(r.SubnetID) {
			continue
		}
		if best < 0 || cmp.Or(cmp.Compare(rank(r), rank(joined[best])), cmp.Compare(r.ID, joined[best].ID)) < 0 {
			best = i
		}
	}
	return best
}
