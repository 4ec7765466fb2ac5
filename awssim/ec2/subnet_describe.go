// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

// DescribeSubnetsInput is the request of DescribeSubnets.
type DescribeSubnetsInput struct {
	Page
	SubnetIDs []string `query:"SubnetId"`
}

// DescribeSubnetsOutput is its answer.
type DescribeSubnetsOutput struct {
	Subnets   []*Subnet `json:"subnets" xml:"subnetSet"`
	NextToken string    `json:"nextToken,omitempty"`
}

// DescribeSubnets lists subnets.
func (m *Model) DescribeSubnets(c Call, in *DescribeSubnetsInput) (*DescribeSubnetsOutput, error) {
	found, next, err := describe(m, c, m.subnets, in.SubnetIDs, in.Page)
	if err != nil {
		return nil, err
	}
	return &DescribeSubnetsOutput{found, next}, nil
}

func (m *Model) subnetKind() kind[Subnet] {
	zone := func(s *Subnet) []string { return one(s.AvailabilityZone) }
	zoneID := func(s *Subnet) []string { return one(s.AvailabilityZoneID) }
	cidr := func(s *Subnet) []string {
		if !s.CIDRBlock.IsValid() {
			return nil
		}
		return one(s.CIDRBlock.String())
	}
	return kind[Subnet]{
		action:     "DescribeSubnets",
		id:         func(s *Subnet) string { return s.SubnetID },
		tags:       func(s *Subnet) Tags { return s.Tags },
		retag:      func(s *Subnet, tags Tags) { s.Tags = tags },
		notFound:   subnetNotFound,
		minResults: 5,
		maxResults: 1000,
		present:    m.presentSubnet,
		filters: map[string]func(*Subnet) []string{
			"availability-zone":          zone,
			"availabilityZone":           zone,
			"availability-zone-id":       zoneID,
			"availabilityZoneId":         zoneID,
			"available-ip-address-count": func(s *Subnet) []string { return number(s.AvailableIPAddressCount) },
			"cidr-block":                 cidr,
			"cidr":                       cidr,
			"cidrBlock":                  cidr,
			"default-for-az":             func(s *Subnet) []string { return truth(s.DefaultForAZ) },
			"defaultForAz":               func(s *Subnet) []string { return truth(s.DefaultForAZ) },
			"ipv6-native":                func(s *Subnet) []string { return truth(s.IPv6Native) },
			"map-public-ip-on-launch":    func(s *Subnet) []string { return truth(s.MapPublicIPOnLaunch) },
			"owner-id":                   func(s *Subnet) []string { return one(s.OwnerID) },
			"state":                      func(s *Subnet) []string { return one(s.State) },
			"subnet-arn":                 func(s *Subnet) []string { return one(s.SubnetARN) },
			filterSubnet:                 func(s *Subnet) []string { return one(s.SubnetID) },
			filterVPC:                    func(s *Subnet) []string { return one(s.VPCID) },
			"enable-dns64":               func(s *Subnet) []string { return truth(s.EnableDNS64) },
			"ipv6-cidr-block-association.association-id": func(s *Subnet) []string {
				return each(s.IPv6CIDRBlockAssociations, func(a IPv6Association) string { return a.AssociationID })
			},
			"ipv6-cidr-block-association.state": func(s *Subnet) []string {
				return each(s.IPv6CIDRBlockAssociations, func(a IPv6Association) string { return a.IPv6CIDRBlockState.State })
			},
			"private-dns-name-options-on-launch.hostname-type": func(s *Subnet) []string {
				return one(s.PrivateDNSNameOptionsOnLaunch.HostnameType)
			},
			"ipv6-cidr-block-association.ipv6-cidr-block": func(s *Subnet) []string {
				return each(s.IPv6CIDRBlockAssociations, func(a IPv6Association) string { return a.IPv6CIDRBlock.String() })
			},
		},
	}
}

// presentSubnet sets the number of free addresses.
func (m *Model) presentSubnet(subnet *Subnet, _ look) *Subnet {
	counted := *subnet
	counted.AvailableIPAddressCount = m.pools[subnet.SubnetID].free
	return &counted
}

func subnetNotFound(id string) *Error {
	if !isWellFormed(id, "subnet") {
		return refuse("InvalidSubnetID.Malformed", "Invalid id: %q (expecting \"subnet-...\")", id)
	}
	return refuse("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", id)
}

// DescribeVPCsInput is the request of DescribeVpcs.
type DescribeVPCsInput struct {
	Page
	VPCIDs []string `query:"VpcId"`
}

// DescribeVPCsOutput is its answer.
type DescribeVPCsOutput struct {
	VPCs      []*VPC `json:"vpcs" xml:"vpcSet"`
	NextToken string `json:"nextToken,omitempty"`
}

// DescribeVPCs lists VPCs.
func (m *Model) DescribeVPCs(c Call, in *DescribeVPCsInput) (*DescribeVPCsOutput, error) {
	found, next, err := describe(m, c, m.vpcs, in.VPCIDs, in.Page)
	if err != nil {
		return nil, err
	}
	return &DescribeVPCsOutput{found, next}, nil
}

