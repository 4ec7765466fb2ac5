// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/awssim/instancetypes"
)

// AssignPrivateIPAddressesInput is the request of AssignPrivateIpAddresses.
type AssignPrivateIPAddressesInput struct {
	NetworkInterfaceID             string   `query:"NetworkInterfaceId"`
	PrivateIPAddresses             []string `query:"PrivateIpAddress"`
	SecondaryPrivateIPAddressCount *int     `query:"SecondaryPrivateIpAddressCount"`
	IPv4Prefixes                   []string `query:"Ipv4Prefix"`
	IPv4PrefixCount                *int     `query:"Ipv4PrefixCount"`
	AllowReassignment              bool     `query:"AllowReassignment"`
}

// AssignPrivateIPAddressesOutput is its answer: only the new addresses.
type AssignPrivateIPAddressesOutput struct {
	NetworkInterfaceID         string                     `json:"networkInterfaceId"`
	AssignedPrivateIPAddresses []AssignedPrivateIPAddress `json:"assignedPrivateIpAddresses" xml:"assignedPrivateIpAddressesSet"`
	AssignedIPv4Prefixes       []IPv4Prefix               `json:"assignedIpv4Prefixes" xml:"assignedIpv4PrefixSet"`
}

// AssignedPrivateIPAddress is a new address of an interface.
type AssignedPrivateIPAddress struct {
	PrivateIPAddress netip.Addr `json:"privateIpAddress"`
}

// AssignPrivateIPAddresses assigns secondary IPv4 addresses or prefixes to an interface. With AllowReassignment it
// moves addresses from other interfaces of the subnet.
func (m *Model) AssignPrivateIPAddresses(
	c Call, in *AssignPrivateIPAddressesInput,
) (*AssignPrivateIPAddressesOutput, error) {
	m.Advance(c.Now)
	w := addressRequest{
		ipv4:      family{given: in.PrivateIPAddresses, count: in.SecondaryPrivateIPAddressCount},
		prefixes4: family{given: in.IPv4Prefixes, count: in.IPv4PrefixCount},
	}
	eni, err := m.interfaceOf(in.NetworkInterfaceID)
	if err != nil {
		return nil, err
	}
	if err := m.canAssign("AssignPrivateIpAddresses", eni, w); err != nil {
		return nil, err
	}
	var moving []*NetworkInterface
	if in.AllowReassignment {
		// Addresses that the interface already has are neither new nor a conflict.
		w.ipv4.given = distinct(without(w.ipv4.given, holds(eni)))
		moving = m.release(eni.SubnetID, w.ipv4.given)
	}
	g, err := m.assign(eni, w)
	if err != nil {
		m.takeBack(moving, w.ipv4.given)
		return nil, err
	}
	for _, loser := range moving {
		m.loseAddresses(loser, w.ipv4.given)
	}
	out := &AssignPrivateIPAddressesOutput{NetworkInterfaceID: eni.NetworkInterfaceID}
	for _, address := range g.ipv4 {
		out.AssignedPrivateIPAddresses = append(out.AssignedPrivateIPAddresses, AssignedPrivateIPAddress{address})
	}
	for _, prefix := range g.prefixes4 {
		out.AssignedIPv4Prefixes = append(out.AssignedIPv4Prefixes, IPv4Prefix{prefix})
	}
	return out, nil
}

// canAssign returns EC2's error, except that for a lack of free addresses.
func (m *Model) canAssign(action string, eni *NetworkInterface, w addressRequest) error {
	switch {
	case eni.RequesterManaged:
		return notYours(eni)
	case w.ipv4.isEmpty() && w.prefixes4.isEmpty() && w.ipv6.isEmpty() && w.prefixes6.isEmpty():
		return missing("secondaryPrivateIpAddressCount or one of its alternatives")
	case eni.InterfaceType == interfaceTypeEFAOnly:
		return invalidCombination("An EFA-only network interface has no IP addresses")
	}
	if _, strikes := m.faults.Draw(fault.SubnetFull, m.now(), action, eni.SubnetID); strikes {
		return subnetFull()
	}
	return w.validate()
}

// assign adds the requested addresses to an interface. An error changes nothing.
func (m *Model) assign(eni *NetworkInterface, w addressRequest) (grant, error) {
	pool := m.pools[eni.SubnetID]
	g, err := pool.grant(w)
	if err != nil {
		return grant{}, moveNotAllowed(err, w)
	}
	changed := *eni
	m.addGrant(&changed, g)
	if err := m.fitsWhereItIs(&changed); err != nil {
		pool.giveBack(g)
		return grant{}, err
	}
	m.putInterface(eni.NetworkInterfaceID, &changed)
	return g, nil
}

// fitsWhereItIs returns an error for more addresses than the instance type supports. An unattached interface has no
// such limit.
func (m *Model) fitsWhereItIs(eni *NetworkInterface) error {
	if eni.Attachment == nil {
		return nil
	}
	limits, _ := instancetypes.Lookup(m.instances.get(eni.Attachment.InstanceID).InstanceType)
	return fitsAddresses(eni, limits)
}

// moveNotAllowed is the error of the Assign actions for an address that another interface has.
func moveNotAllowed(err error, w addressRequest) error {
	if refused, ok := errors.AsType[*Error](err); ok && refused.Code == "InvalidIPAddress.InUse" && len(w.ipv4.given) > 0 {
		return invalidValue("%v assigned, but move is not allowed.", w.ipv4.given)
	}
	return err
}

