// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/ipam"
	"github.com/multieni/multieni/internal/core/terminal"
	"github.com/multieni/multieni/internal/core/text"
)

// Subnets are subnets with the holders of their addresses.
type Subnets struct {
	Subnets []Subnet `json:"subnets"`
}

// Subnet is one subnet with the holders of its IPv4 addresses.
type Subnet struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	Zone string `json:"zone"`
	// CIDR is the IPv4 block. A subnet with IPv6Only has none, and no counts.
	CIDR     string `json:"cidr,omitempty"`
	IPv6Only bool   `json:"ipv6Only,omitempty"`
	// NodeENIs select the subnet.
	NodeENIs []string `json:"nodeENIs,omitempty"`
	// Usable, Used and Free are numbers of IPv4 addresses. Free ones are neither used nor reserved.
	Usable int `json:"usable"`
	Used   int `json:"used"`
	Free   int `json:"free"`
	// FreePrefixes is the number of /28 that EC2 can delegate.
	FreePrefixes int                 `json:"freePrefixes"`
	Holders      []AddressHolder     `json:"holders,omitempty"`
	Reservations []SubnetReservation `json:"reservations,omitempty"`
	cells        []ipam.Cell
}

// AddressHolder is a holder of addresses: the name of a NodeENI, or a term for others.
type AddressHolder struct {
	Name       string `json:"name"`
	Interfaces int    `json:"interfaces"`
	Addresses  int    `json:"addresses"`
	Prefixes   int    `json:"prefixes"`
}

// SubnetReservation is a CIDR reservation with numbers of its addresses.
type SubnetReservation struct {
	ID   string `json:"id"`
	CIDR string `json:"cidr"`
	Type string `json:"type"`
	// SubnetReservation is the name of the object that it belongs to; empty for one that multieni did not create.
	SubnetReservation string `json:"subnetReservation,omitempty"`

	Used int `json:"used"`
	Free int `json:"free"`
}

// NewSubnet counts the addresses of a subnet by holder.
func NewSubnet(
	subnet eni.Subnet, interfaces []eni.Interface, reservations []eni.SubnetReservation, nodeENIs []string,
) (Subnet, error) {
	if !subnet.CIDR.IsValid() {
		return Subnet{ID: subnet.ID, Name: subnet.Name, Zone: subnet.Zone, NodeENIs: nodeENIs, IPv6Only: true}, nil
	}
	held := make([]ipam.HeldInterface, 0, len(interfaces))
	for _, i := range interfaces {
		held = append(held, ipam.HeldInterface{Addresses: i.Addresses, Holder: holderOf(i)})
	}
	o, err := ipam.NewOccupancy(subnet.CIDR, held, reservations)
	if err != nil {
		return Subnet{}, fmt.Errorf("subnet %s: %w", subnet.ID, err)
	}
	s := Subnet{
		ID: subnet.ID, Name: subnet.Name, Zone: subnet.Zone, CIDR: subnet.CIDR.String(), NodeENIs: nodeENIs,
		Usable: o.Usable, Used: o.Used, Free: o.Free, FreePrefixes: o.FreePrefixes, cells: o.Cells,
	}
	for _, h := range o.Holders {
		s.Holders = append(s.Holders, AddressHolder(h))
	}
	for _, r := range o.Reservations {
		s.Reservations = append(s.Reservations, SubnetReservation{
			ID: r.ID, CIDR: r.CIDR.String(), Type: string(r.Type),
			SubnetReservation: r.Tags[identity.TagSubnetReservation], Used: r.Used, Free: r.Free,
		})
	}
	return s, nil
}

// holderOf returns the holder of an interface of a subnet. A NodeENI can have any name, even that of another holder.
func holderOf(i eni.Interface) string {
	switch owner := ownerOf(i); owner {
	case i.Tags[identity.TagNodeENI]:
		return owner
	case "primary":
		return "primary interfaces"
	case "other":
		return "others"
	default:
		return owner
	}
}

