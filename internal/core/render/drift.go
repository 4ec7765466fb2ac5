// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
)

// target returns the slot where an interface belongs: the requested one, or its present one if the NodeENI allows that.
// Prefer allows every index of the card: the requested one and the order of subnets count only when an interface is
// created. No interface in use is detached for them.
func (c *Claim) target(wanted eni.Slot, i eni.Interface) eni.Slot {
	if i.Attachment == nil || c.ExactSlot {
		return wanted
	}
	if have := i.Attachment.Slot; have.Card == c.FirstSlot.Card {
		return have
	}
	return wanted
}

// drift lists the differences that cannot be updated in place: EC2 binds an interface to its subnet, and an attachment
// to its slot.
func (c *Claim) drift(desired plan.DesiredInterface, i eni.Interface) []plan.Drift {
	var drift []plan.Drift
	if !desired.Allows(i.SubnetID) {
		drift = append(drift, plan.Drift{
			Field: plan.SubnetDrift, Want: strings.Join(desired.Subnets, " or "), Have: i.SubnetID,
		})
	}
	if target := c.target(desired.Slot, i); i.Attachment != nil && i.Attachment.Slot != target {
		drift = append(drift, plan.Drift{Field: plan.SlotDrift, Want: target.String(), Have: i.Attachment.Slot.String()})
	}
	return drift
}
