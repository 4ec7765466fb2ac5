// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package eni

import (
	"cmp"
	"fmt"
)

// Slot is the position of an interface on its instance. It holds at most one interface: EC2 keeps device indices unique
// per network card (EC2 user guide, "Network cards").
type Slot struct {
	// Card is the network card index; 0 on instances with one card.
	Card int
	// Device is the device index on that card.
	Device int
}

// Primary is the slot of an instance's primary interface, which can never be detached and is never ours.
var Primary = Slot{}

// String returns the slot as text, for example "card 0 device 2".
func (s Slot) String() string { return fmt.Sprintf("card %d device %d", s.Card, s.Device) }

// CompareSlots orders slots by card, then by device index.
func CompareSlots(a, b Slot) int {
	return cmp.Or(cmp.Compare(a.Card, b.Card), cmp.Compare(a.Device, b.Device))
}

// Limits are the limits of an instance type.
type Limits struct {
	// Cards has the maximum number of interfaces of each network card, by network card index.
	Cards []int
	// Interfaces is the maximum number of interfaces of the whole instance. It can be less than the sum over the cards.
	Interfaces int
	// IPv4 and IPv6 are the maximum numbers of addresses of each family per interface, including the primary address. A
	// delegated prefix counts as one address (EC2 user guide, "Assigning prefixes to network interfaces").
	IPv4, IPv6 int
	// EFAs is the maximum number of Elastic Fabric Adapters among the interfaces; 0 if the type supports none.
	EFAs int
	// EFAsUnknown is set if EFAs is unknown: EC2 was not asked, and no table has it.
	EFAsUnknown bool
	// XenHypervisor is set on types of the Xen hypervisor, whose interfaces do not support delegated prefixes (EC2 user
	// guide, "Assigning prefixes to network interfaces").
	XenHypervisor bool
	// Tracking are the default timeouts of connection tracking; 0 where unknown: EC2 was not asked.
	Tracking ConnectionTracking
	// ENAExpress is set if interfaces of the type support ENA Express, as EC2 says. It is not known offline.
	ENAExpress bool
}

// Known reports whether the limits of the type are known.
func (l Limits) Known() bool { return len(l.Cards) > 0 }

// MaxOnCard returns the maximum number of interfaces of a network card; 0 if the instance does not have that card.
func (l Limits) MaxOnCard(card int) int {
	if card < 0 || card >= len(l.Cards) {
		return 0
	}
	return l.Cards[card]
}

// CardNames describes the network cards in words.
func (l Limits) CardNames() string {
	if len(l.Cards) == 1 {
		return "network card 0 alone"
	}
	return fmt.Sprintf("network cards 0 to %d", len(l.Cards)-1)
}
