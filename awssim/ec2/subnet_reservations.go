// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"net/netip"
	"slices"
)

// The types of CIDR reservations: addresses that only explicit requests get, and space for delegated prefixes.
const (
	reservationExplicit = "explicit"
	reservationPrefix   = "prefix"
)

// SubnetCIDRReservation excludes a part of a subnet from EC2's automatic assignment (Amazon VPC user guide, "Subnet
// CIDR reservations").
type SubnetCIDRReservation struct {
	SubnetCIDRReservationID string       `json:"subnetCidrReservationId"`
	SubnetID                string       `json:"subnetId"`
	CIDR                    netip.Prefix `json:"cidr"`
	ReservationType         string       `json:"reservationType"`
	OwnerID                 string       `json:"ownerId"`
	Description             string       `json:"description,omitempty"`
	Tags                    Tags         `json:"tags" xml:"tagSet"`
}

func reservationKind() kind[SubnetCIDRReservation] {
	return kind[SubnetCIDRReservation]{
		action:     "GetSubnetCidrReservations",
		id:         func(r *SubnetCIDRReservation) string { return r.SubnetCIDRReservationID },
		tags:       func(r *SubnetCIDRReservation) Tags { return r.Tags },
		retag:      func(r *SubnetCIDRReservation, tags Tags) { r.Tags = tags },
		notFound:   reservationNotFound,
		minResults: 5,
		maxResults: 1000,
		filters: map[string]func(*SubnetCIDRReservation) []string{
			"reservationType": func(r *SubnetCIDRReservation) []string { return one(r.ReservationType) },
			filterSubnet:      func(r *SubnetCIDRReservation) []string { return one(r.SubnetID) },
		},
		keys:      func(r *SubnetCIDRReservation) []string { return []string{indexKey(filterSubnet, r.SubnetID)} },
		isIndexed: func(filter string) bool { return filter == filterSubnet },
	}
}

// CreateSubnetCIDRReservationInput is the request of CreateSubnetCidrReservation.
type CreateSubnetCIDRReservationInput struct {
	DryRun            bool               `query:"DryRun"`
	SubnetID          string             `query:"SubnetId"`
	CIDR              string             `query:"Cidr"`
	ReservationType   string             `query:"ReservationType"`
	Description       string             `query:"Description"`
	TagSpecifications []TagSpecification `query:"TagSpecification"`
}

// CreateSubnetCIDRReservationOutput is its answer.
type CreateSubnetCIDRReservationOutput struct {
	SubnetCIDRReservation *SubnetCIDRReservation `json:"subnetCidrReservation"`
}

// CreateSubnetCIDRReservation reserves a part of a subnet. Interfaces keep their addresses in it. There is no client
// token: EC2 refuses a repeated request because the block overlaps itself.
func (m *Model) CreateSubnetCIDRReservation(
	c Call, in *CreateSubnetCIDRReservationInput,
) (*CreateSubnetCIDRReservationOutput, error) {
	m.Advance(c.Now)
	subnet := m.subnets.get(in.SubnetID)
	if subnet == nil {
		return nil, subnetNotFound(in.SubnetID)
	}
	if subnet.OwnerID != m.account {
		return nil, refuse("UnauthorizedOperation", "You are not authorized to perform this operation.")
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
		return nil, invalidValue("Reservation CIDR %s has overlap with existing reserved CIDR block", in.CIDR)
	}
	tags, err := tagsFor(kindOf("scr-"), in.TagSpecifications)
	if err != nil {
		return nil, err
	}
	if in.DryRun {
		return nil, dryRun()
	}
	made := &SubnetCIDRReservation{
		SubnetCIDRReservationID: m.id("scr"), SubnetID: in.SubnetID, CIDR: cidr, ReservationType: in.ReservationType,
		OwnerID: subnet.OwnerID, Description: in.Description, Tags: tags,
	}
	pool.reservations = append(pool.reservations, made)
	put(m, m.reservations, made.SubnetCIDRReservationID, made)
	m.hide("CreateSubnetCidrReservation", made.SubnetCIDRReservationID)
	return &CreateSubnetCIDRReservationOutput{made}, nil
}

