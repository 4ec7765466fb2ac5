// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"net/netip"
	"slices"
)

// The types of CIDR reservations: addresses that only who names them gets, and space for delegated prefixes.
const (
	reservationExplicit = "explicit"
	reservationPrefix   = "prefix"
)

// SubnetCIDRReservation keeps a part of a subnet from what EC2 assigns by itself (Amazon VPC user guide, "Subnet CIDR
// reservations").
type SubnetCIDRReservation struct {
	SubnetCIDRReservationID string       `json:"subnetCidrReservationId"`
	SubnetID                string       `json:"subnetId"`
	CIDR                    netip.Prefix `json:"cidr"`
	ReservationType         string       `json:"reservationType"`
	OwnerID                 string       `json:"ownerId"`
	Description             string       `json:"description,omitempty"`
}

// CreateSubnetCIDRReservationInput is the request of CreateSubnetCidrReservation.
type CreateSubnetCIDRReservationInput struct {
	DryRun          bool   `query:"DryRun"`
	SubnetID        string `query:"SubnetId"`
	CIDR            string `query:"Cidr"`
	ReservationType string `query:"ReservationType"`
	Description     string `query:"Description"`
}

// CreateSubnetCIDRReservationOutput is its answer.
type CreateSubnetCIDRReservationOutput struct {
	SubnetCIDRReservation *SubnetCIDRReservation `json:"subnetCidrReservation"`
}

// CreateSubnetCIDRReservation reserves a part of a subnet.
func (m *Model) CreateSubnetCIDRReservation(c Call, in *CreateSubnetCIDRReservationInput) (*CreateSubnetCIDRReservationOutput, error) {
	m.Advance(c.Now)
	subnet := m.subnets.get(in.SubnetID)
	if subnet == nil {
		return nil, subnetNotFound(in.SubnetID)
	}
	if in.ReservationType != reservationExplicit && in.ReservationType != reservationPrefix {
		return nil, invalidValue("Value (%s) for parameter reservationType is invalid.", in.ReservationType)
	}
	pool := m.pools[in.SubnetID]
	cidr, err := netip.ParsePrefix(in.CIDR)
	if err != nil || cidr != cidr.Masked() || !pool.holds(cidr) {
		return nil, invalidValue("The CIDR '%s' is not within the subnet %s", in.CIDR, in.SubnetID)
	}
	if slices.ContainsFunc(pool.reservations, func(r *SubnetCIDRReservation) bool { return r.CIDR.Overlaps(cidr) }) {
		return nil, refuse("InvalidSubnet.Conflict", "The CIDR '%s' conflicts with another subnet CIDR reservation", in.CIDR)
	}
	if in.DryRun {
		return nil, dryRun()
	}
	made := &SubnetCIDRReservation{
		SubnetCIDRReservationID: m.id("scr"), SubnetID: in.SubnetID, CIDR: cidr, ReservationType: in.ReservationType,
		OwnerID: subnet.OwnerID, Description: in.Description,
	}
	pool.reservations = append(pool.reservations, made)
	return &CreateSubnetCIDRReservationOutput{made}, nil
}

// GetSubnetCIDRReservationsInput is the request of GetSubnetCidrReservations.
type GetSubnetCIDRReservationsInput struct {
	DryRun     bool   `query:"DryRun"`
	SubnetID   string `query:"SubnetId"`
	MaxResults *int   `query:"MaxResults"`
	NextToken  string `query:"NextToken"`
}

// GetSubnetCIDRReservationsOutput is its answer, by family.
type GetSubnetCIDRReservationsOutput struct {
	IPv4 []*SubnetCIDRReservation `json:"subnetIpv4CidrReservationSet"`
	IPv6 []*SubnetCIDRReservation `json:"subnetIpv6CidrReservationSet"`
}

// GetSubnetCIDRReservations lists the reservations of a subnet, on one page.
func (m *Model) GetSubnetCIDRReservations(c Call, in *GetSubnetCIDRReservationsInput) (*GetSubnetCIDRReservationsOutput, error) {
	m.Advance(c.Now)
	if m.subnets.get(in.SubnetID) == nil {
		return nil, subnetNotFound(in.SubnetID)
	}
	if in.DryRun {
		return nil, dryRun()
	}
	var out GetSubnetCIDRReservationsOutput
	for _, r := range m.pools[in.SubnetID].reservations {
		if r.CIDR.Addr().Is4() {
			out.IPv4 = append(out.IPv4, r)
		} else {
			out.IPv6 = append(out.IPv6, r)
		}
	}
	return &out, nil
}

// holds reports whether a range is within the subnet.
func (p *pool) holds(cidr netip.Prefix) bool {
	within := func(whole netip.Prefix) bool {
		return whole.IsValid() && whole.Bits() <= cidr.Bits() && whole.Contains(cidr.Addr())
	}
	return within(p.cidr) || within(p.cidr6)
}

// givesPrefixes reports whether EC2 takes prefixes from where the address is: from the space reserved for them if there is
// any, and never from what is reserved explicitly.
func (p *pool) givesPrefixes(a netip.Addr) bool {
	own := false
	for _, r := range p.reservations {
		if r.CIDR.Contains(a) {
			return r.ReservationType == reservationPrefix
		}
		own = own || r.ReservationType == reservationPrefix && r.CIDR.Addr().BitLen() == a.BitLen()
	}
	return !own
}

// reserved reports whether an address is kept from those who name none. The space for prefixes is, and so is the explicit.
func (p *pool) reserved(a netip.Addr) bool {
	return slices.ContainsFunc(p.reservations, func(r *SubnetCIDRReservation) bool { return r.CIDR.Contains(a) })
}
