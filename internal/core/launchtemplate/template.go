// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/userdata"
)

// NodeTemplate is a declared node template. Fields that are not set are left to EC2, or to the defaults of [Render].
type NodeTemplate struct {
	// Name is the node template's, and UID distinguishes it from a predecessor of that name; Cluster is as in ownership
	// tags.
	Name, UID, Cluster string

	// Network has the matches of the template's own selectors. Interfaces without selectors use it.
	Network Network
	// Interfaces are the declared interfaces, in any order. Without any, an instance gets its primary interface.
	Interfaces []Interface
	Layout     Layout

	Image Image
	// UserData is plain text.
	UserData        string
	Bootstrap       userdata.Cluster
	InstanceProfile string
	Monitoring      *bool
	Metadata        *MetadataOptions
	BlockDevices    []BlockDevice
	Tags            map[string]string

	Types TypeFilter
	// Source is a launch template of another program. Override overrides all other layers.
	Source   *Source
	Override Document
	// Named are the subnets that Source and Override name by ID, as EC2 knows them.
	Named []eni.Subnet
	// Groups are security groups as EC2 knows them. The rules of a group that is not among them are not known.
	Groups []eni.SecurityGroup
	// RejectConflicts makes it an error if one layer hides a value of another one; else that is a warning.
	RejectConflicts bool
}

// Network has the possible subnets and the security groups of an interface.
type Network struct {
	// Subnets are the possible subnets, in any zone; Groups are security group IDs.
	Subnets []eni.Subnet
	Groups  []string
}

// Interface is one declared interface.
type Interface struct {
	// Name is for users, and for the label with which pods select nodes. It may be empty.
	Name string
	Slot eni.Slot
	Type eni.Type
	// Description is EC2's.
	Description         string
	DeleteOnTermination bool
	// PublicIP and CarrierIP associate a public or carrier address with the primary address; nil leaves it to the subnet.
	PublicIP, CarrierIP        *bool
	IPv4Prefixes, IPv6Prefixes int
	// ConnectionTracking and ENAExpress leave to EC2 what they do not set.
	ConnectionTracking eni.ConnectionTracking
	ENAExpress         eni.ENAExpress
	Management         Management
	// Subnets and Groups are the interface's own. nil means that the interface uses those of the template. An empty
	// slice means that the interface has selectors that match nothing.
	Subnets []eni.Subnet
	Groups  []string
}

// Management says which program uses an interface.
type Management string

const (
	// Unmanaged interfaces have the tag that makes the VPC CNI ignore them.
	Unmanaged Management = "Unmanaged"
	// CNI leaves the interface to the VPC CNI, which uses its addresses for pods.
	CNI Management = "CNI"
)

// String returns how messages name the interface.
func (i Interface) String() string {
	if i.Name != "" {
		return fmt.Sprintf("interface %q (%s)", i.Name, i.Slot)
	}
	return "the interface at " + i.Slot.String()
}

// TakesIP reports whether the interface has IP addresses.
func (i Interface) TakesIP() bool { return i.Type != eni.EFAOnly }

// IsEFA reports whether the interface is an Elastic Fabric Adapter.
func (i Interface) IsEFA() bool { return i.Type == eni.EFA || i.Type == eni.EFAOnly }

// unmanaged reports whether the VPC CNI does not use the interface. The CNI ignores the tag on the primary one.
func (i Interface) unmanaged() bool {
	return i.Slot != eni.Primary && (i.Management != CNI || !i.TakesIP())
}

// addresses returns the number of addresses of its subnet that an interface takes at launch: the primary one, and 16
// per /28 prefix.
func (i Interface) addresses() int {
	if !i.TakesIP() {
		return 0
	}
	return 1 + 16*i.IPv4Prefixes
}

// MetadataOptions are the options of instance metadata, with EC2's values; empty members are left out.
type MetadataOptions struct {
	HTTPEndpoint, HTTPTokens, HTTPProtocolIPv6 string
	HopLimit                                   int
}

// BlockDevice is one block device mapping.
type BlockDevice struct {
	DeviceName string
	EBS        *EBS
}