// DeleteSubnetCIDRReservationInput is the request of DeleteSubnetCidrReservation.
type DeleteSubnetCIDRReservationInput struct {
	DryRun                  bool   `query:"DryRun"`
	SubnetCIDRReservationID string `query:"SubnetCidrReservationId"`
}

// DeleteSubnetCIDRReservationOutput is its answer.
type DeleteSubnetCIDRReservationOutput struct {
	DeletedSubnetCIDRReservation *SubnetCIDRReservation `json:"deletedSubnetCidrReservation"`
}

// DeleteSubnetCIDRReservation deletes a reservation. Interfaces keep their addresses of its block.
func (m *Model) DeleteSubnetCIDRReservation(
	c Call, in *DeleteSubnetCIDRReservationInput,
) (*DeleteSubnetCIDRReservationOutput, error) {
	m.Advance(c.Now)
	reservation := m.reservations.get(in.SubnetCIDRReservationID)
	if reservation == nil {
		return nil, reservationNotFound(in.SubnetCIDRReservationID)
	}
	if in.DryRun {
		return nil, dryRun()
	}
	pool := m.pools[reservation.SubnetID]
	pool.reservations = slices.DeleteFunc(pool.reservations, func(r *SubnetCIDRReservation) bool {
		return r.SubnetCIDRReservationID == in.SubnetCIDRReservationID
	})
	pool.low = 0
	put(m, m.reservations, in.SubnetCIDRReservationID, nil)
	return &DeleteSubnetCIDRReservationOutput{reservation}, nil
}

func reservationNotFound(id string) *Error {
	if !isWellFormed(id, "scr") {
		return refuse("InvalidSubnetCidrReservationID.Malformed", "Invalid id: %q (expecting \"scr-...\")", id)
	}
	return refuse("InvalidSubnetCidrReservationID.NotFound", "The subnet CIDR reservation ID '%s' does not exist", id)
}

// GetSubnetCIDRReservationsInput is the request of GetSubnetCidrReservations.
type GetSubnetCIDRReservationsInput struct {
	Page
	SubnetID string `query:"SubnetId"`
}

// GetSubnetCIDRReservationsOutput is its answer, by family.
type GetSubnetCIDRReservationsOutput struct {
	IPv4      []*SubnetCIDRReservation `json:"subnetIpv4CidrReservationSet"`
	IPv6      []*SubnetCIDRReservation `json:"subnetIpv6CidrReservationSet"`
	NextToken string                   `json:"nextToken,omitempty"`
}

// GetSubnetCIDRReservations lists the reservations of a subnet that match all filters.
func (m *Model) GetSubnetCIDRReservations(
	c Call, in *GetSubnetCIDRReservationsInput,
) (*GetSubnetCIDRReservationsOutput, error) {
	m.Advance(c.Now)
	if m.subnets.get(in.SubnetID) == nil {
		return nil, subnetNotFound(in.SubnetID)
	}
	page := in.Page
	page.Filters = append(slices.Clone(page.Filters), Filter{Name: filterSubnet, Values: []string{in.SubnetID}})
	found, next, err := describe(m, c, m.reservations, nil, page)
	if err != nil {
		return nil, err
	}
	out := &GetSubnetCIDRReservationsOutput{NextToken: next}
	for _, r := range found {
		if r.CIDR.Addr().Is4() {
			out.IPv4 = append(out.IPv4, r)
		} else {
			out.IPv6 = append(out.IPv6, r)
		}
	}
	return out, nil
}

// holds reports whether a range is within the subnet.
func (p *pool) holds(cidr netip.Prefix) bool {
	within := func(whole netip.Prefix) bool {
		return whole.IsValid() && whole.Bits() <= cidr.Bits() && whole.Contains(cidr.Addr())
	}
	return within(p.cidr) || within(p.cidr6)
}

// givesPrefixes reports whether EC2 assigns prefixes at the address: from the space reserved for prefixes if there is
// any, and never from an explicit reservation.
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

// reserved reports whether EC2 does not assign an address automatically: both types of reservations exclude it.
func (p *pool) reserved(a netip.Addr) bool {
	return slices.ContainsFunc(p.reservations, func(r *SubnetCIDRReservation) bool { return r.CIDR.Contains(a) })
}