func vpcKind() kind[VPC] {
	return kind[VPC]{
		action:     "DescribeVpcs",
		id:         func(v *VPC) string { return v.VPCID },
		tags:       func(v *VPC) Tags { return v.Tags },
		retag:      func(v *VPC, tags Tags) { v.Tags = tags },
		internal:   func(v *VPC) any { return &v.attributes },
		notFound:   vpcNotFound,
		minResults: 5,
		maxResults: 1000,
		filters: map[string]func(*VPC) []string{
			"cidr":                              func(v *VPC) []string { return one(v.CIDRBlock.String()) },
			"cidr-block-association.cidr-block": func(v *VPC) []string { return one(v.CIDRBlock.String()) },
			"cidr-block-association.association-id": func(v *VPC) []string {
				return each(v.CIDRBlockAssociations, func(a IPv4Association) string { return a.AssociationID })
			},
			"cidr-block-association.state": func(v *VPC) []string {
				return each(v.CIDRBlockAssociations, func(a IPv4Association) string { return a.CIDRBlockState.State })
			},
			"ipv6-cidr-block-association.association-id": func(v *VPC) []string {
				return each(v.IPv6CIDRBlockAssociations, func(a IPv6Association) string { return a.AssociationID })
			},
			"ipv6-cidr-block-association.state": func(v *VPC) []string {
				return each(v.IPv6CIDRBlockAssociations, func(a IPv6Association) string { return a.IPv6CIDRBlockState.State })
			},
			"dhcp-options-id": func(v *VPC) []string { return one(v.DHCPOptionsID) },
			"ipv6-cidr-block-association.ipv6-cidr-block": func(v *VPC) []string {
				return each(v.IPv6CIDRBlockAssociations, func(a IPv6Association) string { return a.IPv6CIDRBlock.String() })
			},
			"isDefault":  func(v *VPC) []string { return truth(v.IsDefault) },
			"is-default": func(v *VPC) []string { return truth(v.IsDefault) },
			"owner-id":   func(v *VPC) []string { return one(v.OwnerID) },
			"state":      func(v *VPC) []string { return one(v.State) },
			filterVPC:    func(v *VPC) []string { return one(v.VPCID) },
		},
	}
}

func vpcNotFound(id string) *Error {
	if !isWellFormed(id, "vpc") {
		return refuse("InvalidVpcId.Malformed", "Invalid id: %q (expecting \"vpc-...\")", id)
	}
	return refuse("InvalidVpcID.NotFound", "The vpc ID '%s' does not exist", id)
}

// DescribeAvailabilityZonesInput is the request of DescribeAvailabilityZones.
type DescribeAvailabilityZonesInput struct {
	Filters   []Filter `query:"Filter"`
	ZoneNames []string `query:"ZoneName"`
	ZoneIDs   []string `query:"ZoneId"`
	DryRun    bool     `query:"DryRun"`
}

// DescribeAvailabilityZonesOutput is its answer.
type DescribeAvailabilityZonesOutput struct {
	AvailabilityZones []AvailabilityZone `json:"availabilityZones" xml:"availabilityZoneInfo"`
}

// DescribeAvailabilityZones lists the zones of the region.
func (m *Model) DescribeAvailabilityZones(
	c Call, in *DescribeAvailabilityZonesInput,
) (*DescribeAvailabilityZonesOutput, error) {
	m.Advance(c.Now)
	k := zoneKind()
	if err := validateFilters(k, in.Filters); err != nil {
		return nil, err
	}
	if in.DryRun {
		return nil, dryRun()
	}
	out := &DescribeAvailabilityZonesOutput{}
	for _, want := range in.ZoneNames {
		if m.zoneID(want) == "" {
			return nil, invalidValue("Invalid availability zone: [%s]", want)
		}
	}
	for _, zone := range m.zones {
		if (len(in.ZoneNames) == 0 || matchesAny(in.ZoneNames, zone.ZoneName)) &&
			(len(in.ZoneIDs) == 0 || matchesAny(in.ZoneIDs, zone.ZoneID)) && matchesAll(k, &zone, in.Filters) {
			out.AvailabilityZones = append(out.AvailabilityZones, zone)
		}
	}
	return out, nil
}

func zoneKind() kind[AvailabilityZone] {
	return kind[AvailabilityZone]{
		action: "DescribeAvailabilityZones",
		filters: map[string]func(*AvailabilityZone) []string{
			"group-name":    func(z *AvailabilityZone) []string { return one(z.GroupName) },
			"opt-in-status": func(z *AvailabilityZone) []string { return one(z.OptInStatus) },
			"region-name":   func(z *AvailabilityZone) []string { return one(z.RegionName) },
			"state":         func(z *AvailabilityZone) []string { return one(z.ZoneState) },
			"zone-id":       func(z *AvailabilityZone) []string { return one(z.ZoneID) },
			"zone-name":     func(z *AvailabilityZone) []string { return one(z.ZoneName) },
			"zone-type":     func(z *AvailabilityZone) []string { return one(z.ZoneType) },
		},
	}
}
