// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
)

// expected returns the interfaces as EC2 will show them if it accepts all calls under way, so that a plan pairs interfaces and
// wishes as the plan after the answers does. An interface that is being made has no ID yet and is not proven: nothing is given
// up for it. One that is being deleted counts as missing: it need not exist any more.
func (o Observed) expected() []inventory.Record {
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

// made reports whether the record is the interface that the call makes, or a later one of its member.
func (a Create) made(r inventory.Record) bool {
	return r.Member.Key == a.Member.Key && r.Member.Generation >= a.Member.Generation
}

func (a Create) expected() inventory.Record {
	return inventory.Record{Member: a.Member, Interface: eni.Interface{
		Type: eni.Standard, Status: eni.Pending, SubnetID: a.SubnetID, Groups: a.Spec.Groups, Description: a.Spec.Description,
	}}
}

// expect returns the record as it will be once EC2 has accepted the action.
func expect(r inventory.Record, action Action) inventory.Record {
	r.Interface = r.Clone()
	switch action := action.(type) {
	case Attach:
		if r.Attachment == nil {
			r.Status, r.Verified = eni.Attaching, true // the call is evidence that it is ours, as its answer is
			r.Attachment = &eni.Attachment{InstanceID: action.Member.InstanceID, Slot: action.Slot, Status: eni.AttachmentAttaching}
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

// isExpected reports whether an attachment has been asked for, and EC2 has not answered yet.
func isExpected(a *eni.Attachment) bool { return a.ID == "" }

// slotOf returns the slot that the interface of a member is being made for.
func (o Observed) slotOf(key identity.Key) (slot eni.Slot, is bool) {
	for _, action := range o.InFlight {
		if create, makes := action.(Create); makes && create.Member.Key == key {
			return create.Slot, true
		}
	}
	return eni.Slot{}, false
}

// waitsForAnswer reports whether an action has to wait for the answer to a call under way: the calls for one interface follow
// each other, and nothing is begun for a member while it is being made.
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

// awaitAnswer says that EC2 has not answered yet whether it makes the interface.
func (p *planner) awaitAnswer(m *member) {
	m.Phase, m.Interface = Creating, nil
	m.Why = Problem{InProgress, "EC2 was asked to make the interface and has not answered yet"}
}
