// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
)

// expected returns the interfaces as they will be if EC2 accepts all calls in flight, so that this plan allocates slots
// like the plan after the answers. An interface that is being deleted counts as missing, because it may not exist any
// more.
func (f Facts) expected() []inventory.Record {
	records := slices.Clone(f.Interfaces)
	for _, call := range f.InFlight {
		for n := range records {
			if id := call.Interface(); id != "" && records[n].ID == id {
				records[n] = expect(records[n], call)
			}
		}
	}
	return records
}

// expect returns the record after EC2 accepts the call.
func expect(r inventory.Record, call Call) inventory.Record {
	r.Interface = r.Clone()
	switch call := call.(type) {
	case Attach:
		if r.Attachment == nil {
			r.Status = eni.Attaching
			r.Attachment = &eni.Attachment{InstanceID: call.Key.InstanceID, Slot: call.Slot,
				Status: eni.AttachmentAttaching}
		}
	case Detach:
		if r.Attachment != nil && r.Attachment.ID == call.AttachmentID {
			r.Attachment.Status = eni.AttachmentDetaching
		}
	case Delete:
		r.Missing = true
	}
	return r
}

// isExpected reports whether an attach call is in flight.
func isExpected(a *eni.Attachment) bool { return a.ID == "" }

// creating returns the call in flight that creates the interface of an object, or nil.
func (f Facts) creating(uid identity.UID) *Create {
	for _, call := range f.InFlight {
		if create, is := call.(Create); is && create.Key.UID == uid {
			return &create
		}
	}
	return nil
}

// waitsForAnswer reports whether a call must wait for a call in flight: the calls for one object are sequential.
func (f Facts) waitsForAnswer(call Call) bool {
	return slices.ContainsFunc(f.InFlight, func(before Call) bool { return call.Of().UID == before.Of().UID })
}