// Text prints the subnets, each with a picture of its blocks.
func (v Subnets) Text(p Page) string {
	if len(v.Subnets) == 0 {
		return "No NodeENI selects a subnet, and none was named.\n"
	}
	var b strings.Builder
	for _, s := range v.Subnets {
		b.WriteString(s.text(p) + "\n")
	}
	return b.String() + p.paragraph("", legend)
}

// The signs of a picture's cells.
const (
	cellFree      = "·"
	cellDelegated = "P"
	cellPrefix    = "p"
	cellExplicit  = "x"
	legend        = "One sign is one block: ▁ to █ by its used share, P delegated prefixes, · free, p reserved for " +
		"prefixes, x reserved for named addresses."
)

func (s Subnet) text(p Page) string {
	var b strings.Builder
	title := strings.Join(slices.DeleteFunc([]string{s.ID, s.Name, s.Zone, s.CIDR}, func(s string) bool {
		return s == ""
	}), "  ")
	b.WriteString(s.style().Sign() + " " + p.paint(terminal.Strong, terminal.Line(title)) + "\n")
	if s.IPv6Only {
		return b.String() + "  only IPv6, which EC2 does not run out of\n"
	}
	free := fmt.Sprintf("%d of %d addresses free, %s to delegate", s.Free, s.Usable,
		text.Count(s.FreePrefixes, "free /28"))
	b.WriteString("  " + p.paint(s.style(), free) + "\n")
	b.WriteString(s.picture(p))
	for _, h := range s.Holders {
		b.WriteString(p.paragraph("  ", h.text()))
	}
	for _, r := range s.Reservations {
		owner := ""
		if r.SubnetReservation != "" {
			owner = " of SubnetReservation " + r.SubnetReservation
		}
		b.WriteString(p.paragraph("  ", fmt.Sprintf("reservation %s (%s)%s: %d used, %d free", r.CIDR, r.Type, owner,
			r.Used, r.Free)))
	}
	if len(s.NodeENIs) > 0 {
		b.WriteString(p.paragraph("  ", "selected by "+p.Names(s.NodeENIs)))
	}
	return b.String()
}

func (h AddressHolder) text() string {
	words := fmt.Sprintf("%s: %s on %s", h.Name, addressCount(h.Addresses), text.Count(h.Interfaces, "interface"))
	if h.Prefixes > 0 {
		words += fmt.Sprintf(", and %d /28", h.Prefixes)
	}
	return words
}

func addressCount(n int) string {
	if n == 1 {
		return "1 address"
	}
	return fmt.Sprintf("%d addresses", n)
}

// style is that of the free addresses: none is bad, and less than a tenth is a warning.
func (s Subnet) style() terminal.Style {
	switch {
	case s.IPv6Only:
		return terminal.Good
	case s.Free == 0:
		return terminal.Bad
	case s.Free*10 < s.Usable:
		return terminal.Busy
	default:
		return terminal.Good
	}
}

// picture draws the cells in rows of at most 64, with the first address of each row.
func (s Subnet) picture(p Page) string {
	const perRow = 64
	var b strings.Builder
	for row := range slices.Chunk(s.cells, perRow) {
		fmt.Fprintf(&b, "  %-16s ", row[0].CIDR.Addr())
		for _, c := range row {
			sign, style := signOf(c)
			b.WriteString(p.paint(style, sign))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// signOf is the sign of a cell. The addresses that EC2 keeps count as free.
func signOf(c ipam.Cell) (string, terminal.Style) {
	shares := []rune("▁▂▃▄▅▆▇█")
	size := 1 << (32 - c.CIDR.Bits())
	switch used := c.Single + c.Delegated; {
	case used > 0 && c.Delegated >= c.Single:
		return cellDelegated, terminal.Busy
	case used > 0:
		return string(shares[min(used*len(shares)/size, len(shares)-1)]), terminal.Busy
	case c.Reserved == eni.ReservationPrefix:
		return cellPrefix, terminal.Idle
	case c.Reserved == eni.ReservationExplicit:
		return cellExplicit, terminal.Idle
	default:
		return cellFree, terminal.Good
	}
}

// CompareSubnets orders subnets by zone, then by name, then by ID.
func CompareSubnets(a, b Subnet) int {
	return cmp.Or(strings.Compare(a.Zone, b.Zone), strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
}
