// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// CreateSubnetInput is the request of CreateSubnet.
type CreateSubnetInput struct {
	VPCID              string             `query:"VpcId"`
	CIDRBlock          string             `query:"CidrBlock"`
	IPv6CIDRBlock      string             `query:"Ipv6CidrBlock"`
	IPv6Native         bool               `query:"Ipv6Native"`
	AvailabilityZone   string             `query:"AvailabilityZone"`
	AvailabilityZoneID string             `query:"AvailabilityZoneId"`
	TagSpecifications  []TagSpecification `query:"TagSpecification"`
	DryRun             bool               `query:"DryRun"`
}

// CreateSubnetOutput is its answer.
type CreateSubnetOutput struct {
	Subnet *Subnet `json:"subnet"`
}

// CreateSubnet creates a subnet in a VPC. Without a zone EC2 chooses one, here the first.
func (m *Model) CreateSubnet(c Call, in *CreateSubnetInput) (*CreateSubnetOutput, error) {
	m.Advance(c.Now)
	tags, err := tagsFor("subnet", in.TagSpecifications)
	if err != nil {
		return nil, err
	}
	vpc, err := m.vpcOf(in.VPCID)
	if err != nil {
		return nil, err
	}
	zone, err := m.zoneFor(in)
	if err != nil {
		return nil, err
	}
	cidr, six, err := m.rangesFor(vpc, in)
	if err != nil {
		return nil, err
	}
	if in.DryRun {
		return nil, dryRun()
	}
	subnet := m.newSubnet(WorldSubnet{
		SubnetID: m.networkID("subnet"), VPCID: in.VPCID, AvailabilityZone: zone, CIDRBlock: cidr,
		IPv6CIDRBlock: six, IPv6Native: in.IPv6Native, Tags: tags,
	}, m.networkID("subnet-cidr-assoc"))
	put(m, m.subnets, subnet.SubnetID, subnet)
	return &CreateSubnetOutput{m.presentSubnet(subnet, look{})}, nil
}

// newSubnet returns a subnet, and creates the pool of its addresses.
func (m *Model) newSubnet(spec WorldSubnet, associationID string) *Subnet {
	m.pools[spec.SubnetID] = newPool(spec.CIDRBlock, spec.IPv6CIDRBlock)
	return &Subnet{
		SubnetID: spec.SubnetID, SubnetARN: m.ARN("subnet", spec.SubnetID), VPCID: spec.VPCID,
		AvailabilityZone: spec.AvailabilityZone, AvailabilityZoneID: m.zoneID(spec.AvailabilityZone),
		State: StatusAvailable, CIDRBlock: spec.CIDRBlock, DefaultForAZ: spec.DefaultForAZ,
		MapPublicIPOnLaunch: spec.MapPublicIPOnLaunch, OwnerID: cmp.Or(spec.OwnerID, m.account), Tags: spec.Tags,
		IPv6CIDRBlockAssociations: subnetAssociations(associationID, spec.IPv6CIDRBlock),
		// EC2 has no IPv6-only subnet without this attribute (ModifySubnetAttribute).
		IPv6Native: spec.IPv6Native, AssignIPv6AddressOnCreation: spec.IPv6Native,
		SubnetSettings: SubnetSettings{PrivateDNSNameOptionsOnLaunch: namesOnLaunch(spec.IPv6Native)},
	}
}

// namesOnLaunch are the names of instances in a new subnet: an IPv6-only one cannot name them by an IPv4 address.
func namesOnLaunch(ipv6Native bool) PrivateDNSNameOptionsOnLaunch {
	if ipv6Native {
		return PrivateDNSNameOptionsOnLaunch{HostnameType: hostnameTypeResource}
	}
	return PrivateDNSNameOptionsOnLaunch{HostnameType: hostnameTypeIP}
}

// Host names of instances: by their address, or by their ID.
const (
	hostnameTypeIP       = "ip-name"
	hostnameTypeResource = "resource-name"
)