// holds reports whether an address is a secondary one of the interface.
func holds(eni *NetworkInterface) func(string) bool {
	return func(text string) bool {
		return slices.ContainsFunc(eni.PrivateIPAddresses, func(a PrivateIPAddress) bool {
			return !a.Primary && a.PrivateIPAddress.String() == text
		})
	}
}

// release frees addresses that are secondary ones of interfaces of the subnet, and returns these interfaces. Their
// records stay until it is known whether another interface gets an address.
func (m *Model) release(subnetID string, addresses []string) []*NetworkInterface {
	var holders []*NetworkInterface
	for _, eni := range m.interfaces.indexed(indexKey(filterSubnet, subnetID)) {
		held := false
		for _, text := range addresses {
			if holds(eni)(text) {
				m.pools[subnetID].release(netip.MustParseAddr(text))
				held = true
			}
		}
		if held {
			holders = append(holders, eni)
		}
	}
	return holders
}

// takeBack undoes release.
func (m *Model) takeBack(holders []*NetworkInterface, addresses []string) {
	for _, eni := range holders {
		for _, text := range addresses {
			if holds(eni)(text) {
				m.pools[eni.SubnetID].takeThis(netip.MustParseAddr(text))
			}
		}
	}
}

// loseAddresses removes secondary addresses from the record of an interface.
func (m *Model) loseAddresses(eni *NetworkInterface, addresses []string) {
	m.changeInterface(eni.NetworkInterfaceID, func(e *NetworkInterface) {
		e.PrivateIPAddresses = without(e.PrivateIPAddresses, func(a PrivateIPAddress) bool {
			return !a.Primary && slices.Contains(addresses, a.PrivateIPAddress.String())
		})
	})
}

// UnassignPrivateIPAddressesInput is the request of UnassignPrivateIpAddresses.
type UnassignPrivateIPAddressesInput struct {
	NetworkInterfaceID string   `query:"NetworkInterfaceId"`
	PrivateIPAddresses []string `query:"PrivateIpAddress"`
	IPv4Prefixes       []string `query:"Ipv4Prefix"`
}

// UnassignPrivateIPAddresses unassigns secondary IPv4 addresses or prefixes of an interface.
func (m *Model) UnassignPrivateIPAddresses(c Call, in *UnassignPrivateIPAddressesInput) (*Return, error) {
	m.Advance(c.Now)
	eni, err := m.interfaceOf(in.NetworkInterfaceID)
	if err != nil {
		return nil, err
	}
	if eni.RequesterManaged {
		return nil, notYours(eni)
	}
	if len(in.PrivateIPAddresses)+len(in.IPv4Prefixes) == 0 {
		return nil, missing("privateIpAddress")
	}
	var freed grant
	for _, text := range in.PrivateIPAddresses {
		if !holds(eni)(text) {
			return nil, notAssigned(eni, text)
		}
		freed.ipv4 = append(freed.ipv4, netip.MustParseAddr(text))
	}
	for _, text := range in.IPv4Prefixes {
		prefix, err := netip.ParsePrefix(text)
		if err != nil || !slices.Contains(eni.IPv4Prefixes, IPv4Prefix{prefix}) {
			return nil, notAssigned(eni, text)
		}
		freed.prefixes4 = append(freed.prefixes4, prefix)
	}
	m.unassign(eni, freed)
	return &Return{true}, nil
}

// notAssigned returns an error for addresses that the interface does not have, and for its primary address.
func notAssigned(eni *NetworkInterface, text string) *Error {
	return invalidValue("%s is not assigned to interface %s as a secondary address or prefix", text,
		eni.NetworkInterfaceID)
}

// unassign removes addresses and prefixes from an interface that has them all, and frees them in its subnet.
func (m *Model) unassign(eni *NetworkInterface, freed grant) {
	freed = freed.unique()
	m.pools[eni.SubnetID].giveBack(freed)
	m.changeInterface(eni.NetworkInterfaceID, func(e *NetworkInterface) {
		e.PrivateIPAddresses = without(e.PrivateIPAddresses, func(a PrivateIPAddress) bool {
			return slices.Contains(freed.ipv4, a.PrivateIPAddress)
		})
		e.IPv4Prefixes = without(e.IPv4Prefixes, func(p IPv4Prefix) bool {
			return slices.Contains(freed.prefixes4, p.IPv4Prefix)
		})
		e.IPv6Addresses = without(e.IPv6Addresses, func(a IPv6Address) bool {
			return slices.Contains(freed.ipv6, a.IPv6Address)
		})
		e.IPv6Prefixes = without(e.IPv6Prefixes, func(p IPv6Prefix) bool {
			return slices.Contains(freed.prefixes6, p.IPv6Prefix)
		})
		e.IPv6Address = noAddress
		if len(e.IPv6Addresses) > 0 {
			e.IPv6Address = e.IPv6Addresses[0].IPv6Address
		}
	})
}

// without is slices.DeleteFunc on a copy.
func without[E any](list []E, unwanted func(E) bool) []E {
	return slices.DeleteFunc(slices.Clone(list), unwanted)
}
