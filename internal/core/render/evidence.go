// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package render

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

// Evidence is what NodeENIStates say about the interfaces of an instance.
type Evidence struct {
	// OtherLedgers has the members of the instance in the ledgers of the nodes that had the instance before.
	OtherLedgers identity.Generations
	// HasState is set if the instance has a NodeENIState, under any name.
	HasState bool
	// Recorded are the interfaces that NodeENIStates name; Copies are those that they name as copies.
	Recorded []Recorded
	Copies   map[string]bool
}

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
func (r *renderer) isAttachedToRunning(record inventory.Record) bool {
	return record.Attachment != nil && record.Attachment.Status != eni.AttachmentDetached &&
		(!r.ended || !record.AttachedTo(r.InstanceID))
}

// verified reports whether there is evidence besides the tags that an interface belongs to the cluster, or its removal
// harms no instance.
func (r *renderer) verified(record inventory.Record) bool {
	return !r.isAttachedToRunning(record) || record.Member.Owner.IsNetwork() || r.hasEvidence(record)
}

// hasEvidence reports whether there is evidence besides the tags that an interface belongs to the cluster.
func (r *renderer) hasEvidence(record inventory.Record) bool {
	return r.isRecorded(record) || r.inLedger(record) && r.hasUniqueIdentity(record)
}

// inLedger reports whether a ledger names the identity in an interface's tags.
func (r *renderer) inLedger(record inventory.Record) bool {
	for _, ledger := range []identity.Generations{r.Ledger, r.OtherLedgers} {
		if generation, is := ledger[record.Member.Key]; is && generation == record.Member.Generation {
			return true
		}
	}
	return false
}

// isRecorded reports whether a call of ours or a ledger named the ID of this interface.
func (r *renderer) isRecorded(record inventory.Record) bool {
	return record.Verified || slices.ContainsFunc(r.Recorded, func(known Recorded) bool { return known.ID == record.ID })
}

// hasUniqueIdentity reports whether no other interface has the same identity. EC2 creates one interface per client
// token, so one of two has copied tags, and nothing says which.
func (r *renderer) hasUniqueIdentity(record inventory.Record) bool {
	return !slices.ContainsFunc(r.Owned, func(other inventory.Record) bool { return sameIdentity(other, record) })
}

// sameIdentity reports whether two interfaces have the same identity.
func sameIdentity(a, b inventory.Record) bool {
	return a.ID != b.ID && a.Member.Key == b.Member.Key && a.Member.Generation == b.Member.Generation
}

// whyCopy says why the identity in an attached interface's tags is known to be another one's; "" if it may be its own.
// The identity of a deleted interface is never used again.
func (r *renderer) whyCopy(record inventory.Record) (why string) {
	if record.Attachment == nil || r.isRecorded(record) {
		return ""
	}
	if r.Copies[record.ID] {
		return "the tags are those of another interface"
	}
	for _, known := range r.Recorded {
		if known.Attached && known.Key == record.Member.Key && known.Generation == record.Member.Generation {
			return "the tags are those of " + known.ID
		}
	}
	for _, other := range r.Owned {
		if sameIdentity(other, record) && other.Verified && other.Attachment != nil {
			return "the tags are those of " + other.ID
		}
	}
	if spent, is := r.UsedGenerations[record.Member.Key]; is && spent >= record.Member.Generation {
		return "the tags are those of a deleted interface"
	}
	return ""
}

// withoutCopies returns the interfaces that are not known to be copies.
func (r *renderer) withoutCopies() []inventory.Record {
	var others []inventory.Record
	for _, record := range r.Owned {
		if why := r.whyCopy(record); why != "" && !r.ended {
			r.exclude(record, why)
			continue
		}
		others = append(others, record)
	}
	return others
}

