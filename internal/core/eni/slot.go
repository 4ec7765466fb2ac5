// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package eni

import (
	"cmp"
	"fmt"
)

// Slot is the place of an interface on its instance. A slot holds at most one interface: EC2 keeps device indices
// unique per network card (EC2 user guide, "Network cards").
type Slot struct {
	// Card is the network card index; 0 on instances with one card.
	Card int
	// Device is the device index on that card.
	Device int
}

// Primary is the slot of the interface an instance is launched with. It can never be detached and is never ours.
var Primary = Slot{}

// String returns the slot as people read it, for example "card 0 device 2".
func (s Slot) String() string { return fmt.Sprintf("card %d device %d", s.Card, s.Device) }

// CompareSlots orders slots by card, then by device index.
func CompareSlots(a, b Slot) int {
	return cmp.Or(cmp.Compare(a.Card, b.Card), cmp.Compare(a.Device, b.Device))
}

// Limits is what an instance type can carry.
type Limits struct {
	// Cards holds the most interfaces each network card takes, indexed by network card index.
	Cards []int
	// Interfaces is the most interfaces the whole instance takes. It can be less than the sum over the cards.
	Interfaces int
	// IPv4 and IPv6 are the most addresses of each family per interface, the primary address included. A delegated
	// prefix counts as one address (EC2 user guide, "Assigning prefixes to network interfaces").
	IPv4, IPv6 int
	// EFAs is how many of the interfaces may be Elastic Fabric Adapters; 0 where the type takes none.
	EFAs int
	// EFAsUnknown is set where nothing tells EFAs: EC2 was not asked, and no table has it.
	EFAsUnknown bool
	// XenHypervisor is set on types of the Xen hypervisor, whose interfaces take no delegated prefixes (EC2 user guide,
	// "Assigning prefixes to network interfaces").
	XenHypervisor bool
}

// Known reports whether the limits of the type could be found out at all.
func (l Limits) Known() bool { return len(l.Cards) > 0 }

// MaxOnCard returns how many interfaces the network card takes, 0 when the instance has no such card.
func (l Limits) MaxOnCard(card int) int {
	if card < 0 || card >= len(l.Cards) {
		return 0
	}
	return l.Cards[card]
}

// CardNames says which network cards there are, for people.
func (l Limits) CardNames() string {
	if len(l.Cards) == 1 {
		return "network card 0 alone"
	}
	return fmt.Sprintf("network cards 0 to %d", len(l.Cards)-1)
}
