// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"go4.org/netipx"

	"github.com/multieni/multieni/internal/core/eni"
)

const (
	// delegatedBits is the length of the IPv4 prefixes that EC2 delegates to interfaces (Amazon EC2 user guide, "Prefix
	// delegation for Amazon EC2 network interfaces").
	delegatedBits = 28
	// maxCells bounds the cells of an [Occupancy]. A /20 has that many blocks of 16 addresses.
	maxCells = 256
)

// Occupancy describes the use of the addresses of a subnet's IPv4 block.
type Occupancy struct {
	CIDR netip.Prefix
	// Usable is the number of addresses that EC2 does not reserve for itself.
	Usable int
	// Used is the number of addresses on interfaces, single ones and those of delegated prefixes.
	Used int
	// Free is the number of addresses that are neither used nor reserved.
	Free int
	// FreePrefixes is the number of wholly free /28 blocks that EC2 can delegate: those in the reservations of type prefix
	// if there are any, else those in the space without a reservation.
	FreePrefixes int
	// Holders are the holders of the used addresses, by number of addresses in descending order, then by name.
	Holders []Holder
	// Reservations are the IPv4 reservations in the order of their addresses.
	Reservations []ReservationUse
	// Cells are at most 256 parts of the block, of equal size, in the order of their addresses.
	Cells []Cell
}

// Holder is an owner of interfaces, with the addresses that they have in a subnet.
type Holder struct {
	Name string
	// Interfaces, Addresses and Prefixes are counts; Addresses excludes those of the prefixes.
	Interfaces, Addresses, Prefixes int
}

// addresses returns the number of addresses of a holder, including those of its prefixes.
func (h Holder) addresses() int { return h.Addresses + h.Prefixes*sizeOf(delegatedBits) }

// ReservationUse is a reservation with the number of its used and its free addresses.
type ReservationUse struct {
	eni.SubnetReservation
	Used, Free int
}

// Cell is one part of a subnet's block.
type Cell struct {
	CIDR netip.Prefix
	// Single and Delegated are the used addresses of the part: single addresses of interfaces, and those of delegated
	// prefixes.
	Single, Delegated int
	// Reserved is the type of the reservation at the first address of the part; empty without one.
	Reserved eni.ReservationType
}

// HeldInterface is an interface with the name of its holder.
type HeldInterface struct {
	eni.Addresses
	Holder string
}

// SubnetCount has the numbers of free IPv4 addresses and /28 blocks of one subnet.
type SubnetCount struct {
	SubnetID, Zone string
	// Free is the number of addresses that EC2 can assign by its own choice now, and Addresses the number in the empty
	// subnet: all but those that EC2 keeps, and those in reservations.
	Free, Addresses int
	// FreePrefixes is the number of /28 blocks that EC2 can delegate now, and Prefixes the number in the empty subnet: in
	// reservations of type prefix, or in the whole subnet without one.
	FreePrefixes, Prefixes int
	// NeedsPrefixes means that NodeENIs need prefixes in the subnet.
	NeedsPrefixes bool
}

// NewOccupancy returns the occupancy of an IPv4 block.
func NewOccupancy(
	block netip.Prefix, interfaces []HeldInterface, reservations []eni.SubnetReservation,
) (Occupancy, error) {
	if !block.IsValid() || !block.Addr().Is4() {
		return Occupancy{}, fmt.Errorf("%v is no IPv4 block", block)
	}
	subnet := Subnet{CIDR: block.Masked()}
	usable, err := subnet.space()
	if err != nil {
		return Occupancy{}, err
	}
	o := Occupancy{CIDR: subnet.CIDR, Usable: count(usable), Holders: holders(interfaces)}
	single, delegated := setOf(interfaces, false), setOf(interfaces, true)
	used := union(single, delegated)
	unused := minus(usable, used)
	o.Used = count(used)
	for _, r := range reservations {
		if r.CIDR.Addr().Is4() {
			part := setOfPrefix(r.CIDR)
			o.Reservations = append(o.Reservations,
				ReservationUse{r, count(intersection(part, used)), count(intersection(part, unused))})
		}
	}
	slices.SortFunc(o.Reservations, func(a, b ReservationUse) int { return a.CIDR.Addr().Compare(b.CIDR.Addr()) })
	unreserved := minus(unused, o.reserved(eni.ReservationExplicit, eni.ReservationPrefix))
	o.Free = count(unreserved)
	o.FreePrefixes = o.freePrefixes(unused, unreserved)
	o.Cells = o.cells(single, delegated)
	return o, nil
}