// isAdoptable reports whether an unverified interface may serve a desired one that has no interface: the ledger, which
// was lost or restored, does not name it and has no later generation. An interface on another instance serves none.
func (r *renderer) isAdoptable(record inventory.Record) bool {
	isHere := record.Attachment == nil || record.AttachedTo(r.InstanceID)
	return isHere && record.Member.Generation > r.Ledger[record.Member.Key]
}

// accepts reports whether tags alone suffice as evidence for a released claim. They do if a NodeENI that is being
// deleted selects the node, and the node's ledger was lost: an operator removes multieni after its ledgers. The ledger
// of a NodeENI is also empty after its last interface is removed, but then a state exists or this process saw the
// removal. An interface on another instance is left to a person.
func (r *renderer) accepts(claim *Claim, record inventory.Record) bool {
	return claim.Selects && !claim.Leaked && !r.HasState && record.AttachedTo(r.InstanceID) && !r.removedOne(claim.Owner)
}

// removedOne reports whether an interface of the owner was deleted on this instance while this process ran.
func (r *renderer) removedOne(owner identity.Owner) bool {
	for key := range r.UsedGenerations {
		if key.Owner == owner {
			return true
		}
	}
	return false
}

// credible returns the interfaces of a NodeENI that may serve its desired ones, and retains the others.
func (r *renderer) credible(owned []inventory.Record) []inventory.Record {
	var credible []inventory.Record
	for _, record := range owned {
		if r.verified(record) || r.isAdoptable(record) && !r.hasRival(record, owned) {
			credible = append(credible, record)
			continue
		}
		r.exclude(record, "")
	}
	return credible
}

// hasRival reports whether an interface with evidence is in the subnet of one without. The latter could else serve for
// another subnet, and later take the place of the former.
func (r *renderer) hasRival(record inventory.Record, owned []inventory.Record) bool {
	return slices.ContainsFunc(owned, func(other inventory.Record) bool {
		isHere := other.Attachment == nil || other.AttachedTo(r.InstanceID)
		return other.ID != record.ID && other.SubnetID == record.SubnetID && isHere && r.hasEvidence(other)
	})
}

// excludeSurplus retains the unverified surplus interfaces, and returns the rest.
func (r *renderer) excludeSurplus(surplus []int, owned []inventory.Record) []int {
	var verified []int
	for _, i := range surplus {
		if r.verified(owned[i]) {
			verified = append(verified, i)
			continue
		}
		r.exclude(owned[i], "")
	}
	return verified
}

// noteVerified lists the interfaces with evidence besides their tags, and those that serve a desired one because no
// verified interface exists.
func (r *renderer) noteVerified() {
	for _, i := range r.out.Interfaces {
		if i.Record != nil && !i.Unverified && r.isAttachedToRunning(*i.Record) && !i.Owner.IsNetwork() {
			r.out.Verified = append(r.out.Verified, i.Record.ID)
		}
	}
	slices.SortFunc(r.out.Unverified, func(a, b Unverified) int { return cmp.Compare(a.ID, b.ID) })
}

// exclude retains an interface; copied says why its tags are known to be another one's.
func (r *renderer) exclude(record inventory.Record, copied string) {
	r.out.Unverified = append(r.out.Unverified, Unverified{
		ID: record.ID, Member: record.Member, Copy: copied != "", Message: r.whyExcluded(record, copied),
	})
}

func (r *renderer) whyExcluded(record inventory.Record, copied string) string {
	why := "no NodeENIState of the instance names it"
	switch {
	case copied != "":
		why = copied
	case r.NodeAbsent && len(r.Ledger) == 0:
		why = fmt.Sprintf("no Node and no NodeENIState names instance %s", r.InstanceID)
	}
	return fmt.Sprintf("%s carries this cluster's tags, but nothing else says that multieni created it: %s. multieni "+
		"leaves it as it is. "+
		"If it is not multieni's, remove its %s tags; if it is, detach it, and multieni deletes it",
		record.ID, why, identity.Prefix)
}
