// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"time"

	"github.com/multieni/multieni/internal/core/eni"
)

// Attached returns the number of attached interfaces, without those that are retained as unverified.
func (v *Inventory) Attached(counts func(Record) bool) int {
	n := 0
	for id, e := range v.entries {
		if !v.unattached[id] && !v.evidence.denied[id] && counts(e.Record) {
			n++
		}
	}
	return n
}

// HasAny reports whether the inventory has an interface that was created for an instance.
func (v *Inventory) HasAny(instanceID string) bool { return len(v.byInstance[instanceID]) > 0 }

// countFailedAttaches records whether an attempt to attach the interface ended, and with which result.
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

// finished merges the end of an attach from a read that is otherwise ignored as stale, because it does not show all
// effects of our calls. EC2 returns "attached" only when it is true, so a concurrent change of another aspect does not
// delay it.
func (v *Inventory) finished(begun time.Time, e *entry, seen eni.Interface) bool {
	was, now := e.Attachment, seen.Attachment
	if was == nil || now == nil || now.ID != was.ID || was.Status != eni.AttachmentAttaching || now.Status != eni.AttachmentAttached {
		return false
	}
	i := e.Clone()
	i.Attachment.Status = eni.AttachmentAttached
	return v.set(begun, e, i)
}

// since returns the time from which on an attachment has had a status: the time before, now, or zero if it does not
// have it.
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

// NeverOwned reports whether an interface cannot belong to a member, regardless of its tags: an AWS service created it
// for itself, or it is an instance's primary interface.
func NeverOwned(i eni.Interface) bool {
	return i.RequesterManaged || i.Attachment != nil && i.Attachment.Slot == eni.Primary
}
