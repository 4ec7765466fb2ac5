// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"net/netip"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/hostpci"
)

// DesiredLinks returns the desired links of a node, and the devices for programs in user space: those of the interfaces
// that EC2 attached or is attaching. The agent restores the link or device of an interface that is being detached
// before EC2 removes it. Without a state there are none.
func DesiredLinks(state *v1alpha1.NodeENIState, defaultMTU int) (links []hostnet.Link, devices []hostpci.Device) {
	if state == nil {
		return nil, nil
	}
	for _, i := range state.Status.Interfaces {
		if i.MACAddress == "" || removing(i) {
			continue
		}
		link := hostnet.Link{
			Name: linkName(i), MAC: i.MACAddress, Slot: eni.Slot{Card: int(i.NetworkCardIndex), Device: int(i.DeviceIndex)},
			MTU: defaultMTU, Mode: hostnet.None, Assigned: assigned(i), Settings: settings(i),
		}
		if i.MTU > 0 {
			link.MTU = int(i.MTU)
		}
		if i.AddressMode == v1alpha1.AddressPrimary {
			link.Mode, link.Addresses = hostnet.Primary, hostAddresses(i)
			link.Subnet, _ = netip.ParsePrefix(i.SubnetCIDR)
		}
		if known := linkState(state, i.MACAddress); known != nil {
			link.Device = known.PCIAddress
		}
		if i.DPDKDriver != "" {
			devices = append(devices, hostpci.Device{Link: link, Driver: string(i.DPDKDriver), Expected: i.DPDKPCIAddress})
			continue
		}
		links = append(links, link)
	}
	return links, devices
}

// records returns the devices that the agent last reported as bound, or about to be bound.
func records(state *v1alpha1.NodeENIState) []hostpci.OriginalBinding {
	if state == nil {
		return nil
	}
	var all []hostpci.OriginalBinding
	for _, link := range state.Status.Links {
		if link.State == v1alpha1.LinkBinding || link.State == v1alpha1.LinkBound {
			all = append(all, hostpci.OriginalBinding{Name: link.NodeENI, MAC: link.MACAddress, Address: link.PCIAddress})
		}
	}
	return all
}

func removing(i v1alpha1.InterfaceState) bool {
	return i.Phase == v1alpha1.PhaseDetaching || i.Phase == v1alpha1.PhaseDeleting
}

// linkName returns the name of the link on every node: the name of its NodeENI and, from the second interface on, an
// underscore and the ordinal. No Kubernetes name has an underscore.
func linkName(i v1alpha1.InterfaceState) string {
	if i.Ordinal == 0 {
		return i.NodeENI
	}
	return fmt.Sprintf("%s_%d", i.NodeENI, i.Ordinal)
}

func linkState(state *v1alpha1.NodeENIState, mac string) *v1alpha1.LinkState {
	for n := range state.Status.Links {
		if state.Status.Links[n].MACAddress == mac {
			return &state.Status.Links[n]
		}
	}
	return nil
}

// hostAddresses returns the addresses that the host uses in mode Primary.
func hostAddresses(i v1alpha1.InterfaceState) []netip.Addr {
	var addresses []netip.Addr
	for _, text := range append([]string{i.PrivateIP}, i.IPv6Addresses...) {
		if address, err := netip.ParseAddr(text); err == nil {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// assigned returns all addresses and prefixes of the interface in EC2.
func assigned(i v1alpha1.InterfaceState) []netip.Prefix {
	var prefixes []netip.Prefix
	for _, texts := range [][]string{{i.PrivateIP}, i.SecondaryPrivateIPs, i.IPv6Addresses} {
		for _, text := range texts {
			if address, err := netip.ParseAddr(text); err == nil {
				prefixes = append(prefixes, netip.PrefixFrom(address, address.BitLen()))
			}
		}
	}
	for _, texts := range [][]string{i.IPv4Prefixes, i.IPv6Prefixes} {
		for _, text := range texts {
			if prefix, err := netip.ParsePrefix(text); err == nil {
				prefixes = append(prefixes, prefix)
			}
		}
	}
	return prefixes
}

func settings(i v1alpha1.InterfaceState) map[hostnet.Setting]int {
	settings := map[hostnet.Setting]int{}
	for name, value := range i.Sysctls {
		settings[hostnet.Setting(name)] = int(value)
	}
	return settings
}

// problem is why pods cannot use an interface: one CamelCase word, and a message for people.
type problem struct{ Reason, Message string }

// problemOf returns why pods cannot use an interface, or nil.
func problemOf(i v1alpha1.InterfaceState, observed []hostnet.Observation) *problem {
	if i.Phase != v1alpha1.PhaseAttached {
		message := fmt.Sprintf("the interface of NodeENI %s is %s", i.NodeENI, i.Phase)
		if i.Message != "" {
			message += ": " + i.Message
		}
		return &problem{"Interface" + string(i.Phase), message}
	}
	for _, o := range observed {
		if o.Link.MAC != i.MACAddress {
			continue
		}
		if o.State.Usable() {
			return nil
		}
		return &problem{o.Reason,
			fmt.Sprintf("the link of NodeENI %s (%s) is %s: %s", i.NodeENI, i.ENIID, o.State, o.Message)}
	}
	return &problem{hostnet.ReasonNotFound,
		fmt.Sprintf("the link of NodeENI %s (%s) has not been observed yet", i.NodeENI, i.ENIID)}
}
