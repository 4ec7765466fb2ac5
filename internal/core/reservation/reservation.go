// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/ipam"
)

// Owner is the SubnetReservation that a reservation belongs to. A SubnetReservation that is created later with the same
// name owns the reservations that an earlier one retained.
type Owner struct {
	Cluster, Name string
}

// Tags returns the tags of a reservation.
func (o Owner) Tags() map[string]string {
	return map[string]string{
		identity.TagCluster: o.Cluster, identity.TagSubnetReservation: o.Name, identity.TagName: o.Name,
	}
}

// Description returns the description of a reservation in EC2, which is at most 255 characters. It names the owner and,
// by a hash, the cluster.
func (o Owner) Description() string {
	sum := sha256.Sum256([]byte(o.Cluster))
	return fmt.Sprintf("multieni SubnetReservation %s %s", o.Name, hex.EncodeToString(sum[:])[:7])
}

// Reservation returns a reservation as multieni creates it for the owner.
func (o Owner) Reservation(id string, cidr netip.Prefix, kind eni.ReservationType) eni.SubnetReservation {
	return eni.SubnetReservation{ID: id, CIDR: cidr, Type: kind, Description: o.Description(), Tags: o.Tags()}
}

// owns reports whether multieni created a reservation for the owner. Tags alone do not prove it, because other programs
// can copy them. The description does: EC2 has no call that changes it (EC2 API reference, "SubnetCidrReservation").
func (o Owner) owns(r eni.SubnetReservation) bool {
	return o.isNamedBy(r) && r.Description == o.Description()
}

func (o Owner) isNamedBy(r eni.SubnetReservation) bool {
	return r.Tags[identity.TagCluster] == o.Cluster && r.Tags[identity.TagSubnetReservation] == o.Name
}

// isForeign reports whether the tags of a reservation name another SubnetReservation, of this cluster or of another
// one.
func (o Owner) isForeign(r eni.SubnetReservation) bool {
	return r.Tags[identity.TagSubnetReservation] != "" && !o.isNamedBy(r)
}

// Desired is what a SubnetReservation declares. Without PrefixLength and Blocks it declares nothing.
type Desired struct {
	Owner Owner
	Type  eni.ReservationType
	// PrefixLength is the size of the single block of each subnet; 0 if Blocks are listed.
	PrefixLength int
	// Blocks are IPv4 blocks, each for the subnets that contain it.
	Blocks []netip.Prefix
	// Retain is set to keep reservations that are no longer declared.
	Retain bool
}

// Observed is the state of one selected subnet.
type Observed struct {
	Subnet       eni.Subnet
	Reservations []eni.SubnetReservation
	// Interfaces are all interfaces of the subnet. They matter only for a block that is not reserved yet.
	Interfaces []eni.Interface
	// Recorded are the blocks of this subnet in the previous plan.
	Recorded []Block
}

// Block is one block of one subnet.
type Block struct {
	SubnetID, Zone string
	// CIDR is invalid if the subnet has no free block.
	CIDR netip.Prefix
	// ID is EC2's ID of the reservation. If another program deletes the reservation, the block keeps the last ID.
	ID    string
	Owned bool
	// Reason is empty for a reserved block.
	Reason  Reason
	Message string
}

// Plan has the calls that a subnet needs.
type Plan struct {
	Blocks []Block
	// Delete has the IDs of reservations to delete before others are created, because these can be for the same block.
	Delete []string
	Create []netip.Prefix
}

// Plan compares the desired state with a selected subnet.
func (d Desired) Plan(o Observed) Plan {
	declared := d.declared(o)
	p := Plan{Delete: d.surplus(declared, o)}
	obstacles := without(o.Reservations, p.Delete)
	for _, cidr := range declared {
		b := d.block(cidr, obstacles, o)
		if b.Reason == Reserving {
			p.Create = append(p.Create, cidr)
			obstacles = append(obstacles, eni.SubnetReservation{CIDR: cidr, Type: d.Type})
		}
		p.Blocks = append(p.Blocks, b)
	}
	if d.PrefixLength > 0 && len(declared) == 0 {
		p.Blocks = []Block{noRoom(d.PrefixLength, o.Subnet)}
	}
	return p
}

