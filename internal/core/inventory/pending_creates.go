// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import "time"

// RecordUnansweredCreate records that a create call for a NodeENI ended without an interface ID. EC2 may have created
// the interface all the same: the answer was lost, or a retry failed because of the first attempt.
func (v *Inventory) RecordUnansweredCreate(now time.Time, nodeENIUID string) {
	if now.After(v.asked[nodeENIUID]) {
		v.asked[nodeENIUID] = now
	}
}

// MayHavePendingCreate reports whether an unknown interface of a NodeENI may still become visible: a create call
// without an answer is younger than [VisibilityWindow].
func (v *Inventory) MayHavePendingCreate(now time.Time, nodeENIUID string) bool {
	at, asked := v.asked[nodeENIUID]
	return asked && now.Before(at.Add(VisibilityWindow))
}
