// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package eni

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// Status is EC2's status of a network interface.
type Status string

// The statuses EC2 reports (EC2 API reference, NetworkInterface). Pending appears only in the answer to a create call.
const (
	Pending   Status = "pending"
	Available Status = "available"
	Attaching Status = "attaching"
	InUse     Status = "in-use"
	Detaching Status = "detaching"
)

// AttachmentStatus is EC2's status of an attachment.
type AttachmentStatus string

// The statuses of an attachment (EC2 API reference, NetworkInterfaceAttachment). A detached interface has none.
const (
	AttachmentAttaching AttachmentStatus = "attaching"
	AttachmentAttached  AttachmentStatus = "attached"
	AttachmentDetaching AttachmentStatus = "detaching"
	AttachmentDetached  AttachmentStatus = "detached"
)

// Type is EC2's type of a network interface.
type Type string

// Standard is the interface type that can be attached to a running instance. EFA interfaces exist only from launch.
const (
	Standard Type = "interface"
	EFA      Type = "efa"
	EFAOnly  Type = "efa-only"
)

// Interface is EC2's state of one network interface.
type Interface struct {
	ID          string
	Type        Type
	Status      Status
	Description string
	MAC         string

	SubnetID, VPCID, Zone string

	// Groups are security group IDs.
	Groups          []string
	SourceDestCheck bool

	Addresses

	Tags map[string]string
	// RequesterManaged is set on interfaces that an AWS service created for itself. Only that service may change them.
	RequesterManaged bool

	// ConnectionTracking are the timeouts that were set on the interface.
	ConnectionTracking ConnectionTracking

	// Attachment is nil while the interface is unattached.
	Attachment *Attachment
}

// Addresses are the addresses and delegated prefixes of an interface.
type Addresses struct {
	// PrimaryIPv4 is the address that the interface was created with. EC2 never removes it.
	PrimaryIPv4   netip.Addr
	SecondaryIPv4 []netip.Addr
	IPv4Prefixes  []netip.Prefix
	IPv6          []netip.Addr
	IPv6Prefixes  []netip.Prefix
	// PublicIP and CarrierIP are associated with the primary address; invalid if there is none.
	PublicIP, CarrierIP netip.Addr
}

// Prefixes returns everything that an interface has of its subnet: single addresses as prefixes of full length, then
// delegated prefixes.
func (a Addresses) Prefixes() []netip.Prefix {
	var all []netip.Prefix
	for _, address := range slices.Concat([]netip.Addr{a.PrimaryIPv4}, a.SecondaryIPv4, a.IPv6) {
		if address.IsValid() {
			all = append(all, netip.PrefixFrom(address, address.BitLen()))
		}
	}
	return slices.Concat(all, a.IPv4Prefixes, a.IPv6Prefixes)
}

// Common returns the secondary addresses and prefixes that both have, in the order of a.
func (a Addresses) Common(b Addresses) Addresses {
	return a.filter(func(p netip.Prefix) bool { return slices.Contains(b.Prefixes(), p) })
}

// Without returns the secondary addresses and prefixes of a that b does not have.
func (a Addresses) Without(b Addresses) Addresses {
	return a.filter(func(p netip.Prefix) bool { return !slices.Contains(b.Prefixes(), p) })
}

// With returns the secondary addresses and prefixes of both.
func (a Addresses) With(b Addresses) Addresses {
	a, more := a.Without(Addresses{}), b.Without(a)
	return Addresses{
		SecondaryIPv4: slices.Concat(a.SecondaryIPv4, more.SecondaryIPv4),
		IPv4Prefixes:  slices.Concat(a.IPv4Prefixes, more.IPv4Prefixes),
		IPv6:          slices.Concat(a.IPv6, more.IPv6), IPv6Prefixes: slices.Concat(a.IPv6Prefixes, more.IPv6Prefixes),
	}
}

