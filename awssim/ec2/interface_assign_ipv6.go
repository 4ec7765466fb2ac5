// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"net/netip"
	"slices"
)

// noAddress is the absence of an address.
var noAddress netip.Addr

// AssignIPv6AddressesInput is the request of AssignIpv6Addresses.
type AssignIPv6AddressesInput struct {
	NetworkInterfaceID string   `query:"NetworkInterfaceId"`
	IPv6Addresses      []string `query:"Ipv6Addresses"`
	IPv6AddressCount   *int     `query:"Ipv6AddressCount"`
	IPv6Prefixes       []string `query:"Ipv6Prefix"`
	IPv6PrefixCount    *int     `query:"Ipv6PrefixCount"`
}

// AssignIPv6AddressesOutput is its answer: only the new addresses.
type AssignIPv6AddressesOutput struct {
	NetworkInterfaceID    string         `json:"networkInterfaceId"`
	AssignedIPv6Addresses []netip.Addr   `json:"assignedIpv6Addresses"`
	AssignedIPv6Prefixes  []netip.Prefix `json:"assignedIpv6Prefixes" xml:"assignedIpv6PrefixSet"`
}

// AssignIPv6Addresses assigns IPv6 addresses or prefixes to an interface.
func (m *Model) AssignIPv6Addresses(c Call, in *AssignIPv6AddressesInput) (*AssignIPv6AddressesOutput, error) {
	m.Advance(c.Now)
	eni, err := m.interfaceOf(in.NetworkInterfaceID)
	if err != nil {
		return nil, err
	}
	w := addressRequest{
		ipv6:      family{given: in.IPv6Addresses, count: in.IPv6AddressCount},
		prefixes6: family{given: in.IPv6Prefixes, count: in.IPv6PrefixCount},
	}
	if err := m.canAssign("AssignIpv6Addresses", eni, w); err != nil {
		return nil, err
	}
	g, err := m.assign(eni, w)
	if err != nil {
		return nil, err
	}
	return &AssignIPv6AddressesOutput{eni.NetworkInterfaceID, g.ipv6, g.prefixes6}, nil
}

// UnassignIPv6AddressesInput is the request of UnassignIpv6Addresses.
type UnassignIPv6AddressesInput struct {
	NetworkInterfaceID string   `query:"NetworkInterfaceId"`
	IPv6Addresses      []string `query:"Ipv6Addresses"`
	IPv6Prefixes       []string `query:"Ipv6Prefix"`
}

// UnassignIPv6AddressesOutput is its answer.
type UnassignIPv6AddressesOutput struct {
	NetworkInterfaceID      string         `json:"networkInterfaceId"`
	UnassignedIPv6Addresses []netip.Addr   `json:"unassignedIpv6Addresses"`
	UnassignedIPv6Prefixes  []netip.Prefix `json:"unassignedIpv6Prefixes" xml:"unassignedIpv6PrefixSet"`
}

// UnassignIPv6Addresses unassigns IPv6 addresses or prefixes of an interface.
func (m *Model) UnassignIPv6Addresses(c Call, in *UnassignIPv6AddressesInput) (*UnassignIPv6AddressesOutput, error) {
	m.Advance(c.Now)
	eni, err := m.interfaceOf(in.NetworkInterfaceID)
	if err != nil {
		return nil, err
	}
	if eni.RequesterManaged {
		return nil, notYours(eni)
	}
	if len(in.IPv6Addresses)+len(in.IPv6Prefixes) == 0 {
		return nil, missing("ipv6Addresses")
	}
	var freed grant
	for _, text := range in.IPv6Addresses {
		address, err := netip.ParseAddr(text)
		if err != nil || !slices.ContainsFunc(eni.IPv6Addresses, func(a IPv6Address) bool {
			return a.IPv6Address == address
		}) {
			return nil, notAssigned(eni, text)
		}
		freed.ipv6 = append(freed.ipv6, address)
	}
	for _, text := range in.IPv6Prefixes {
		prefix, err := netip.ParsePrefix(text)
		if err != nil || !slices.Contains(eni.IPv6Prefixes, IPv6Prefix{prefix}) {
			return nil, notAssigned(eni, text)
		}
		freed.prefixes6 = append(freed.prefixes6, prefix)
	}
	m.unassign(eni, freed)
	return &UnassignIPv6AddressesOutput{eni.NetworkInterfaceID, freed.ipv6, freed.prefixes6}, nil
}
