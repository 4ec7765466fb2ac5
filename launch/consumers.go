// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"

	"github.com/multieni/multieni/eni"
)

// ForManagedNodeGroup returns the variant of a template that an EKS managed node group takes, or why there is none: the
// node group chooses the subnets and the instance profile itself, and refuses more than one interface (Amazon EKS user
// guide, "Customize managed nodes with launch templates"; aws/containers-roadmap#2016).
func ForManagedNodeGroup(t Template) (Document, *Problem) {
	const instead = "; use a self-managed Auto Scaling group for this node template, or let a NodeENI attach the other interfaces when the nodes join"
	for _, e := range t.Data.objects(mInterfaces) {
		if e["SubnetId"] != nil {
			return nil, &Problem{PerInterfaceSubnet, "spec.networkInterfaces",
				"an EKS managed node group refuses a launch template that names subnets, and interfaces of this node template have subnets of their own" + instead}
		}
	}
	if n := len(t.Interfaces); n > 1 {
		return nil, &Problem{SeveralInterfaces, "spec.networkInterfaces", fmt.Sprintf(
			"an EKS managed node group refuses a launch template with more than one network interface, and this node template has %d", n) + instead}
	}
	d := t.Data.Clone()
	delete(d, mProfile)
	return d, nil
}

// KarpenterInterface is an element of spec.networkInterfaces of Karpenter's EC2NodeClass (v1.11 and later).
type KarpenterInterface struct {
	NetworkCardIndex int    `json:"networkCardIndex"`
	DeviceIndex      int    `json:"deviceIndex"`
	InterfaceType    string `json:"interfaceType"`
}

// ForKarpenter returns what an EC2NodeClass can say of the interfaces, and what it cannot: that is left to the run-time
// path.
func ForKarpenter(t Template) (interfaces []KarpenterInterface, lost []Problem) {
	lose := func(i Interface, what string) {
		lost = append(lost, Problem{InvalidInterface, "spec.networkInterfaces", fmt.Sprintf(
			"%s: Karpenter's EC2NodeClass has no %s; declare a NodeENI for it", i, what)})
	}
	subnets := false
	for _, e := range t.Data.objects(mInterfaces) {
		subnets = subnets || e["SubnetId"] != nil
	}
	for _, i := range t.Interfaces {
		kind := i.kind()
		if kind == eni.EFA {
			lose(i, "interfaceType efa: it becomes efa-only, or interface at the primary slot")
			if kind = eni.EFAOnly; i.Slot == eni.Primary {
				kind = eni.Standard
			}
		}
		interfaces = append(interfaces, KarpenterInterface{i.Slot.Card, i.Slot.Device, string(kind)})
		if i.Description != "" {
			lose(i, "description")
		}
		if i.Slot != eni.Primary && i.Management != CNI && i.TakesIP() {
			lose(i, "way to keep the VPC CNI from taking it over")
		}
		if i.IPv4Prefixes+i.IPv6Prefixes > 0 {
			lose(i, "prefix count per interface")
		}
	}
	if subnets {
		lost = append(lost, Problem{PerInterfaceSubnet, "spec.networkInterfaces",
			"Karpenter's EC2NodeClass puts all interfaces of an instance in one subnet, and interfaces of this node template have subnets of their own; declare NodeENIs for them"})
	}
	return interfaces, lost
}
