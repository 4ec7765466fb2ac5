// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/hostpci"
	"github.com/multieni/multieni/internal/core/netattach"
	"github.com/multieni/multieni/internal/core/podnet"
)

// DesiredLinks returns the desired links of the objects, and the devices for programs in user space. The agent restores
// the link of an object that is being deleted once nothing holds the interface, and the device at once.
func DesiredLinks(objects []*v1alpha1.NetworkInterface, defaultMTU int) (
	links []hostnet.Link, devices []hostpci.Device,
) {
	for _, n := range objects {
		if n.Status.MACAddress == "" || !wantsLink(n) {
			continue
		}
		link := hostnet.Link{
			Name: networkOf(n).LinkName(), MAC: n.Status.MACAddress, Slot: slotOf(n), MTU: mtuOf(n, defaultMTU),
			Mode: hostnet.None, Assigned: assigned(n.Status.Addresses), Settings: map[hostnet.Setting]int{},
		}
		if l := n.Spec.Link; l != nil {
			for name, value := range l.Sysctls {
				link.Settings[hostnet.Setting(name)] = int(value)
			}
			if l.AddressMode == v1alpha1.AddressPrimary {
				link.Mode, link.Addresses = hostnet.Primary, hostAddresses(n.Status.Addresses)
				link.Subnet, _ = subnetOf(n)
			}
		}
		if known := linkReport(n); known != nil {
			link.Device = known.PCIAddress
		}
		if driver := driverOf(n); driver != "" {
			devices = append(devices, hostpci.Device{Link: link, Driver: driver, Expected: n.Spec.DPDK.PCIAddress})
			continue
		}
		links = append(links, link)
	}
	return links, devices
}

// wantsLink reports whether the agent configures the link of an object, or binds its device.
func wantsLink(n *v1alpha1.NetworkInterface) bool {
	return n.DeletionTimestamp.IsZero() || driverOf(n) == "" && n.Status.Node != nil && n.Status.Node.Open
}

// driverOf returns the driver for programs in user space; "" for none.
func driverOf(n *v1alpha1.NetworkInterface) string {
	if n.Spec.DPDK == nil {
		return ""
	}
	return string(n.Spec.DPDK.Driver)
}

func linkReport(n *v1alpha1.NetworkInterface) *v1alpha1.LinkReport {
	if n.Status.Node == nil {
		return nil
	}
	return n.Status.Node.Link
}

func slotOf(n *v1alpha1.NetworkInterface) eni.Slot {
	slot := n.Spec.Slot
	if n.Status.Slot != nil {
		slot = *n.Status.Slot
	}
	return eni.Slot{Card: int(slot.NetworkCardIndex), Device: int(slot.DeviceIndex)}
}

func mtuOf(n *v1alpha1.NetworkInterface, defaultMTU int) int {
	if n.Spec.Link != nil && n.Spec.Link.MTU > 0 {
		return int(n.Spec.Link.MTU)
	}
	return defaultMTU
}

// subnetOf returns the ranges of the subnet of an interface; zero where they are not known.
func subnetOf(n *v1alpha1.NetworkInterface) (ipv4, ipv6 netip.Prefix) {
	for _, subnet := range n.Spec.Subnets {
		if subnet.ID == n.Status.SubnetID {
			ipv4, _ = netip.ParsePrefix(subnet.CIDR)
			ipv6, _ = netip.ParsePrefix(subnet.IPv6CIDR)
		}
	}
	return ipv4, ipv6
}

// networkOf returns the names of an interface on the node: those of its pod network and of its link.
func networkOf(n *v1alpha1.NetworkInterface) netattach.Network {
	return netattach.Network{NodeENI: n.Spec.NodeENI.Name, Ordinal: int(n.Spec.Ordinal)}
}

