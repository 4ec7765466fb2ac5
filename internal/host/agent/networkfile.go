// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net/netip"
	"slices"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/podnet"
)

// router6 is the link-local address of the router in every subnet of a VPC (VPC user guide, "Subnet sizing").
var router6 = netip.MustParseAddr("fe80:ec2::1")

// PodNetwork returns the pod network of an interface, without marks.
func PodNetwork(i v1alpha1.InterfaceState, node string, defaultMTU int) podnet.Network {
	named := networkOf(i)
	network := podnet.Network{
		Name: named.Name(), NodeENI: i.NodeENI, Node: node, Link: hostnet.AltName(named.LinkName()),
		ENI: i.ENIID, MAC: i.MACAddress, MTU: defaultMTU, Attachment: podnet.Attachment(i.Pods.Attachment),
	}
	if i.MTU > 0 {
		network.MTU = int(i.MTU)
	}
	if subnet, err := netip.ParsePrefix(i.SubnetCIDR); err == nil && declaresIPv4(i) {
		// The router of a subnet has its second address (VPC user guide, "Subnet sizing").
		network.IPv4 = &podnet.Family{Subnet: subnet, Gateway: subnet.Addr().Next(), MaxPrefixes: int(i.Pods.IPv4MaxPrefixes),
			Prefixes: prefixes(i.IPv4Prefixes)}
	}
	if subnet, err := netip.ParsePrefix(i.Pods.SubnetIPv6CIDR); err == nil && declaresIPv6(i) {
		network.IPv6 = &podnet.Family{Subnet: subnet, Gateway: router6, MaxPrefixes: int(i.Pods.IPv6Prefixes),
			Prefixes: prefixes(i.IPv6Prefixes)}
	}
	if network.Attachment == podnet.Observed {
		withoutPrefixes(&network, i)
	}
	network.Addresses = ownAddresses(i, network)
	network.IPv4.Grant(floating(i.Pods))
	for _, to := range i.Pods.Routes {
		if route, err := netip.ParsePrefix(to); err == nil {
			network.Routes = append(network.Routes, route)
		}
	}
	return network
}

// withoutPrefixes sets the families of a network whose addresses another IPAM plugin gives. The plugin for routes needs
// their gateways. Their prefixes are the user's, who may return them to EC2.
func withoutPrefixes(network *podnet.Network, i v1alpha1.InterfaceState) {
	network.IPv4, network.IPv6 = nil, nil
	if subnet, err := netip.ParsePrefix(i.SubnetCIDR); err == nil {
		network.IPv4 = &podnet.Family{Subnet: subnet, Gateway: subnet.Addr().Next()}
	}
	if subnet, err := netip.ParsePrefix(i.Pods.SubnetIPv6CIDR); err == nil {
		network.IPv6 = &podnet.Family{Subnet: subnet, Gateway: router6}
	}
}

// declaresIPv4 reports whether a pod on the interface must get an IPv4 address: from a prefix or, with HostDevice, the
// interface's own. declaresIPv6 is the same for IPv6.
func declaresIPv4(i v1alpha1.InterfaceState) bool {
	return i.Pods.IPv4Prefixes > 0 || i.Pods.Attachment == v1alpha1.PodAttachmentHostDevice && i.PrivateIP != ""
}

func declaresIPv6(i v1alpha1.InterfaceState) bool {
	isOwn := i.Pods.Attachment == v1alpha1.PodAttachmentHostDevice && i.PrivateIP == "" && len(i.IPv6Addresses) > 0
	return i.Pods.IPv6Prefixes > 0 || isOwn
}

// ownAddresses returns the address that a pod gets together with the interface: the primary one or, in a subnet with
// IPv6 alone, the first. EC2 can unassign any other while a pod starts, without the node's knowledge.
func ownAddresses(i v1alpha1.InterfaceState, network podnet.Network) []netip.Addr {
	if network.Attachment != podnet.HostDevice {
		return nil
	}
	for _, text := range slices.Concat([]string{i.PrivateIP}, i.IPv6Addresses) {
		if address, err := netip.ParseAddr(text); err == nil && network.Covers(address) {
			return []netip.Addr{address}
		}
	}
	return nil
}

// keepRanges completes a network whose state does not have the range of a declared family: the interface never leaves
// its subnet, so the range in the file is still right. It returns the family whose range stays unknown, or "".
func keepRanges(network *podnet.Network, i v1alpha1.InterfaceState, before podnet.Network) (unknown string) {
	if before.ENI != i.ENIID {
		before = podnet.Network{}
	}
	if network.IPv6 == nil && declaresIPv6(i) {
		if unknown = "IPv6"; before.IPv6 != nil {
			unknown = ""
			network.IPv6 = &podnet.Family{Subnet: before.IPv6.Subnet, Gateway: before.IPv6.Gateway,
				MaxPrefixes: int(i.Pods.IPv6Prefixes), Prefixes: prefixes(i.IPv6Prefixes)}
		}
	}
	if network.IPv4 == nil && declaresIPv4(i) {
		if before.IPv4 == nil {
			return "IPv4"
		}
		network.IPv4 = &podnet.Family{Subnet: before.IPv4.Subnet, Gateway: before.IPv4.Gateway,
			MaxPrefixes: int(i.Pods.IPv4MaxPrefixes), Prefixes: prefixes(i.IPv4Prefixes)}
	}
	network.Addresses = ownAddresses(i, *network)
	network.IPv4.Grant(floating(i.Pods))
	return unknown
}

func prefixes(texts []string) []podnet.Prefix {
	var all []podnet.Prefix
	for _, text := range texts {
		if cidr, err := netip.ParsePrefix(text); err == nil {
			all = append(all, podnet.Prefix{CIDR: cidr})
		}
	}
	return all
}
