// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/text"
)

// addressesOfPrefix is the number of addresses of a /28, the only IPv4 prefix that EC2 delegates (EC2 user guide,
// "Prefix delegation for Amazon EC2 network interfaces").
const addressesOfPrefix = 16

// Shortage is a subnet with too few addresses for the interfaces that a plan creates there.
type Shortage struct {
	SubnetID string `json:"subnet"`
	Zone     string `json:"zone"`
	// NodeENIs need the addresses.
	NodeENIs []string `json:"nodeENIs"`
	// Addresses are single IPv4 addresses; those of prefixes are not among them.
	Addresses     int `json:"addresses"`
	FreeAddresses int `json:"freeAddresses"`
	// Prefixes are IPv4 prefixes (/28).
	Prefixes     int `json:"prefixes"`
	FreePrefixes int `json:"freePrefixes"`
}

// PlannedSubnets returns the IDs of the subnets in which interfaces are created.
func PlannedSubnets(drafts []SimulatedNode) []string {
	var ids []string
	for _, d := range drafts {
		for _, call := range d.Outcome.Calls {
			if create, is := call.(plan.Create); is {
				ids = append(ids, create.SubnetID)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// AddShortages adds the subnets with too few free addresses for the interfaces that are created. The subnets are as
// before the plan: addresses that it releases do not count.
func (v *PlanDiff) AddShortages(drafts []SimulatedNode, subnets []Subnet) {
	needs := map[string]*Shortage{}
	for _, s := range subnets {
		if !s.IPv6Only {
			needs[s.ID] = &Shortage{SubnetID: s.ID, Zone: s.Zone, FreeAddresses: s.Free, FreePrefixes: s.FreePrefixes}
		}
	}
	for _, d := range drafts {
		for _, call := range d.Outcome.Calls {
			if create, is := call.(plan.Create); is && needs[create.SubnetID] != nil {
				needs[create.SubnetID].add(create)
			}
		}
	}
	for _, s := range subnets {
		if need := needs[s.ID]; need != nil && need.lacks(s) {
			slices.Sort(need.NodeENIs)
			need.NodeENIs = slices.Compact(need.NodeENIs)
			v.Shortages = append(v.Shortages, *need)
		}
	}
}

func (s *Shortage) add(create plan.Create) {
	s.NodeENIs = append(s.NodeENIs, create.Key.NodeENI)
	s.Addresses += 1 + create.Spec.SecondaryIPv4
	s.Prefixes += create.Spec.IPv4Prefixes
}

// lacks reports whether the subnet has too few addresses, too few prefixes, or too few addresses for both.
func (s *Shortage) lacks(in Subnet) bool {
	room := in.Free
	for _, r := range in.Reservations {
		room += r.Free
	}
	return s.Addresses > s.FreeAddresses || s.Prefixes > s.FreePrefixes || s.Addresses+s.Prefixes*addressesOfPrefix > room
}

// String returns what is needed, what is free, and the consequence.
func (s Shortage) String() string {
	need := addressCount(s.Addresses)
	free := fmt.Sprintf("%d are free", s.FreeAddresses)
	if s.Prefixes > 0 {
		need += fmt.Sprintf(" and %s", text.Count(s.Prefixes, "/28"))
		free = fmt.Sprintf("%s and %s are free", addressCount(s.FreeAddresses), text.Count(s.FreePrefixes, "/28"))
	}
	return fmt.Sprintf("%s (%s) is too small: %s needs %s there, and %s; the rest of the interfaces is created in "+
		"another subnet of the zone, "+
		"if there is one, and is blocked otherwise", s.SubnetID, s.Zone, strings.Join(s.NodeENIs, ", "), need, free)
}
