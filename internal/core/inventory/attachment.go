// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"time"

	"github.com/multieni/multieni/internal/core/eni"
)

// Attached returns how many interfaces are attached to something, of those that count. Those that are left alone as
// unverified never do.
func (v *Inventory) Attached(counts func(Record) bool) int {
	n := 0
	for id, e := range v.entries {
		if !v.unattached[id] && !v.evidence.denied[id] && counts(e.Record) {
			n++
		}
	}
	return n
}

// HasAny reports whether any interface is known that was made for an instance.
func (v *Inventory) HasAny(instanceID string) bool { return len(v.byInstance[instanceID]) > 0 }

// countFailedAttaches notes whether an attempt to attach the interface ended, and how.
func (e *entry) countFailedAttaches(at time.Time, next eni.Interface) {
	was, now := e.Attachment, next.Attachment
	switch {
	case now != nil && now.Status == eni.AttachmentAttached:
		e.FailedAttaches, e.LastFailedAttach = 0, time.Time{}
	case was == nil || was.Status != eni.AttachmentAttaching:
	case now == nil || now.ID != was.ID || now.Status != eni.AttachmentAttaching:
		e.FailedAttaches, e.LastFailedAttach = e.FailedAttaches+1, at
	}
}

// finished takes in the end of an attach from a reading that does not count otherwise, because it does not show all that our
// calls did: an attach that EC2 shows as done is done, and nothing that is changed beside it delays that.
func (v *Inventory) finished(begun time.Time, e *entry, seen eni.Interface) bool {
	was, now := e.Attachment, seen.Attachment
	if was == nil || now == nil || now.ID != was.ID || was.Status != eni.AttachmentAttaching || now.Status != eni.AttachmentAttached {
		return false
	}
	i := e.Clone()
	i.Attachment.Status = eni.AttachmentAttached
	return v.set(begun, e, i)
}

// since returns from when on an attachment has had a status: as before, from now on, or zero if it has it not.
func since(before, now time.Time, i eni.Interface, status eni.AttachmentStatus) time.Time {
	switch {
	case i.Attachment == nil || i.Attachment.Status != status:
		return time.Time{}
	case before.IsZero():
		return now
	default:
		return before
	}
}

// NeverOwned reports whether an interface is no member's whatever tags somebody put on it: an AWS service made it for itself, or
// it is an instance's primary one.
func NeverOwned(i eni.Interface) bool {
	return i.RequesterManaged || i.Attachment != nil && i.Attachment.Slot == eni.Primary
}
