// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import "time"

// RecordUnansweredCreate records that a call for a NodeENI's interface ended without EC2 saying which one it made. It may have made one all the
// same: an answer was lost, or a later attempt was refused because of the first.
func (v *Inventory) RecordUnansweredCreate(now time.Time, nodeENIUID string) {
	if now.After(v.asked[nodeENIUID]) {
		v.asked[nodeENIUID] = now
	}
}

// MayHavePendingCreate reports whether an interface of a NodeENI may come to light that is not known: one was asked for so shortly before
// that EC2 need not show it yet.
func (v *Inventory) MayHavePendingCreate(now time.Time, nodeENIUID string) bool {
	at, asked := v.asked[nodeENIUID]
	return asked && now.Before(at.Add(VisibilityWindow))
}