// zoneFor returns the zone of a new subnet.
func (m *Model) zoneFor(in *CreateSubnetInput) (string, error) {
	at := slices.IndexFunc(m.zones, func(z AvailabilityZone) bool {
		return (in.AvailabilityZone == "" || z.ZoneName == in.AvailabilityZone) &&
			(in.AvailabilityZoneID == "" || z.ZoneID == in.AvailabilityZoneID)
	})
	if at < 0 {
		return "", invalidValue("Value (%s) for parameter availabilityZone is invalid. Subnets can currently only be "+
			"created in the following availability zones: %s.", cmp.Or(in.AvailabilityZone, in.AvailabilityZoneID),
			strings.Join(each(m.zones, func(z AvailabilityZone) string { return z.ZoneName }), ", "))
	}
	return m.zones[at].ZoneName, nil
}

// rangesFor returns the ranges of a new subnet.
func (m *Model) rangesFor(vpc *VPC, in *CreateSubnetInput) (four, six netip.Prefix, err error) {
	switch {
	case in.IPv6Native && in.CIDRBlock != "":
		return four, six, invalidCombination("An IPv6-only subnet cannot have a cidrBlock")
	case in.IPv6Native && in.IPv6CIDRBlock == "":
		return four, six, missing("ipv6CidrBlock")
	case !in.IPv6Native:
		if four, err = readRange("cidrBlock", in.CIDRBlock); err != nil {
			return four, six, err
		}
		if !four.Addr().Is4() || four.Bits() < 16 || four.Bits() > 28 || !within(vpc.CIDRBlock, four) {
			return four, six, refuse("InvalidSubnet.Range", "The CIDR '%s' is invalid.", in.CIDRBlock)
		}
	}
	if in.IPv6CIDRBlock != "" {
		if six, err = ipv6RangeFor(vpc, in.IPv6CIDRBlock); err != nil {
			return four, six, err
		}
	}
	return four, six, m.noConflict(vpc.VPCID, four, six)
}

// ipv6RangeFor reads the IPv6 range of a new subnet: a /64 of the VPC.
func ipv6RangeFor(vpc *VPC, text string) (netip.Prefix, error) {
	six, err := readRange("ipv6CidrBlock", text)
	if err != nil {
		return six, err
	}
	isIn := func(a IPv6Association) bool { return within(a.IPv6CIDRBlock, six) }
	if !six.Addr().Is6() || six.Bits() != 64 || !slices.ContainsFunc(vpc.IPv6CIDRBlockAssociations, isIn) {
		return six, refuse("InvalidSubnet.Range", "The CIDR '%s' is invalid.", text)
	}
	return six, nil
}

func within(outer, inner netip.Prefix) bool {
	return outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}

// noConflict returns EC2's error for ranges that overlap those of another subnet.
func (m *Model) noConflict(vpcID string, ranges ...netip.Prefix) error {
	for _, subnet := range m.subnets.all() {
		if subnet.VPCID != vpcID {
			continue
		}
		taken := []netip.Prefix{subnet.CIDRBlock}
		for _, a := range subnet.IPv6CIDRBlockAssociations {
			taken = append(taken, a.IPv6CIDRBlock)
		}
		for _, r := range ranges {
			if slices.ContainsFunc(taken, r.Overlaps) {
				return refuse("InvalidSubnet.Conflict", "The CIDR '%s' conflicts with another subnet", r)
			}
		}
	}
	return nil
}

// DeleteSubnetInput is the request of DeleteSubnet.
type DeleteSubnetInput struct {
	SubnetID string `query:"SubnetId"`
	DryRun   bool   `query:"DryRun"`
}

