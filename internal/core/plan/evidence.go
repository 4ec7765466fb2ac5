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

// Every program with ec2:CreateTags can copy and invent tags. Tags therefore suffice to adopt and delete unattached
// interfaces, but not to detach one. A detach needs other evidence: a ledger that names the interface or its
// generation, or a call of this process.

// Recorded is an interface that a NodeENIState names as that of a member.
type Recorded struct {
	ID string
	identity.Key
	Generation identity.Generation
	// Attached is set if the interface was attached to this instance. Any other interface with its identity is then a
	// copy. Two that were never attached can both be genuine if EC2 forgot a client token.
	Attached bool
}

// Unverified is an interface that is retained, because only its tags say that it belongs to the cluster.
type Unverified struct {
	ID     string
	Member identity.Member
	// Copy is set if the identity in the tags is known to be another interface's. It stays set.
	Copy bool
	// Message says why it is retained, and names the next step for a person.
	Message string
}

// isAttachedToRunning reports whether the interface is attached to an instance that continues to run: this one, or
// another one that a user attached it to.
func (p *planner) isAttachedToRunning(r inventory.Record) bool {
	return r.Attachment != nil && r.Attachment.Status != eni.AttachmentDetached &&
		(!p.ended || !r.AttachedTo(p.InstanceID))
}

// verified reports whether there is evidence besides the tags that an interface belongs to the cluster, or its removal
// harms no instance.
func (p *planner) verified(r inventory.Record) bool {
	return !p.isAttachedToRunning(r) || r.Member.Owner.IsNetwork() || p.hasEvidence(r)
}

// hasEvidence reports whether there is evidence besides the tags that an interface belongs to the cluster.
func (p *planner) hasEvidence(r inventory.Record) bool {
	return p.isRecorded(r) || p.inLedger(r) && p.hasUniqueIdentity(r)
}

// inLedger reports whether a ledger names the identity in an interface's tags.
func (p *planner) inLedger(r inventory.Record) bool {
	for _, ledger := range []identity.Generations{p.Observed.Ledger, p.OtherLedgers} {
		if generation, is := ledger[r.Member.Key]; is && generation == r.Member.Generation {
			return true
		}
	}
	return false
}

// isRecorded reports whether a call of ours or a ledger named the ID of this interface.
func (p *planner) isRecorded(r inventory.Record) bool {
	return r.Verified || slices.ContainsFunc(p.Recorded, func(known Recorded) bool { return known.ID == r.ID })
}

// hasUniqueIdentity reports whether no other interface has the same identity. EC2 creates one interface per client
// token, so one of two has copied tags, and nothing says which.
func (p *planner) hasUniqueIdentity(r inventory.Record) bool {
	return !slices.ContainsFunc(p.Owned, func(other inventory.Record) bool { return sameIdentity(other, r) })
}

// sameIdentity reports whether two interfaces have the same identity.
func sameIdentity(a, b inventory.Record) bool {
	return a.ID != b.ID && a.Member.Key == b.Member.Key && a.Member.Generation == b.Member.Generation
}

// whyCopy says why the identity in an attached interface's tags is known to be another one's; "" if it may be its own.
// The identity of a deleted interface is never used again.
func (p *planner) whyCopy(r inventory.Record) (why string) {
	if r.Attachment == nil || p.isRecorded(r) {
		return ""
	}
	if p.Copies[r.ID] {
		return "the tags are those of another interface"
	}
	for _, known := range p.Recorded {
		if known.Attached && known.Key == r.Member.Key && known.Generation == r.Member.Generation {
			return "the tags are those of " + known.ID
		}
	}
	for _, other := range p.Owned {
		if sameIdentity(other, r) && other.Verified && other.Attachment != nil {
			return "the tags are those of " + other.ID
		}
	}
	if spent, is := p.UsedGenerations[r.Member.Key]; is && spent >= r.Member.Generation {
		return "the tags are those of a deleted interface"
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

// isAdoptable reports whether an unverified interface may serve a desired one that has no interface: the ledger, which
// was lost or restored, does not name it and has no later generation. An interface on another instance serves none.
func (p *planner) isAdoptable(r inventory.Record) bool {
	isHere := r.Attachment == nil || r.AttachedTo(p.InstanceID)
	return isHere && r.Member.Generation > p.plan.Ledger[r.Member.Key]
}

// accepts reports whether tags alone suffice as evidence for a released claim. They do if a NodeENI that is being
// deleted selects the node, and the node's ledger was lost: an operator removes multieni after its ledgers. The ledger
// of a NodeENI is also empty after its last interface is removed, but then a state exists or this process saw the
// removal. An interface on another instance is left to a person.
func (p *planner) accepts(claim *Claim, r inventory.Record) bool {
	return claim.Selects && !claim.Leaked && !p.HasState && r.AttachedTo(p.InstanceID) && !p.removedOne(claim.Owner)
}

// removedOne reports whether an interface of the owner was deleted on this instance while this process ran.
func (p *planner) removedOne(owner identity.Owner) bool {
	for key := range p.UsedGenerations {
		if key.Owner == owner {
			return true
		}
	}
	return false
}

// credible returns the interfaces of a NodeENI that may serve its desired ones, and retains the others.
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

// excludeSurplus retains the unverified surplus interfaces, and returns the rest.
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

// noteVerified lists the interfaces with evidence besides their tags, and those that serve a desired one because no
// verified interface exists.
func (p *planner) noteVerified() {
	for _, m := range p.members {
		if m.record != nil && !m.Unverified && p.isAttachedToRunning(*m.record) && !m.Owner.IsNetwork() {
			p.plan.Verified = append(p.plan.Verified, m.record.ID)
		}
	}
	slices.SortFunc(p.plan.Unverified, func(a, b Unverified) int { return cmp.Compare(a.ID, b.ID) })
}

// exclude retains an interface; copied says why its tags are known to be another one's.
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
	return fmt.Sprintf("%s carries this cluster's tags, but nothing else says that multieni created it: %s. multieni "+
		"leaves it as it is. "+
		"If it is not multieni's, remove its %s tags; if it is, detach it, and multieni deletes it",
		r.ID, why, identity.Prefix)
}
