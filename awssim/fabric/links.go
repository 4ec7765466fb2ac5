// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"net/netip"
	"slices"

	"github.com/multieni/multieni/awssim/ec2"
)

// link is an attached interface as its VPC sees it.
type link struct {
	id   string // of the interface
	mac  string
	node Node
	// name is the name of the link in the node's namespace. In the VPC's namespace the name is that of peer.
	name string
	// subnet is its ID, router the first address of its IPv4 range; invalid if it has none.
	subnet string
	router netip.Addr
	// addresses are all addresses for which the interface receives packets.
	addresses []netip.Prefix
	// checked says whether the interface sends from them alone.
	checked bool
}

// peer returns the name of the VPC's end: the interface's ID, cut to the length of a link's name.
func (l link) peer() string { return l.id[max(0, len(l.id)-15):] }

// linksByVPC returns the links of the nodes, by VPC.
func linksByVPC(state ec2.State, nodes map[string]Node) map[string][]link {
	routers := map[string]netip.Addr{}
	for _, subnet := range state.Subnets {
		if subnet.CIDRBlock.IsValid() {
			routers[subnet.SubnetID] = subnet.CIDRBlock.Masked().Addr().Next()
		}
	}
	links := map[string][]link{}
	for _, i := range state.NetworkInterfaces {
		if i.Attachment == nil || i.Attachment.Status != ec2.Attached {
			continue
		}
		node, known := nodes[i.Attachment.InstanceID]
		if !known || node.linkName(i.Attachment) == "" {
			continue
		}
		links[i.VPCID] = append(links[i.VPCID], link{
			id: i.NetworkInterfaceID, mac: i.MACAddress, node: node, name: node.linkName(i.Attachment),
			subnet: i.SubnetID, router: routers[i.SubnetID], addresses: addresses(i), checked: i.SourceDestCheck,
		})
	}
	return links
}

// addresses returns all addresses of an interface, as prefixes of full length, and its delegated prefixes.
func addresses(i *ec2.NetworkInterface) []netip.Prefix {
	var all []netip.Prefix
	for _, a := range i.PrivateIPAddresses {
		all = append(all, whole(a.PrivateIPAddress))
	}
	for _, a := range i.IPv6Addresses {
		all = append(all, whole(a.IPv6Address))
	}
	for _, p := range i.IPv4Prefixes {
		all = append(all, p.IPv4Prefix)
	}
	for _, p := range i.IPv6Prefixes {
		all = append(all, p.IPv6Prefix)
	}
	return slices.Compact(slices.SortedFunc(slices.Values(all), netip.Prefix.Compare))
}

// whole returns the prefix of a single address.
func whole(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
