// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/text"
)

// Reason is one word of a closed set that says why a block is not reserved. All but Reserving and Releasing need a
// person.
type Reason string

// The reasons.
const (
	// Reserving: the controller requests the reservation, or EC2 does not return it yet.
	Reserving Reason = "Reserving"
	// Releasing: the block is not declared any more, and the controller deletes its reservation.
	Releasing Reason = "Releasing"
	// Overlaps: another reservation covers a part of the block.
	Overlaps Reason = "Overlaps"
	// AddressesInUse: interfaces have addresses of the block.
	AddressesInUse Reason = "AddressesInUse"
	// NoRoom: no block of the size is wholly free.
	NoRoom Reason = "NoRoom"
	// NotInSubnet: no selected subnet contains the block.
	NotInSubnet Reason = "NotInSubnet"
	// InvalidBlock: the address of the block is not its first one.
	InvalidBlock Reason = "InvalidBlock"
	// TooManySubnets: the selector matches more than [MaxSubnets] subnets.
	TooManySubnets Reason = "TooManySubnets"
	// Unauthorized: EC2 does not allow the call.
	Unauthorized Reason = "Unauthorized"
	// RefusedByEC2: EC2 refuses the request.
	RefusedByEC2 Reason = "RefusedByEC2"
)

// MaxSubnets is the maximum number of subnets of one SubnetReservation: EC2 allows one request for reservations per
// second.
const MaxSubnets = 64

// obstacle returns why a block cannot be reserved; the reason is empty if it can.
func (d Desired) obstacle(
	cidr netip.Prefix, reservations []eni.SubnetReservation, interfaces []eni.Interface, subnetID string,
) (Reason, string) {
	if cidr != cidr.Masked() {
		return InvalidBlock, fmt.Sprintf("%s is not the first address of its block; write %s", cidr, cidr.Masked())
	}
	if at := slices.IndexFunc(reservations, func(r eni.SubnetReservation) bool { return r.CIDR.Overlaps(cidr) }); at >= 0 {
		return Overlaps, d.overlap(cidr, reservations[at], subnetID)
	}
	// A reservation of type prefix exists for delegated prefixes.
	if inUse, first := used(cidr, interfaces, d.Type == eni.ReservationExplicit); inUse > 0 {
		return AddressesInUse, fmt.Sprintf(
			"%s of %s in %s already have addresses of it, first %s; remove these addresses, or declare another block; "+
				"if they belong there, create the reservation yourself with aws ec2 create-subnet-cidr-reservation, "+
				"and multieni uses it",
			text.Count(inUse, "interface"), cidr, subnetID, first)
	}
	return "", ""
}

func (d Desired) overlap(cidr netip.Prefix, other eni.SubnetReservation, subnetID string) string {
	what := "a reservation that multieni did not create"
	if name := other.Tags[identity.TagSubnetReservation]; name != "" {
		what = fmt.Sprintf("the one of SubnetReservation %s in cluster %s", name, other.Tags[identity.TagCluster])
	} else if other.ID == "" {
		what = "another block of spec.cidrs"
	}
	return fmt.Sprintf("%s in %s overlaps %s (%s, type %s): %s; declare another block, or delete the other reservation",
		cidr, subnetID, other.CIDR, other.ID, other.Type, what)
}

func noRoom(bits int, subnet eni.Subnet) Block {
	b := Block{SubnetID: subnet.ID, Zone: subnet.Zone, Reason: NoRoom, Message: fmt.Sprintf(
		"%s (%s) has no /%d that is wholly free; kubectl eni subnets %s shows its blocks; take a smaller block with "+
			"a larger spec.prefixLength, or another subnet",
		subnet.ID, subnet.CIDR, bits, subnet.ID)}
	if !subnet.CIDR.IsValid() {
		b.Message = subnet.ID + " has no IPv4 addresses, and EC2 does not run out of IPv6 ones; select subnets with IPv4"
	}
	return b
}

// Refused returns the reason for a block whose request EC2 answered with an error of the class. An overlap can be with
// a reservation that EC2 does not return yet, from an earlier request for the same block.
func Refused(class eni.Class, err error, subnet eni.Subnet) (Reason, string) {
	switch class {
	case eni.Unauthorized:
		return Unauthorized, fmt.Sprintf(
			"EC2 does not allow the controller to reserve in %s, which belongs to account %s: %v; attach the policy "+
				"subnet-reservations (multieni iam-policy) to the controller's role; in a subnet that another account shares only "+
				"that account can reserve",
			subnet.ID, subnet.OwnerID, err)
	case eni.AddressTaken:
		return Reserving, "EC2 has a reservation there that it does not return yet; the controller reads it again"
	case eni.Throttled, eni.Transient:
		return Reserving, fmt.Sprintf("the request failed, and the controller repeats it: %v", err)
	default:
		return RefusedByEC2, fmt.Sprintf("EC2 refuses it: %v; correct the SubnetReservation", err)
	}
}

// Summary returns one reason for all blocks, with a message: the first that needs a person if there is one. The reason
// is empty if all are reserved.
func Summary(blocks []Block) (Reason, string) {
	reserved, releasing, reason, message := 0, 0, Reason(""), ""
	for _, b := range blocks {
		if b.Reason == Releasing {
			releasing++
		}
		switch {
		case b.Reason == "":
			reserved++
		case reason == "" || !reason.needsPerson() && (b.Reason.needsPerson() || b.Reason == Reserving):
			reason, message = b.Reason, b.Message
		}
	}
	if reason == "" {
		return "", text.Count(reserved, "block") + " reserved"
	}
	return reason, fmt.Sprintf("%d of %s reserved: %s", reserved, text.Count(len(blocks)-releasing, "block"), message)
}

func (r Reason) needsPerson() bool { return r != Reserving && r != Releasing }

// used counts the interfaces with addresses in a block, and returns the ID of the first. Addresses of delegated
// prefixes count only if delegated is set.
func used(cidr netip.Prefix, interfaces []eni.Interface, delegated bool) (n int, first string) {
	for _, i := range interfaces {
		if slices.ContainsFunc(i.Prefixes(), func(p netip.Prefix) bool {
			return p.Overlaps(cidr) && (delegated || p.IsSingleIP())
		}) {
			if n++; n == 1 {
				first = i.ID
			}
		}
	}
	return n, first
}
