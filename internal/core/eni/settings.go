// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package eni

import "slices"

// Settings are the desired state of one interface and its place.
type Settings struct {
	// Subnets are the IDs of the allowed subnets, the preferred one first.
	Subnets []string
	Slot    Slot
	// ExactSlot accepts only this slot, instead of any of its card.
	ExactSlot bool
	Spec
}

// Allows reports whether the interface may be in a subnet.
func (s Settings) Allows(subnetID string) bool { return slices.Contains(s.Subnets, subnetID) }