// filter returns the secondary addresses and prefixes that satisfy a condition. It passes an address as a prefix of
// full length.
func (a Addresses) filter(keep func(netip.Prefix) bool) Addresses {
	address := func(one netip.Addr) bool { return keep(netip.PrefixFrom(one, one.BitLen())) }
	return Addresses{
		SecondaryIPv4: those(a.SecondaryIPv4, address), IPv4Prefixes: those(a.IPv4Prefixes, keep),
		IPv6: those(a.IPv6, address), IPv6Prefixes: those(a.IPv6Prefixes, keep),
	}
}

func those[T any](all []T, keep func(T) bool) []T {
	var kept []T
	for _, one := range all {
		if keep(one) {
			kept = append(kept, one)
		}
	}
	return kept
}

// Attachment ties an interface to a slot of an instance.
type Attachment struct {
	ID         string
	InstanceID string
	Slot       Slot
	Status     AttachmentStatus
	// Since is when EC2 began to attach the interface; zero until a read returns it.
	Since time.Time
	// DeleteOnTermination makes EC2 delete the interface when the instance terminates. EC2 starts every hot attach
	// with false and has no parameter for it (EC2 API reference, AttachNetworkInterface).
	DeleteOnTermination bool
	// ENAExpress is lost with the attachment. It is empty if EC2 reports none.
	ENAExpress ENAExpress
}

// AttachedTo reports whether the interface has an attachment of any status to the instance.
func (i Interface) AttachedTo(instanceID string) bool {
	return i.Attachment != nil && i.Attachment.InstanceID == instanceID && i.Attachment.Status != AttachmentDetached
}

// Ready reports whether EC2 has finished attaching the interface.
func (i Interface) Ready() bool {
	return i.Attachment != nil && i.Attachment.Status == AttachmentAttached
}

// InTransition reports whether EC2 is changing the interface, so that its state will change without a further call.
func (i Interface) InTransition() bool {
	if i.Attachment != nil {
		return i.Attachment.Status == AttachmentAttaching || i.Attachment.Status == AttachmentDetaching
	}
	return i.Status == Pending || i.Status == Attaching || i.Status == Detaching
}

// Clone returns a copy that shares nothing with i.
func (i Interface) Clone() Interface {
	i.Groups = slices.Clone(i.Groups)
	i.SecondaryIPv4 = slices.Clone(i.SecondaryIPv4)
	i.IPv4Prefixes = slices.Clone(i.IPv4Prefixes)
	i.IPv6 = slices.Clone(i.IPv6)
	i.IPv6Prefixes = slices.Clone(i.IPv6Prefixes)
	tags := make(map[string]string, len(i.Tags))
	for k, v := range i.Tags {
		tags[k] = v
	}
	i.Tags = tags
	if i.Attachment != nil {
		a := *i.Attachment
		i.Attachment = &a
	}
	return i
}

// CompareInterfaces orders interfaces by ID.
func CompareInterfaces(a, b Interface) int { return cmp.Compare(a.ID, b.ID) }

// Spec is the desired state of a member's interface.
type Spec struct {
	Description string
	// Groups are security group IDs, at least one.
	Groups              []string
	Tags                map[string]string
	SourceDestCheck     bool
	DeleteOnTermination bool
	// LowestFree makes its primary IPv4 address the lowest free one of its subnet, instead of any.
	LowestFree bool
	// MatchIPv4Suffix gives the interface the IPv6 address whose offset in the subnet's IPv6 block equals the offset of
	// its primary IPv4 address in the IPv4 block. It applies if the interface has an IPv6 address, LowestFree is set
	// and that address is free.
	MatchIPv4Suffix bool
	// ConnectionTracking are the declared timeouts. With TrackAsPrimary they are those of the instance's primary
	// interface instead.
	ConnectionTracking ConnectionTracking
	TrackAsPrimary     bool
	// ENAExpress is the declared setting; empty to leave it as it is.
	ENAExpress ENAExpress
	AddressCounts
}

