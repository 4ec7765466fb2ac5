// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
)

// ForManagedNodeGroup returns the variant of a template that an EKS managed node group takes, or why there is none: the
// node group chooses the subnets and the instance profile itself, and refuses more than one interface (Amazon EKS user
// guide, "Customize managed nodes with launch templates"; aws/containers-roadmap#2016).
func ForManagedNodeGroup(t Template) (Document, *Problem) {
	const instead = "; use a self-managed Auto Scaling group for this node template, or let a NodeENI attach the " +
		"other interfaces when the nodes join"
	for _, e := range t.Data.objects(mInterfaces) {
		if e["SubnetId"] != nil {
			return nil, &Problem{PerInterfaceSubnet, "spec.networkInterfaces",
				"an EKS managed node group refuses a launch template that names subnets, and interfaces of this node " +
					"template have subnets of their own" + instead}
		}
	}
	if n := len(t.Interfaces); n > 1 {
		return nil, &Problem{SeveralInterfaces, "spec.networkInterfaces", fmt.Sprintf(
			"an EKS managed node group refuses a launch template with more than one network interface, and this node "+
				"template has %d", n) + instead}
	}
	d := t.Data.Clone()
	delete(d, mProfile)
	return d, nil
}

// The maximum numbers of instance types that consumers take. In a fleet, each subnet of a type counts.
const (
	// MostGroupTypes is for the overrides of a MixedInstancesPolicy (Amazon EC2 Auto Scaling user guide, "Quotas").
	MostGroupTypes = 40
	// MostFleetTypes is for the overrides of all launch templates of a fleet together (EC2 API reference,
	// FleetLaunchTemplateConfigRequest).
	MostFleetTypes = 300
)

// Foremost returns at most that many of the instance types, and those that are left out: types of the newest generation
// are kept first, and of one generation in the order of their names. Types that are not too many keep their order.
func Foremost(types []string, most int) (kept, left []string) {
	if len(types) <= most {
		return types, nil
	}
	ranked := slices.SortedFunc(slices.Values(types), func(a, b string) int {
		return cmp.Or(cmp.Compare(generation(b), generation(a)), cmp.Compare(a, b))
	})
	return ranked[:most], ranked[most:]
}

// generation returns the number in the name of an instance type's family, such as 7 of c7gn.large, or 0 (EC2 user
// guide, "Instance type naming conventions").
func generation(name string) int {
	digits := strings.TrimLeft(name, "abcdefghijklmnopqrstuvwxyz")
	end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' })
	number, _ := strconv.Atoi(digits[:max(end, 0)]) // a name without one has generation 0
	return number
}

// KarpenterInterface is an element of spec.networkInterfaces of Karpenter's EC2NodeClass (v1.11 and later).
type KarpenterInterface struct {
	NetworkCardIndex int    `json:"networkCardIndex"`
	DeviceIndex      int    `json:"deviceIndex"`
	InterfaceType    string `json:"interfaceType"`
}

// ForKarpenter returns the interfaces that an EC2NodeClass can express, and what it cannot: NodeENIs add that at run
// time.
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
		if i.ENAExpress.IsOn() {
			lose(i, "ENA Express")
		}
		if !i.ConnectionTracking.IsZero() {
			lose(i, "connection tracking per interface (its spec.connectionTracking is for all interfaces)")
		}
	}
	if subnets {
		lost = append(lost, Problem{PerInterfaceSubnet, "spec.networkInterfaces",
			"Karpenter's EC2NodeClass puts all interfaces of an instance in one subnet, and interfaces of this node " +
				"template have subnets of their own; declare NodeENIs for them"})
	}
	return interfaces, lost
}