// DeleteSubnet deletes a subnet without interfaces, with its CIDR reservations and its association with a route table.
func (m *Model) DeleteSubnet(c Call, in *DeleteSubnetInput) (*Return, error) {
	m.Advance(c.Now)
	if _, err := m.subnetOf(in.SubnetID); err != nil {
		return nil, err
	}
	if len(m.interfaces.indexed(indexKey(filterSubnet, in.SubnetID))) > 0 {
		return nil, dependent("subnet", in.SubnetID)
	}
	if in.DryRun {
		return nil, dryRun()
	}
	for _, r := range m.reservations.indexed(indexKey(filterSubnet, in.SubnetID)) {
		put(m, m.reservations, r.SubnetCIDRReservationID, nil)
	}
	if table, a := m.associationOf(func(a RouteTableAssociation) bool { return a.SubnetID == in.SubnetID }); table != nil {
		m.putAssociations(table, without(table.Associations, func(have RouteTableAssociation) bool { return have == a }))
	}
	put(m, m.subnets, in.SubnetID, nil)
	return &Return{true}, nil
}

// subnetOf returns a subnet that a request names.
func (m *Model) subnetOf(id string) (*Subnet, error) {
	if id == "" {
		return nil, missing("subnetId")
	}
	subnet := m.subnets.get(id)
	if subnet == nil {
		return nil, subnetNotFound(id)
	}
	return subnet, nil
}

// ModifySubnetAttributeInput is the request of ModifySubnetAttribute: one attribute per call.
type ModifySubnetAttributeInput struct {
	SubnetID                             string     `query:"SubnetId"`
	MapPublicIPOnLaunch                  *BoolValue `query:"MapPublicIpOnLaunch"`
	AssignIPv6AddressOnCreation          *BoolValue `query:"AssignIpv6AddressOnCreation"`
	EnableDNS64                          *BoolValue `query:"EnableDns64"`
	EnableResourceNameDNSARecordOnLaunch *BoolValue `query:"EnableResourceNameDnsARecordOnLaunch"`
	EnableResourceNameDNSAAAARecord      *BoolValue `query:"EnableResourceNameDnsAAAARecordOnLaunch"`
	PrivateDNSHostnameTypeOnLaunch       string     `query:"PrivateDnsHostnameTypeOnLaunch"`
}

// ModifySubnetAttribute sets an attribute of a subnet.
func (m *Model) ModifySubnetAttribute(c Call, in *ModifySubnetAttributeInput) (*Return, error) {
	m.Advance(c.Now)
	subnet, err := m.subnetOf(in.SubnetID)
	if err != nil {
		return nil, err
	}
	changed := *subnet
	names := &changed.PrivateDNSNameOptionsOnLaunch
	switch in.PrivateDNSHostnameTypeOnLaunch {
	case "":
		err = setOnly(
			setting{in.MapPublicIPOnLaunch, &changed.MapPublicIPOnLaunch},
			setting{in.AssignIPv6AddressOnCreation, &changed.AssignIPv6AddressOnCreation},
			setting{in.EnableDNS64, &changed.EnableDNS64},
			setting{in.EnableResourceNameDNSARecordOnLaunch, &names.EnableResourceNameDNSARecord},
			setting{in.EnableResourceNameDNSAAAARecord, &names.EnableResourceNameDNSAAAARecord},
		)
	case hostnameTypeIP, hostnameTypeResource:
		names.HostnameType = in.PrivateDNSHostnameTypeOnLaunch
	default:
		err = invalidValue("Value (%s) for parameter privateDnsHostnameTypeOnLaunch is invalid.",
			in.PrivateDNSHostnameTypeOnLaunch)
	}
	if err == nil && changed.AssignIPv6AddressOnCreation && len(changed.IPv6CIDRBlockAssociations) == 0 {
		err = invalidValue("The subnet %s has no IPv6 CIDR block", in.SubnetID)
	}
	if err != nil {
		return nil, err
	}
	put(m, m.subnets, in.SubnetID, &changed)
	return &Return{true}, nil
}