// reserved returns the space of the reservations of some types.
func (o Occupancy) reserved(types ...eni.ReservationType) *netipx.IPSet {
	var b netipx.IPSetBuilder
	for _, r := range o.Reservations {
		if slices.Contains(types, r.Type) {
			b.AddPrefix(r.CIDR)
		}
	}
	return built(&b)
}

func (o Occupancy) freePrefixes(unused, unreserved *netipx.IPSet) int {
	space := unreserved
	if own := o.reserved(eni.ReservationPrefix); len(own.Ranges()) > 0 {
		space = intersection(own, unused)
	}
	free := 0
	for _, p := range Split(o.CIDR, delegatedBits) {
		if space.ContainsPrefix(p) {
			free++
		}
	}
	return free
}

func (o Occupancy) cells(single, delegated *netipx.IPSet) []Cell {
	bits := max(delegatedBits, o.CIDR.Bits())
	for bits-o.CIDR.Bits() > 0 && 1<<(bits-o.CIDR.Bits()) > maxCells {
		bits--
	}
	var cells []Cell
	for _, p := range Split(o.CIDR, bits) {
		part := setOfPrefix(p)
		c := Cell{CIDR: p, Single: count(intersection(part, single)), Delegated: count(intersection(part, delegated))}
		for _, r := range o.Reservations {
			if r.CIDR.Contains(p.Addr()) {
				c.Reserved = r.Type
			}
		}
		cells = append(cells, c)
	}
	return cells
}

func holders(interfaces []HeldInterface) []Holder {
	byName := map[string]Holder{}
	for _, i := range interfaces {
		h := byName[i.Holder]
		h.Name = i.Holder
		h.Interfaces++
		h.Prefixes += len(i.IPv4Prefixes)
		h.Addresses += len(i.SecondaryIPv4)
		if i.PrimaryIPv4.IsValid() {
			h.Addresses++
		}
		byName[i.Holder] = h
	}
	var all []Holder
	for _, h := range byName {
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(b.addresses(), a.addresses()), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// setOf returns the single addresses of interfaces, or their delegated prefixes.
func setOf(interfaces []HeldInterface, delegated bool) *netipx.IPSet {
	var b netipx.IPSetBuilder
	for _, i := range interfaces {
		for _, p := range i.Prefixes() {
			if p.Addr().Is4() && p.IsSingleIP() != delegated {
				b.AddPrefix(p)
			}
		}
	}
	return built(&b)
}

// Split divides a block into blocks of a prefix length. It returns a smaller block whole.
func Split(block netip.Prefix, bits int) []netip.Prefix {
	bits = max(bits, block.Bits())
	var parts []netip.Prefix
	for p := netip.PrefixFrom(block.Addr(), bits); p.IsValid() && block.Contains(p.Addr()); {
		parts = append(parts, p)
		p = netip.PrefixFrom(netipx.PrefixLastIP(p).Next(), bits)
	}
	return parts
}

func sizeOf(bits int) int { return 1 << (32 - bits) }

func setOfPrefix(p netip.Prefix) *netipx.IPSet {
	var b netipx.IPSetBuilder
	b.AddPrefix(p)
	return built(&b)
}

func union(a, b *netipx.IPSet) *netipx.IPSet {
	var both netipx.IPSetBuilder
	both.AddSet(a)
	both.AddSet(b)
	return built(&both)
}

func intersection(a, b *netipx.IPSet) *netipx.IPSet {
	var both netipx.IPSetBuilder
	both.AddSet(a)
	both.Intersect(b)
	return built(&both)
}

func minus(a, b *netipx.IPSet) *netipx.IPSet {
	var rest netipx.IPSetBuilder
	rest.AddSet(a)
	rest.RemoveSet(b)
	return built(&rest)
}

// built returns the set. It drops the error, which only invalid ranges cause; the callers never add one.
func built(b *netipx.IPSetBuilder) *netipx.IPSet {
	set, err := b.IPSet()
	if err != nil {
		return &netipx.IPSet{}
	}
	return set
}

// count returns the number of IPv4 addresses of a set.
func count(set *netipx.IPSet) int {
	n := 0
	for _, p := range set.Prefixes() {
		n += sizeOf(p.Bits())
	}
	return n
}