// AddressCounts are the numbers of addresses of each kind that an interface has in addition to its primary IPv4
// address. At most one IPv4 count and one IPv6 count is above zero: EC2 accepts only one form per family (EC2 API
// reference, CreateNetworkInterface).
type AddressCounts struct {
	SecondaryIPv4, IPv4Prefixes, IPv6, IPv6Prefixes int
}

// IPv4PrefixSize is the number of addresses of an IPv4 prefix that EC2 delegates to an interface: a /28 (EC2 user
// guide, "Assign prefixes to network interfaces").
const IPv4PrefixSize = 16

// Counts returns the number of addresses of each kind.
func (a Addresses) Counts() AddressCounts {
	return AddressCounts{
		SecondaryIPv4: len(a.SecondaryIPv4), IPv4Prefixes: len(a.IPv4Prefixes),
		IPv6: len(a.IPv6), IPv6Prefixes: len(a.IPv6Prefixes),
	}
}

// InstanceState is EC2's state of an instance.
type InstanceState string

// The states of an instance (EC2 user guide, "Instance lifecycle"). InstanceMissing is ours: EC2 answered that it does
// not know the ID. That does not prove that the instance does not exist, because EC2 is eventually consistent.
const (
	InstancePending      InstanceState = "pending"
	InstanceRunning      InstanceState = "running"
	InstanceStopping     InstanceState = "stopping"
	InstanceStopped      InstanceState = "stopped"
	InstanceShuttingDown InstanceState = "shutting-down"
	InstanceTerminated   InstanceState = "terminated"
	InstanceMissing      InstanceState = "missing"
)

// Attachable reports whether EC2 can attach an interface to an instance in this state.
func (s InstanceState) Attachable() bool { return s == InstanceRunning || s == InstanceStopped }

// Terminating reports whether the instance is shutting down or terminated.
func (s InstanceState) Terminating() bool {
	return s == InstanceShuttingDown || s == InstanceTerminated
}

// Instance is EC2's state of one instance.
type Instance struct {
	ID, Type, Zone, VPCID string
	// PrivateDNSName is the host name that EC2 gave the instance, and that EKS uses as the name of the node; "" while it
	// is not known.
	PrivateDNSName string
	State          InstanceState
	// LaunchedAt is the time of the last start of the instance.
	LaunchedAt time.Time
	Tags       map[string]string
}

// Subnet is EC2's state of one subnet.
type Subnet struct {
	ID, Name, VPCID, Zone string
	CIDR                  netip.Prefix
	// FreeIPv4 is the number of free IPv4 addresses, without the five that EC2 reserves.
	FreeIPv4 int
	HasIPv6  bool
	// IPv6CIDR is its IPv6 block, invalid if it has none.
	IPv6CIDR netip.Prefix
	// MapPublicIP reports whether an instance that is launched with one interface in it gets a public IPv4 address, unless
	// the launch says otherwise.
	MapPublicIP bool
	// OwnerID is the account that owns it, which can be another one that shares it with ours.
	OwnerID string
	Tags    map[string]string
}

// ReservationType is EC2's type of a subnet CIDR reservation.
type ReservationType string

// The types of EC2 (Amazon VPC user guide, "Subnet CIDR reservations").
const (
	// ReservationExplicit reserves its addresses for requests that name them.
	ReservationExplicit ReservationType = "explicit"
	// ReservationPrefix reserves its space for delegated prefixes. EC2 then delegates prefixes only from this space.
	ReservationPrefix ReservationType = "prefix"
)

// SubnetReservation is a part of a subnet from which EC2 does not choose addresses by itself.
type SubnetReservation struct {
	ID   string
	CIDR netip.Prefix
	Type ReservationType
	// Description is set when the reservation is created, and never changes.
	Description string
	Tags        map[string]string
}

// SecurityGroup is EC2's state of one security group. Name is the group name; a Name tag is in Tags.
type SecurityGroup struct {
	ID, Name, VPCID string
	Tags            map[string]string
	// AllFrom and AllTo are the IDs of the groups whose members may send any traffic to the group's members, and receive
	// any from them. Rules that name addresses or protocols do not count.
	AllFrom, AllTo []string
}