// hostAddresses returns the addresses that the host uses in mode Primary.
func hostAddresses(of v1alpha1.InterfaceAddresses) []netip.Addr {
	var addresses []netip.Addr
	for _, text := range append([]string{of.PrivateIP}, of.IPv6Addresses...) {
		if address, err := netip.ParseAddr(text); err == nil {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// assigned returns all addresses and prefixes of the interface in EC2.
func assigned(of v1alpha1.InterfaceAddresses) []netip.Prefix {
	var all []netip.Prefix
	for _, texts := range [][]string{{of.PrivateIP}, of.SecondaryPrivateIPs, of.IPv6Addresses} {
		for _, text := range texts {
			if address, err := netip.ParseAddr(text); err == nil {
				all = append(all, netip.PrefixFrom(address, address.BitLen()))
			}
		}
	}
	return append(all, ranges(slices.Concat(of.IPv4Prefixes, of.IPv6Prefixes))...)
}

// ranges parses ranges of addresses, without invalid ones.
func ranges(texts []string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		if one, err := netip.ParsePrefix(text); err == nil {
			all = append(all, one)
		}
	}
	return all
}

// floating returns the ranges of addresses that pods bring up themselves.
func floating(n *v1alpha1.NetworkInterface) []netip.Prefix {
	if n == nil || n.Spec.Pods == nil {
		return nil
	}
	return ranges(n.Spec.Pods.Floating)
}

// isObserved reports whether another IPAM plugin gives the pods of an interface their addresses.
func isObserved(n *v1alpha1.NetworkInterface) bool {
	return n.Spec.Pods != nil && n.Spec.Pods.Attachment == v1alpha1.PodAttachmentObserved
}

// object returns an object as far as it is about the use of its ENI.
func objectOf(n *v1alpha1.NetworkInterface) *podnet.Object {
	o := &podnet.Object{UID: string(n.UID), Deleting: !n.DeletionTimestamp.IsZero(),
		TakenOver: n.Status.Evidence != v1alpha1.EvidenceCreated}
	switch pods := n.Spec.Pods; {
	case driverOf(n) != "":
		o.Purpose = podnet.ForProgram
	case pods != nil && isObserved(n):
		o.Purpose = podnet.ForObserved
	case pods != nil:
		o.Purpose, o.Closed = podnet.ForPods, pods.Closed
	}
	if n.Spec.Pods != nil {
		o.Closed = n.Spec.Pods.Closed
	}
	if report := n.Status.Node; report != nil {
		o.Answered, o.Open = true, report.Open
		o.Agent = podnet.Process{Boot: report.Agent.BootID, ID: report.Agent.ProcessID}
	}
	return o
}

// router6 is the link-local address of the router in every subnet of a VPC (VPC user guide, "Subnet sizing").
var router6 = netip.MustParseAddr("fe80:ec2::1")

// Network returns the pod network of an interface, with the usable prefixes of this version. The argument unknown names
// the declared family for which the subnet has no known range; "" for none.
func Network(n *v1alpha1.NetworkInterface, node string, defaultMTU int) (network podnet.Network, unknown string) {
	named := networkOf(n)
	network = podnet.Network{
		Name: named.Name(), NodeENI: n.Spec.NodeENI.Name, Node: node, Link: hostnet.AltName(named.LinkName()),
		ENI: n.Status.ENIID, MAC: n.Status.MACAddress, MTU: mtuOf(n, defaultMTU),
	}
	pods := n.Spec.Pods
	if pods == nil {
		return network, ""
	}
	network.Attachment = podnet.Attachment(pods.Attachment)
	ipv4, ipv6 := subnetOf(n)
	usable := ranges(n.UsablePrefixes())
	observed := network.Attachment == podnet.Observed
	wants4, wants6 := families(n)
	if ipv4.IsValid() && (wants4 || observed) {
		// The router of a subnet has its second address (VPC user guide, "Subnet sizing").
		network.IPv4 = &podnet.Family{Subnet: ipv4, Gateway: ipv4.Addr().Next()}
		if pods.IPv4 != nil && !observed {
			network.IPv4.MaxPrefixes, network.IPv4.Prefixes = int(pods.IPv4.Max), within(ipv4, usable)
		}
	}
	if ipv6.IsValid() && (wants6 || observed) {
		network.IPv6 = &podnet.Family{Subnet: ipv6, Gateway: router6}
		if !observed {
			network.IPv6.MaxPrefixes, network.IPv6.Prefixes = int(pods.IPv6Prefixes), within(ipv6, usable)
		}
	}
	network.Addresses = ownAddresses(n.Status.Addresses, network)
	network.IPv4.Grant(floating(n))
	network.Routes = ranges(pods.Routes)
	return network, lacks(network, wants4, wants6)
}

// families reports the families from which a pod must get an address: from a prefix or, with HostDevice, the
// interface's own.
func families(n *v1alpha1.NetworkInterface) (wants4, wants6 bool) {
	of, pods := n.Status.Addresses, n.Spec.Pods
	wants4 = pods.IPv4 != nil || takesLink(n) && of.PrivateIP != ""
	wants6 = pods.IPv6Prefixes > 0 || takesLink(n) && of.PrivateIP == "" && len(of.IPv6Addresses) > 0
	return wants4, wants6
}

// lacks returns the wanted family that a network lacks; "" for none.
func lacks(network podnet.Network, wants4, wants6 bool) string {
	switch {
	case network.Attachment == podnet.Observed:
	case wants4 && network.IPv4 == nil:
		return "IPv4"
	case wants6 && network.IPv6 == nil:
		return "IPv6"
	}
	return ""
}

// within returns the prefixes in a subnet.
func within(subnet netip.Prefix, all []netip.Prefix) []netip.Prefix {
	var inside []netip.Prefix
	for _, p := range all {
		if subnet.Bits() <= p.Bits() && subnet.Contains(p.Addr()) {
			inside = append(inside, p)
		}
	}
	return inside
}

// ownAddresses returns the address that a pod gets together with the interface: the primary one or, in a subnet with
// IPv6 alone, the first. EC2 can unassign any other while a pod starts, without the node's knowledge.
func ownAddresses(of v1alpha1.InterfaceAddresses, network podnet.Network) []netip.Addr {
	if network.Attachment != podnet.HostDevice {
		return nil
	}
	for _, text := range slices.Concat([]string{of.PrivateIP}, of.IPv6Addresses) {
		if address, err := netip.ParseAddr(text); err == nil && network.Covers(address) {
			return []netip.Addr{address}
		}
	}
	return nil
}

// demandOf returns the demand for IPv4 prefixes.
func demandOf(n *v1alpha1.NetworkInterface) podnet.Demand {
	ipv4 := n.Spec.Pods.IPv4
	if ipv4 == nil {
		return podnet.Demand{}
	}
	return podnet.Demand{Min: int(ipv4.Min), Max: int(ipv4.Max), Spare: int(ipv4.Spare)}
}

// problem is why pods cannot use an interface: one CamelCase word, and a message for people.
type problem struct{ Reason, Message string }

// linkUse returns what the link of an interface, or its device, is good for, and why not for more. A pod with
// attachment HostDevice takes the link before it gets an address, so a missing link closes nothing.
func linkUse(n *v1alpha1.NetworkInterface, observed []hostnet.Observation) (podnet.LinkUse, *problem) {
	o := observationOf(n, observed)
	if o == nil {
		return podnet.LinkUnsettled, &problem{hostnet.ReasonNotFound,
			fmt.Sprintf("the link of NodeENI %s (%s) has not been observed yet", n.Spec.NodeENI.Name, n.Status.ENIID)}
	}
	why := &problem{o.Reason, fmt.Sprintf("the link of NodeENI %s (%s) is %s: %s", n.Spec.NodeENI.Name, n.Status.ENIID,
		o.State, o.Message)}
	switch {
	case o.State.Usable(), o.State == hostnet.Binding && driverOf(n) != "":
		return podnet.LinkUsable, nil
	case o.State == hostnet.Missing && !takesLink(n), o.State == hostnet.Refused:
		return podnet.LinkLost, why
	default:
		return podnet.LinkUnsettled, why
	}
}

// takesLink reports whether pods take the link of an interface.
func takesLink(n *v1alpha1.NetworkInterface) bool {
	return n.Spec.Pods != nil && n.Spec.Pods.Attachment == v1alpha1.PodAttachmentHostDevice
}

// observationOf returns the observation of an interface; nil if there is none. Those of devices come after those of
// links, and count: a device that is given back has no link yet, and its report is what records it.
func observationOf(n *v1alpha1.NetworkInterface, observed []hostnet.Observation) *hostnet.Observation {
	for at := range slices.Backward(observed) {
		if n.Status.MACAddress != "" && observed[at].Link.MAC == n.Status.MACAddress {
			return &observed[at]
		}
	}
	return nil
}

// records returns the devices that the agent has reported as bound, or about to be, and those of its checkpoint. A
// device without an object stays as it is.
func records(objects []*v1alpha1.NetworkInterface, saved []podnet.Saved) []hostpci.OriginalBinding {
	var all []hostpci.OriginalBinding
	for _, n := range objects {
		if address := recordedDevice(n, saved); address != "" && n.Status.MACAddress != "" {
			all = append(all, hostpci.OriginalBinding{Name: networkOf(n).LinkName(), MAC: n.Status.MACAddress, Address: address})
		}
	}
	return all
}

// recordedDevice returns the bus address of a device that was bound, or about to be; "" for none.
func recordedDevice(n *v1alpha1.NetworkInterface, saved []podnet.Saved) string {
	for _, s := range saved {
		if s.ENI == n.Status.ENIID && s.ENI != "" && s.Device != "" {
			return s.Device
		}
	}
	if l := linkReport(n); l != nil && (l.State == v1alpha1.LinkBinding || l.State == v1alpha1.LinkBound) {
		return l.PCIAddress
	}
	return ""
}