// Release returns the IDs of the reservations to delete in a subnet that is not selected any more.
func (d Desired) Release(o Observed) []string { return d.surplus(nil, o) }

// Leaving returns the recorded blocks that are not planned any more and whose reservation EC2 may still have. They stay
// recorded until it is deleted, because nothing else names a subnet that is no longer selected. The ID of a block that
// was requested again is that of the former reservation, so the block stays recorded without an ID.
func (d Desired) Leaving(planned, recorded []Block) []Block {
	var leaving []Block
	for _, b := range recorded {
		isPlanned := slices.ContainsFunc(planned, func(p Block) bool { return p.SubnetID == b.SubnetID && p.CIDR == b.CIDR })
		if d.Retain || isPlanned || !b.mayExist() {
			continue
		}
		if b.Reason == Reserving {
			b.ID, b.Owned = "", false
		}
		b.Reason, b.Message = Releasing, fmt.Sprintf("the controller deletes the reservation of %s in %s", b.CIDR, b.SubnetID)
		leaving = append(leaving, b)
	}
	return leaving
}

// mayExist reports whether EC2 may have an owned reservation of a recorded block.
func (b Block) mayExist() bool {
	return b.Owned && b.ID != "" || b.MayBeInvisible()
}

// MayBeInvisible reports whether EC2 may have a reservation of a recorded block that it does not return yet, because
// the answer to the last request is not recorded.
func (b Block) MayBeInvisible() bool {
	return b.CIDR.IsValid() && (b.Reason == Reserving || b.Reason == Releasing && b.ID == "")
}

// Elsewhere returns the listed blocks that none of the subnets contains.
func (d Desired) Elsewhere(subnets []eni.Subnet) []Block {
	var blocks []Block
	for _, cidr := range d.Blocks {
		if !slices.ContainsFunc(subnets, func(s eni.Subnet) bool { return contains(s.CIDR, cidr) }) {
			blocks = append(blocks, Block{CIDR: cidr, Reason: NotInSubnet, Message: fmt.Sprintf(
				"no selected subnet contains %s; correct spec.cidrs, or select its subnet", cidr)})
		}
	}
	return blocks
}

// declared returns the blocks of a subnet: the listed ones that it contains, or the single one of PrefixLength.
func (d Desired) declared(o Observed) []netip.Prefix {
	var blocks []netip.Prefix
	for _, cidr := range d.Blocks {
		if contains(o.Subnet.CIDR, cidr) && !slices.Contains(blocks, cidr) {
			blocks = append(blocks, cidr)
		}
	}
	if d.PrefixLength > 0 {
		if cidr, found := d.chosen(o); found {
			blocks = append(blocks, cidr)
		}
	}
	return blocks
}

// chosen returns the block of PrefixLength: that of an existing reservation, the recorded one, or the highest free one.
// It gives up a recorded block that EC2 never had if EC2 refused it or another reservation overlaps it.
func (d Desired) chosen(o Observed) (netip.Prefix, bool) {
	recorded := slices.IndexFunc(o.Recorded, func(b Block) bool {
		return b.CIDR.IsValid() && b.CIDR.Bits() == d.PrefixLength
	})
	var owned []netip.Prefix
	for _, r := range o.Reservations {
		if d.Owner.owns(r) && r.Type == d.Type && r.CIDR.Addr().Is4() && r.CIDR.Bits() == d.PrefixLength {
			owned = append(owned, r.CIDR)
		}
	}
	switch {
	case recorded >= 0 && (o.Recorded[recorded].ID != "" || slices.Contains(owned, o.Recorded[recorded].CIDR)):
		return o.Recorded[recorded].CIDR, true
	case len(owned) > 0:
		return slices.MaxFunc(owned, netip.Prefix.Compare), true
	}
	obstacles := o.Reservations
	if !d.Retain {
		obstacles = slices.DeleteFunc(slices.Clone(obstacles), d.Owner.owns)
	}
	if recorded >= 0 && o.Recorded[recorded].Reason == Reserving && !overlapsAny(o.Recorded[recorded].CIDR, obstacles) {
		return o.Recorded[recorded].CIDR, true
	}
	return d.highestFree(o.Subnet, obstacles, o.Interfaces)
}

