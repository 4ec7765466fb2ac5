// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostnet

import (
	"net/netip"

	"github.com/multieni/multieni/internal/core/eni"
)

// Link is one desired network interface of the node.
type Link struct {
	// Name is the name of the interface for users; the same on every node. See [AltName].
	Name string
	// MAC is the address of the interface, in EC2's form: lower case, with colons.
	MAC string
	// Device is the bus address at which the link was last observed, or "". It distinguishes a link that moved into
	// another network namespace from one that does not exist any more.
	Device string
	// Slot is where the interface is attached. It determines the number of the route table.
	Slot eni.Slot
	// MTU is the largest packet in bytes; 0 means [DefaultMTU]. A value above the device's limit is lowered to it.
	MTU int

	Mode AddressMode
	// Addresses are the addresses of the host with [Primary]: the interface's primary IPv4 address and its IPv6 addresses.
	Addresses []netip.Addr
	// Subnet is the IPv4 range of the subnet.
	Subnet netip.Prefix
	// Assigned is everything that EC2 assigned to the interface, delegated prefixes included. The host may have only the
	// part that the mode allows; the rest is for pods.
	Assigned []netip.Prefix

	// Settings override those of the mode, or add to them.
	Settings map[Setting]int
}

// DefaultMTU is the largest packet inside a VPC, in bytes (EC2 user guide, "Network MTU").
const DefaultMTU = 9001

// AddressMode is whether the host itself uses a link.
type AddressMode string

const (
	// None gives the host no address: the link is for pods.
	None AddressMode = "None"
	// Primary gives the host the primary address, with a separate route table, so that other traffic does not change.
	Primary AddressMode = "Primary"
)

const (
	// firstTable is where our route tables begin. Below are the tables of the VPC CNI (up to some 16,000: 10000 + 100 *
	// network card + device), of ec2-net-utils and nodeadm (the same) and of cloud-init (100 + n).
	firstTable = 20000
	// firstPriority and priorities span our rules: after those of the VPC CNI for pods (10 to 1536), before its last
	// one for its own interfaces (32765) and the kernel's (32766).
	firstPriority = 30000
	priorities    = 2000
	// slotsPerCard is larger than the number of device indices of any network card.
	slotsPerCard = 128
)

// Protocol is the number that our routes and rules carry as their origin (rtnetlink(7), rtm_protocol). It is assigned
// to no routing daemon in the kernel's rtnetlink.h.
const Protocol = 109

// table returns the number of the link's own route table.
func (l Link) table() int { return firstTable + l.number() }

// priority returns the priority of the link's rules. They begin with one address each, so their order does not matter.
func (l Link) priority() int { return firstPriority + l.number()%priorities }

func (l Link) number() int { return l.Slot.Card*slotsPerCard + l.Slot.Device }

// ipv6Router is the link-local address that the router of a VPC has in every subnet.
var ipv6Router = netip.MustParseAddr("fe80:ec2::1")

// ipv6Metric is the metric that the kernel gives an IPv6 route without one.
const ipv6Metric = 1024

// routes returns the routes of the link's own table.
func (l Link) routes(index int) []Route {
	if l.Mode != Primary {
		return nil
	}
	var routes []Route
	route := Route{Table: l.table(), Link: index, Protocol: Protocol}
	if l.takes(netip.Addr.Is4) && l.Subnet.IsValid() {
		route.To = l.Subnet.Masked()
		routes = append(routes, route)
		// The router of a subnet is its first address after the network's (VPC user guide, "Subnet sizing").
		route.To, route.Gateway = netip.PrefixFrom(netip.IPv4Unspecified(), 0), l.Subnet.Masked().Addr().Next()
		routes = append(routes, route)
	}
	if l.takes(netip.Addr.Is6) {
		route.To, route.Gateway, route.Metric = netip.PrefixFrom(netip.IPv6Unspecified(), 0), ipv6Router, ipv6Metric
		routes = append(routes, route)
	}
	return routes
}

// rules returns the rules that route packets from the link's addresses by its own table.
func (l Link) rules() []Rule {
	var rules []Rule
	for _, address := range l.hostAddresses() {
		rules = append(rules, Rule{Priority: l.priority(), From: address, Table: l.table(), Protocol: Protocol})
	}
	return rules
}

// hostAddresses returns the addresses that the host takes, as single addresses, so that none adds a route to its
// subnet.
func (l Link) hostAddresses() []netip.Prefix {
	if l.Mode != Primary {
		return nil
	}
	var prefixes []netip.Prefix
	for _, address := range l.Addresses {
		prefixes = append(prefixes, netip.PrefixFrom(address, address.BitLen()))
	}
	return prefixes
}

func (l Link) takes(family func(netip.Addr) bool) bool {
	for _, address := range l.Addresses {
		if family(address) {
			return true
		}
	}
	return false
}

// assigned reports whether EC2 assigned the address to the interface.
func (l Link) assigned(address netip.Addr) bool {
	for _, prefix := range l.Assigned {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}
