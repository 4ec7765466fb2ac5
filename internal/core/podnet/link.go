// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podnet

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/multieni/multieni/internal/core/hostnet"
)

const (
	// RulePriority is the priority of the routing rule of each address in a pod.
	RulePriority = 30000
	// firstTable plus the index of a link is the number of its route table in the pod. The indexes of links are unique in
	// a network namespace, so several networks in one pod have separate tables.
	firstTable = 1000
)

// Assignment is an address on a pod's link. The network of the address is directly on the link.
type Assignment struct {
	Address netip.Prefix
	Gateway netip.Addr
}

// Configuration is the configuration of a pod's link.
type Configuration struct {
	Addresses []Assignment
	Routes    []Route
}

// Route is a route of a pod's link through a gateway.
type Route struct {
	To      netip.Prefix
	Gateway netip.Addr
}

// Configure returns the configuration of the pod's link with the given leases, IPv4 first. The routes are those of the
// network and the given further ones.
func (n Network) Configure(leases []Lease, further []netip.Prefix) (Configuration, error) {
	var c Configuration
	leases = slices.SortedFunc(slices.Values(leases), func(a, b Lease) int {
		return cmp.Or(cmp.Compare(a.Address.BitLen(), b.Address.BitLen()), a.Address.Compare(b.Address))
	})
	for _, l := range leases {
		family := n.family(l.Address)
		if family == nil {
			return Configuration{}, fmt.Errorf("network %s has no family of address %v", n.Name, l.Address)
		}
		c.Addresses = append(c.Addresses, Assignment{family.onLink(l.Address), family.Gateway})
	}
	routes := slices.Clone(n.Routes)
	for _, to := range further {
		if !slices.Contains(routes, to) {
			routes = append(routes, to)
		}
	}
	for _, family := range n.families() {
		if family.Subnet.Addr().Is6() {
			c.Routes = append(c.Routes, Route{family.Subnet, family.Gateway})
		}
		for _, to := range routes {
			if to.Addr().Is4() == family.Gateway.Is4() {
				c.Routes = append(c.Routes, Route{to, family.Gateway})
			}
		}
	}
	return c, nil
}

// onLink returns the address with its on-link network. With IPv4 that is the subnet. With IPv6 it is the prefix, which
// the pods of one interface share: EC2 does not answer neighbor solicitations for addresses of a prefix, so all other
// addresses of the subnet are behind the router.
func (f Family) onLink(a netip.Addr) netip.Prefix {
	if a.Is4() {
		return netip.PrefixFrom(a, f.Subnet.Bits())
	}
	for _, p := range f.Prefixes {
		if p.Contains(a) {
			return netip.PrefixFrom(a, p.Bits())
		}
	}
	return netip.PrefixFrom(a, a.BitLen())
}

// looseRPFilter accepts packets whose source is reachable through any link. The kernel looks up the reverse path
// without the rules.
const looseRPFilter = 2

// Settings returns the changes after which a link has the settings of a pod's link, and speaks the version of IGMP if
// that is not 0. A link without IPv6 has no settings of IPv6, and takes no router advertisements.
func Settings(link hostnet.LinkFacts, igmpVersion int) []hostnet.Set {
	desired := hostnet.WithoutRouters()
	desired[hostnet.RPFilter] = looseRPFilter
	if igmpVersion != 0 {
		desired[hostnet.ForceIGMP] = igmpVersion
	}
	var changes []hostnet.Set
	for _, setting := range hostnet.Settings() {
		value, is := desired[setting]
		if present, has := link.Settings[setting]; is && has && present != value {
			changes = append(changes, hostnet.Set{Link: link.Index, Setting: setting, Value: value})
		}
	}
	return changes
}

// Table returns the number of the route table of a link in its pod.
func Table(link int) int { return firstTable + link }

// Routing returns the rules and routes of a pod's link, so that replies leave by the link that has their source
// address. The connected route stays in the main table, so that sockets without a source address reach the subnet; the
// link's table has a copy.
func Routing(link int, addresses []Assignment) ([]hostnet.Rule, []hostnet.Route) {
	return routing(link, addresses, nil)
}

// Routing is like the function of that name for a link on the network. It knows the gateway of addresses that came
// without one, and has rules for the addresses of the granted ranges too: a pod brings them up later.
func (n Network) Routing(link int, addresses []Assignment) ([]hostnet.Rule, []hostnet.Route) {
	addresses = slices.Clone(addresses)
	for i, a := range addresses {
		if !a.Gateway.IsValid() && n.Covers(a.Address.Addr()) {
			addresses[i].Gateway = n.family(a.Address.Addr()).Gateway
		}
	}
	return routing(link, addresses, n.IPv4)
}

func routing(link int, addresses []Assignment, granted *Family) ([]hostnet.Rule, []hostnet.Route) {
	var rules []hostnet.Rule
	var routes []hostnet.Route
	table := Table(link)
	add := func(to netip.Prefix, gateway netip.Addr) {
		route := hostnet.Route{Table: table, To: to, Gateway: gateway, Link: link, Protocol: hostnet.Protocol}
		if !slices.Contains(routes, route) {
			routes = append(routes, route)
		}
	}
	from := func(source netip.Prefix) {
		rules = append(rules, hostnet.Rule{Priority: RulePriority, From: source, Table: table, Protocol: hostnet.Protocol})
	}
	for _, a := range addresses {
		address := a.Address.Addr()
		from(netip.PrefixFrom(address, address.BitLen()))
		if !a.Address.IsSingleIP() {
			add(a.Address.Masked(), netip.Addr{})
		}
		if a.Gateway.IsValid() {
			everywhere := netip.PrefixFrom(netip.IPv6Unspecified(), 0)
			if address.Is4() {
				everywhere = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
			}
			add(everywhere, a.Gateway)
		}
	}
	if granted != nil && len(granted.Granted) > 0 {
		for _, one := range granted.Granted {
			from(one)
		}
		add(granted.Subnet, netip.Addr{})
		add(netip.PrefixFrom(netip.IPv4Unspecified(), 0), granted.Gateway)
	}
	return rules, routes
}