// highestFree returns the highest free block of PrefixLength. A block of the whole subnet does not count, because no
// interface would get an address.
func (d Desired) highestFree(
	subnet eni.Subnet, obstacles []eni.SubnetReservation, interfaces []eni.Interface,
) (netip.Prefix, bool) {
	if !subnet.CIDR.IsValid() || d.PrefixLength <= subnet.CIDR.Bits() {
		return netip.Prefix{}, false
	}
	blocks := ipam.Split(subnet.CIDR, d.PrefixLength)
	for _, cidr := range slices.Backward(blocks) {
		if d.isFree(cidr, obstacles, interfaces) {
			return cidr, true
		}
	}
	return netip.Prefix{}, false
}

func (d Desired) isFree(cidr netip.Prefix, obstacles []eni.SubnetReservation, interfaces []eni.Interface) bool {
	inUse, _ := used(cidr, interfaces, true)
	return !overlapsAny(cidr, obstacles) && inUse == 0
}

// surplus returns the IDs of the owned reservations that are not declared: those that EC2 returns, and recorded ones
// that it does not return yet. EC2 answers the deletion of an unknown one with NotFound.
func (d Desired) surplus(declared []netip.Prefix, o Observed) []string {
	if d.Retain {
		return nil
	}
	var ids []string
	for _, r := range o.Reservations {
		if d.Owner.owns(r) && (r.Type != d.Type || !slices.Contains(declared, r.CIDR)) {
			ids = append(ids, r.ID)
		}
	}
	for _, b := range o.Recorded {
		visible := slices.ContainsFunc(o.Reservations, func(r eni.SubnetReservation) bool { return r.ID == b.ID })
		if b.Owned && b.ID != "" && !visible && !slices.Contains(declared, b.CIDR) {
			ids = append(ids, b.ID)
		}
	}
	return ids
}

// block compares one block with the reservations and interfaces of its subnet.
func (d Desired) block(cidr netip.Prefix, obstacles []eni.SubnetReservation, o Observed) Block {
	b := Block{SubnetID: o.Subnet.ID, Zone: o.Subnet.Zone, CIDR: cidr}
	for _, r := range obstacles {
		if r.CIDR == cidr && r.Type == d.Type && r.ID != "" && !d.Owner.isForeign(r) {
			b.ID, b.Owned = r.ID, d.Owner.owns(r)
			return b
		}
	}
	interfaces := o.Interfaces
	if at := slices.IndexFunc(o.Recorded, func(r Block) bool { return r.CIDR == cidr }); at >= 0 {
		b.ID, b.Owned = o.Recorded[at].ID, o.Recorded[at].Owned
		if o.Recorded[at].Reason == Reserving {
			interfaces = nil // an earlier request may have reserved it for these interfaces
		}
	}
	b.Reason, b.Message = d.obstacle(cidr, obstacles, interfaces, o.Subnet.ID)
	if b.Reason == "" {
		b.Reason, b.Message = Reserving, fmt.Sprintf("the controller requests %s in %s", cidr, o.Subnet.ID)
	}
	return b
}

func contains(subnet, cidr netip.Prefix) bool {
	return subnet.IsValid() && cidr.IsValid() && subnet.Bits() <= cidr.Bits() && subnet.Contains(cidr.Addr())
}

func without(all []eni.SubnetReservation, ids []string) []eni.SubnetReservation {
	return slices.DeleteFunc(slices.Clone(all), func(r eni.SubnetReservation) bool { return slices.Contains(ids, r.ID) })
}

func overlapsAny(cidr netip.Prefix, reservations []eni.SubnetReservation) bool {
	return slices.ContainsFunc(reservations, func(r eni.SubnetReservation) bool { return r.CIDR.Overlaps(cidr) })
}
