// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
)

// Expected returns the interfaces as they will be if EC2 accepts all calls in flight, so that this plan matches
// interfaces like the plan after the answers. An interface that is being created has no ID and is not verified yet, so
// no other one is removed in its favor. An interface that is being deleted counts as missing, because it may not exist
// any more.
func (o Observed) Expected() []inventory.Record {
	records := slices.Clone(o.Owned)
	for _, action := range o.InFlight {
		if create, is := action.(Create); is {
			if !slices.ContainsFunc(o.Owned, create.made) {
				records = append(records, create.expected())
			}
			continue
		}
		for n := range records {
			if records[n].ID == action.Interface() {
				records[n] = expect(records[n], action)
			}
		}
	}
	return records
}

// made reports whether the record is the interface of the create call, or a later one of its member.
func (a Create) made(r inventory.Record) bool {
	return r.Member.Key == a.Member.Key && r.Member.Generation >= a.Member.Generation
}

func (a Create) expected() inventory.Record {
	return inventory.Record{Member: a.Member, Interface: eni.Interface{
		Type: eni.Standard, Status: eni.Pending, SubnetID: a.SubnetID, Groups: a.Spec.Groups, Description: a.Spec.Description,
	}}
}

// expect returns the record after EC2 accepts the action.
func expect(r inventory.Record, action Action) inventory.Record {
	r.Interface = r.Clone()
	switch action := action.(type) {
	case Attach:
		if r.Attachment == nil {
			// the call is evidence that it belongs to the cluster, and so is its answer
			r.Status, r.Verified = eni.Attaching, true
			r.Attachment = &eni.Attachment{InstanceID: action.Member.InstanceID, Slot: action.Slot,
				Status: eni.AttachmentAttaching}
		}
	case Detach:
		if r.Attachment != nil && r.Attachment.ID == action.AttachmentID {
			r.Attachment.Status = eni.AttachmentDetaching
		}
	case Delete:
		r.Missing = true
	}
	return r
}

// isExpected reports whether an attach call is in flight.
func isExpected(a *eni.Attachment) bool { return a.ID == "" }

// slotOf returns the slot for which the interface of a member is being created.
func (o Observed) slotOf(key identity.Key) (slot eni.Slot, is bool) {
	for _, action := range o.InFlight {
		if create, makes := action.(Create); makes && create.Member.Key == key {
			return create.Slot, true
		}
	}
	return eni.Slot{}, false
}

// waitsForAnswer reports whether an action must wait for a call in flight: the calls for one interface are sequential,
// and no other call for a member begins during its creation.
func (o Observed) waitsForAnswer(action Action) bool {
	_, makes := action.(Create)
	return slices.ContainsFunc(o.InFlight, func(before Action) bool {
		_, made := before.(Create)
		if makes || made {
			return action.Of().Key == before.Of().Key
		}
		return action.Interface() == before.Interface()
	})
}
