// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
)

// Object is a NetworkInterface object, as far as its NodeENI and its Node concern it.
type Object struct {
	// Name and UID are those of the object.
	Name, UID string
	Spec      Spec
	// Deleting is set if the object has a deletionTimestamp.
	Deleting bool
	// ENIID, SubnetID and Slot are the interface in EC2, as far as there is one. Slot is nil without an attachment.
	ENIID, SubnetID string
	Slot            *eni.Slot
	// Launched is set if the interface came with its instance.
	Launched bool
	// Held is set while pods, a program or a CNI plugin may use the interface.
	Held bool
	// Drift is what the object says about its differences from the declaration.
	Drift []plan.Drift
}

// isDeclared reports whether a NodeENI declares the object, or declared it.
func (o Object) isDeclared() bool { return o.Spec.Origin == OriginDeclared }

// OwnSubnet returns the subnet of the interface as the spec has it; zero if the spec lacks it.
func (o Object) OwnSubnet() Subnet {
	at := slices.IndexFunc(o.Spec.Subnets, func(s Subnet) bool { return s.ID == o.SubnetID })
	if at < 0 {
		return Subnet{}
	}
	return o.Spec.Subnets[at]
}

// Origin says why an object exists.
type Origin string

const (
	// OriginDeclared objects are those that a NodeENI declares.
	OriginDeclared Origin = "Declared"
	// OriginNetwork objects are for interfaces that a lifecycle hook or the boot of the instance made, and that no NodeENI
	// declares.
	OriginNetwork Origin = "Network"
)

// Spec is the spec of an object.
type Spec struct {
	InstanceID, Zone string
	Ordinal          int
	Origin           Origin
	NodeName         string
	NodeENI          Reference
	// Revision is that of the NodeENI and its matches in the zone; see [NodeENI.Revision].
	Revision string
	// Subnets are the subnets that the interface may be in, the preferred one first.
	Subnets []Subnet
	// Problem is the reason why the interface cannot be created at present.
	Problem   *plan.Problem
	Slot      eni.Slot
	ExactSlot bool
	Template
}

// Reference names the NodeENI of an object, and the generation of it that the object was rendered from.
type Reference struct {
	Name, UID  string
	Generation int64
}

// Subnet is a subnet that an interface may be in, with its ranges.
type Subnet struct{ ID, CIDR, IPv6CIDR string }

// Template is what a NodeENI declares for each of its interfaces, wherever they are.
type Template struct {
	InterfaceType string
	// EC2 is what EC2 knows of the interface. A NodeENI has no groups here before its selectors are resolved.
	EC2 eni.Spec
	// Required says whether the node is unready without the interface.
	Required bool
	Link     *Link
	DPDK     *DPDK
	Pods     *Pods
}

// Link has the settings of a link on the node.
type Link struct {
	MTU         int
	AddressMode string
	Sysctls     map[string]int
}

// DPDK has the settings of a device for programs in user space.
type DPDK struct{ Driver, ResourceName, PCIAddress string }

// Pods has the settings of a network for pods.
type Pods struct {
	Attachment string
	// Closed says that no further pod may attach.
	Closed    bool
	OnRemoval string
	// IPv4 has the numbers of /28 prefixes; nil without IPv4.
	IPv4         *PodPrefixes
	IPv6Prefixes int
	Routes       []string
	// Floating are the ranges in which addresses follow pods. Those of a NodeENI are for all of its subnets.
	Floating []string
}

// PodPrefixes are the numbers of prefixes of an interface, and of free addresses below which a node asks for more.
type PodPrefixes struct{ Min, Max, Spare int }