// EBS is a volume. Sizes are in GiB, throughput in MiB/s.
type EBS struct {
	DeleteOnTermination, Encrypted   *bool
	SizeGiB, IOPS, Throughput        int
	VolumeType, KMSKeyID, SnapshotID string
}

// TypeFilter narrows the instance types by patterns such as "m5.*"; an empty Include means all types.
type TypeFilter struct {
	Include, Exclude []string
}

// Source is a version of a launch template that another program maintains.
type Source struct {
	ID, Name string
	// Version is the requested version: a number, $Latest or $Default. Resolved is its number.
	Version  string
	Resolved int64
	// Autofill allows multieni to set what the source leaves open; otherwise it uses the source unchanged.
	Autofill bool
	Data     Document
}

// bySlot returns the interfaces in the order of their slots.
func bySlot(interfaces []Interface) []Interface {
	return slices.SortedStableFunc(slices.Values(interfaces), func(a, b Interface) int {
		return eni.CompareSlots(a.Slot, b.Slot)
	})
}

// Problem is a reason why a node template is not rendered, or a warning about it.
type Problem struct {
	Reason Reason
	// Path is the field of the node template with the problem, for example "spec.networkInterfaces[1].interfaceType".
	Path string
	// Message is for users: the object, the cause and the next step.
	Message string
}

// Error implements error.
func (p Problem) Error() string {
	if p.Path == "" {
		return p.Message
	}
	return p.Path + ": " + p.Message
}

// Reason is one CamelCase word for a problem.
type Reason string

// The reasons for which a node template is not rendered.
const (
	DuplicateSlot                   Reason = "DuplicateSlot"
	NoPrimaryInterface              Reason = "NoPrimaryInterface"
	PrimaryNotPlain                 Reason = "PrimaryNotPlain"
	InvalidInterface                Reason = "InvalidInterface"
	SeveralEFAsOnCard               Reason = "SeveralEFAsOnCard"
	EFAOnlyHasNoAddresses           Reason = "EFAOnlyHasNoAddresses"
	PublicIPRequiresSingleInterface Reason = "PublicIPRequiresSingleInterface"
	PublicAndCarrierIP              Reason = "PublicAndCarrierIP"
	CarrierIPOnPrimaryOnly          Reason = "CarrierIPOnPrimaryOnly"
	CarrierIPOutsideWavelength      Reason = "CarrierIPOutsideWavelength"
	AddressFormsExclude             Reason = "AddressFormsExclude"
	NoSecurityGroups                Reason = "NoSecurityGroups"
	TooManySecurityGroups           Reason = "TooManySecurityGroups"
	NoSubnets                       Reason = "NoSubnets"
	SubnetsWithoutIPv6              Reason = "SubnetsWithoutIPv6"
	NoCommonZone                    Reason = "NoCommonZone"
	NoEligibleInstanceType          Reason = "NoEligibleInstanceType"
	UserDataRequired                Reason = "UserDataRequired"
	UserDataTooLarge                Reason = "UserDataTooLarge"
	UserDataConflict                Reason = "UserDataConflict"
	ImageRequired                   Reason = "ImageRequired"
	BootstrapIncomplete             Reason = "BootstrapIncomplete"
	ClusterDNSConflict              Reason = "ClusterDNSConflict"
	AutofillOff                     Reason = "AutofillOff"
	TemplateIncomplete              Reason = "TemplateIncomplete"
	SourceNotFound                  Reason = "SourceNotFound"
	InvalidOverride                 Reason = "InvalidOverride"
	OverrideNotAllowed              Reason = "OverrideNotAllowed"
	ForbiddenMember                 Reason = "ForbiddenMember"
	InvalidTags                     Reason = "InvalidTags"
	InvalidMetadataOptions          Reason = "InvalidMetadataOptions"
	Shadowed                        Reason = "Shadowed"
	PerInterfaceSubnet              Reason = "PerInterfaceSubnet"
	SeveralInterfaces               Reason = "SeveralInterfaces"
)

// compareProblems orders problems for users: by path, then by reason.
func compareProblems(a, b Problem) int {
	return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
}
