// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
)

// Tags can be copied and invented by whoever may tag interfaces. So they suffice to make, adopt and delete what is attached to
// nothing, and never to take an interface from an instance: that needs evidence beside them, which is a ledger that names the
// interface, or the generation it was made with, or a call of this process.

// Recorded is an interface that a NodeENIState names as the one of a member.
type Recorded struct {
	ID string
	identity.Key
	Generation int64
	// Attached is set on an interface of this instance that was attached: another one with its identity is a copy. EC2 can
	// have made two that were not, if it forgot a client token.
	Attached bool
}

// Unverified is an interface that is left alone: its tags say that it is ours, and nothing else does.
type Unverified struct {
	ID     string
	Member identity.Member
	// Copy is set when the identity in the tags is known to be another interface's. That does not change any more.
	Copy bool
	// Message says why it is left alone, and what a person can do.
	Message string
}

// isAttachedToRunning reports whether an instance that goes on running has the interface: this one, or the one that somebody attached it to.
func (p *planner) isAttachedToRunning(r inventory.Record) bool {
	return r.Attachment != nil && r.Attachment.Status != eni.AttachmentDetached && (!p.ended || !r.AttachedTo(p.InstanceID))
}

// verified reports whether more than its tags says that an interface is ours, or its removal takes it from nobody.
func (p *planner) verified(r inventory.Record) bool {
	return !p.isAttachedToRunning(r) || identity.IsNetworkOwner(r.Member.NodeENIUID) || p.hasEvidence(r)
}

// hasEvidence reports whether more than its tags says that an interface is ours.
func (p *planner) hasEvidence(r inventory.Record) bool {
	return p.isRecorded(r) || p.inLedger(r) && p.hasUniqueIdentity(r)
}

// inLedger reports whether a ledger speaks of the identity in an interface's tags.
func (p *planner) inLedger(r inventory.Record) bool {
	for _, ledger := range []map[identity.Key]int64{p.Observed.Ledger, p.OtherLedgers} {
		if generation, is := ledger[r.Member.Key]; is && generation == r.Member.Generation {
			return true
		}
	}
	return false
}

// isRecorded reports whether a call of ours or a ledger named this very interface.
func (p *planner) isRecorded(r inventory.Record) bool {
	return r.Verified || slices.ContainsFunc(p.Recorded, func(known Recorded) bool { return known.ID == r.ID })
}

// hasUniqueIdentity reports whether no other interface carries the same identity. EC2 makes one interface for one client token, so a
// second one has copied tags, and nothing tells which of the two that is.
func (p *planner) hasUniqueIdentity(r inventory.Record) bool {
	return !slices.ContainsFunc(p.Owned, func(other inventory.Record) bool { return sameIdentity(other, r) })
}

// sameIdentity reports whether two interfaces carry the same identity.
func sameIdentity(a, b inventory.Record) bool {
	return a.ID != b.ID && a.Member.Key == b.Member.Key && a.Member.Generation == b.Member.Generation
}

// whyCopy says why the identity in an attached interface's tags is known to be another one's, "" if it may be its own. An
// interface that is gone keeps its identity: none is made with it again.
func (p *planner) whyCopy(r inventory.Record) (why string) {
	if r.Attachment == nil || p.isRecorded(r) {
		return ""
	}
	if p.Copies[r.ID] {
		return "they are those of another interface"
	}
	for _, known := range p.Recorded {
		if known.Attached && known.Key == r.Member.Key && known.Generation == r.Member.Generation {
			return "they are those of " + known.ID
		}
	}
	for _, other := range p.Owned {
		if sameIdentity(other, r) && other.Verified && other.Attachment != nil {
			return "they are those of " + other.ID
		}
	}
	if spent, is := p.UsedGenerations[r.Member.Key]; is && spent >= r.Member.Generation {
		return "they are those of an interface that is gone"
	}
	return ""
}

// withoutCopies returns the interfaces that are not known to be copies.
func (p *planner) withoutCopies() []inventory.Record {
	var others []inventory.Record
	for _, r := range p.Owned {
		if why := p.whyCopy(r); why != "" && !p.ended {
			p.exclude(r, why)
			continue
		}
		others = append(others, r)
	}
	return others
}

// isAdoptable reports whether an unverified interface may serve a wish that has none: a ledger that was lost, or restored,
// names it not, and no later one was promised in its place.
func (p *planner) isAdoptable(r inventory.Record) bool {
	return r.Member.Generation > p.plan.Ledger[r.Member.Key]
}

// accepts reports whether the interfaces of a claim that is released are ours by their tags alone: where a NodeENI that is
// deleted selects the node, and the node has no ledger at all, somebody removes multieni after the ledgers.
func (p *planner) accepts(claim *Claim) bool {
	return claim.Selects && !claim.Leaked && len(p.Observed.Ledger) == 0 && len(p.OtherLedgers) == 0 && len(p.Recorded) == 0
}

// credible returns the interfaces of a NodeENI that may serve its wishes, and leaves the others alone.
func (p *planner) credible(owned []inventory.Record) []inventory.Record {
	var credible []inventory.Record
	for _, r := range owned {
		if p.verified(r) || p.isAdoptable(r) {
			credible = append(credible, r)
			continue
		}
		p.exclude(r, "")
	}
	return credible
}

// excludeSurplus leaves those alone that no wish accounts for and that are not verified, and returns the rest.
func (p *planner) excludeSurplus(surplus []int, owned []inventory.Record) []int {
	var verified []int
	for _, i := range surplus {
		if p.verified(owned[i]) {
			verified = append(verified, i)
			continue
		}
		p.exclude(owned[i], "")
	}
	return verified
}

// noteVerified tells which interfaces are ours by more than their tags, or serve for want of anything that is.
func (p *planner) noteVerified() {
	for _, m := range p.members {
		if m.record != nil && !m.Unverified && p.isAttachedToRunning(*m.record) && !identity.IsNetworkOwner(m.NodeENIUID) {
			p.plan.Verified = append(p.plan.Verified, m.record.ID)
		}
	}
	slices.SortFunc(p.plan.Unverified, func(a, b Unverified) int { return cmp.Compare(a.ID, b.ID) })
}

// exclude leaves an interface alone; copied says why its tags are known to be another one's.
func (p *planner) exclude(r inventory.Record, copied string) {
	p.plan.Unverified = append(p.plan.Unverified, Unverified{
		ID: r.ID, Member: r.Member, Copy: copied != "", Message: p.whyExcluded(r, copied),
	})
}

func (p *planner) whyExcluded(r inventory.Record, copied string) string {
	why := "no NodeENIState of the instance names it"
	switch {
	case copied != "":
		why = copied
	case p.NodeAbsent && len(p.Observed.Ledger) == 0:
		why = fmt.Sprintf("no Node and no NodeENIState names instance %s", p.InstanceID)
	}
	return fmt.Sprintf("%s carries this cluster's tags, but nothing else says that multieni made it: %s. It is left as it is. "+
		"If it is not multieni's, remove its %s tags; if it is, detach it, and it is deleted", r.ID, why, identity.Prefix)
}
