// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"maps"
	"slices"

	"github.com/multieni/multieni/inventory"
	"github.com/multieni/multieni/ownership"
)

// unclaimedNetworks takes out of the interfaces by owner those that were made for networks and that no claim speaks of.
func unclaimedNetworks(claims []Claim, byOwner map[string][]inventory.Record) []inventory.Record {
	var joined []inventory.Record
	for _, uid := range slices.Sorted(maps.Keys(byOwner)) {
		claimed := slices.ContainsFunc(claims, func(c Claim) bool { return c.NodeENIUID == uid })
		if ownership.IsNetwork(uid) && !claimed {
			joined = append(joined, byOwner[uid]...)
			delete(byOwner, uid)
		}
	}
	return joined
}

// takeOver returns the claim's interfaces together with those that the instance got before it joined and that stand for
// wishes of the claim as they are. They become the claim's own members: their tags are what says so to everybody else, and
// are mended like any other attribute.
func (p *planner) takeOver(claim *Claim, owned []inventory.Record) []inventory.Record {
	if len(p.joined) == 0 || p.ended || claim.Standing != Wanted || ownership.IsNetwork(claim.NodeENIUID) {
		return owned
	}
	pairs := match(claim.Wishes, owned, p.InstanceID)
	ordinal := ordinals(claim.Wishes, pairs, owned)
	taken := owned
	for w, wish := range claim.Wishes {
		if _, paired := pairs.byWish[w]; paired {
			continue
		}
		i := p.joinedFor(claim, wish)
		if i < 0 {
			continue
		}
		r := p.joined[i]
		p.joined = slices.Delete(slices.Clone(p.joined), i, i+1)
		generation := r.Member.Generation
		r.Member = p.identity(claim, ownership.Key{NodeENIUID: claim.NodeENIUID, Ordinal: ordinal[w]})
		r.Member.Generation = generation
		taken = append(slices.Clip(taken), r)
	}
	return taken
}

// joinedFor returns the index of the interface that stands best for a wish, or -1: one of a network of the NodeENI's name
// before others, and the one in the slot asked for before others. A network that bears another NodeENI's name is left to that.
func (p *planner) joinedFor(claim *Claim, wish Wish) int {
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
	for i, r := range p.joined {
		elsewhere := r.Attachment != nil && !r.AttachedTo(p.InstanceID)
		others := r.Member.NodeENI != claim.NodeENI && slices.ContainsFunc(p.Claims, func(c Claim) bool { return c.NodeENI == r.Member.NodeENI })
		if r.Missing || elsewhere || others || !wish.allows(r.SubnetID) {
			continue
		}
		if best < 0 || cmp.Or(cmp.Compare(rank(r), rank(p.joined[best])), cmp.Compare(r.ID, p.joined[best].ID)) < 0 {
			best = i
		}
	}
	return best
}
