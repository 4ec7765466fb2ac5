// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// maxVPCs is the default of Service Quotas for VPCs per Region.
const maxVPCs = 5

// defaultGroupName is the name of the security group that every VPC has.
const defaultGroupName = "default"

// tenancyDefault is the tenancy of instances on shared hardware.
const tenancyDefault = "default"

// CreateVPCInput is the request of CreateVpc.
type CreateVPCInput struct {
	CIDRBlock                       string             `query:"CidrBlock"`
	AmazonProvidedIPv6CIDRBlock     bool               `query:"AmazonProvidedIpv6CidrBlock"`
	IPv6CIDRBlockNetworkBorderGroup string             `query:"Ipv6CidrBlockNetworkBorderGroup"`
	InstanceTenancy                 string             `query:"InstanceTenancy"`
	TagSpecifications               []TagSpecification `query:"TagSpecification"`
	DryRun                          bool               `query:"DryRun"`
}

// CreateVPCOutput is its answer.
type CreateVPCOutput struct {
	VPC *VPC `json:"vpc"`
}

// CreateVPC creates a VPC with its default security group, main route table and default network ACL.
func (m *Model) CreateVPC(c Call, in *CreateVPCInput) (*CreateVPCOutput, error) {
	m.Advance(c.Now)
	tags, err := tagsFor("vpc", in.TagSpecifications)
	if err != nil {
		return nil, err
	}
	cidr, err := m.canCreateVPC(in)
	if err != nil {
		return nil, err
	}
	if in.DryRun {
		return nil, dryRun()
	}
	vpc := &VPC{
		VPCID: m.networkID("vpc"), State: StatusAvailable, CIDRBlock: cidr, InstanceTenancy: tenancyDefault,
		DHCPOptionsID: m.dhcpOptionsID(), OwnerID: m.account, Tags: tags, attributes: vpcAttributes{DNSSupport: true},
		CIDRBlockAssociations: []IPv4Association{{
			AssociationID: m.networkID("vpc-cidr-assoc"), CIDRBlock: cidr, CIDRBlockState: CIDRBlockState{associated},
		}},
	}
	if in.AmazonProvidedIPv6CIDRBlock {
		vpc.IPv6CIDRBlockAssociations = m.vpcAssociations(m.networkID("vpc-cidr-assoc"), m.providedRange())
	}
	put(m, m.vpcs, vpc.VPCID, vpc)
	m.furnish(vpc, true)
	// EC2 answers before the VPC is complete.
	answer := *vpc
	answer.State = StatusPending
	return &CreateVPCOutput{&answer}, nil
}

// canCreateVPC returns the range of a new VPC.
func (m *Model) canCreateVPC(in *CreateVPCInput) (netip.Prefix, error) {
	cidr, err := readRange("cidrBlock", in.CIDRBlock)
	switch {
	case err != nil:
		return cidr, err
	case !cidr.Addr().Is4() || cidr.Bits() < 16 || cidr.Bits() > 28:
		return cidr, refuse("InvalidVpc.Range", "The CIDR '%s' is invalid.", in.CIDRBlock)
	case in.InstanceTenancy != "" && in.InstanceTenancy != tenancyDefault:
		return cidr, notModelled("the tenancy " + in.InstanceTenancy)
	case len(m.vpcs.all()) >= orDefault(m.world.Quotas.VPCs, maxVPCs):
		return cidr, refuse("VpcLimitExceeded", "The maximum number of VPCs has been reached.")
	}
	return cidr, nil
}

// readRange reads a range. EC2 clears the bits of an address that are behind the prefix length.
func readRange(parameter, text string) (netip.Prefix, error) {
	if text == "" {
		return netip.Prefix{}, missing(parameter)
	}
	cidr, err := netip.ParsePrefix(text)
	if err != nil {
		return cidr, invalidValue("Value (%s) for parameter %s is invalid. This is not a valid CIDR block.", text, parameter)
	}
	return cidr.Masked(), nil
}

func orDefault(value, otherwise int) int {
	if value == 0 {
		return otherwise
	}
	return value
}

// providedRange is the next /56 of Amazon's pool of public IPv6 addresses. Here the pool is 2600:1f00::/24, and Amazon
// has VPCs in it.
func (m *Model) providedRange() netip.Prefix {
	m.ipv6Ranges++
	bytes := [16]byte{0x26, 0x00, 0x1f}
	binary.BigEndian.PutUint32(bytes[3:], m.ipv6Ranges)
	return netip.PrefixFrom(netip.AddrFrom16(bytes), 56)
}

// dhcpOptionsID is the ID of the region's default set of DHCP options.
func (m *Model) dhcpOptionsID() string { return "dopt-0000000000000d0b7" }

// furnish creates what every VPC has, unless the world has it.
func (m *Model) furnish(vpc *VPC, needsGroup bool) {
	if needsGroup {
		m.putGroup(&SecurityGroup{
			GroupID: m.networkID("sg"), GroupName: defaultGroupName, Description: "default VPC security group",
			VPCID: vpc.VPCID,
		})
	}
	acl := &NetworkACL{
		NetworkACLID: m.networkID("acl"), VPCID: vpc.VPCID, IsDefault: true, OwnerID: m.account, Entries: defaultEntries(),
	}
	put(m, m.networkACLs, acl.NetworkACLID, acl)
	m.putRouteTable(vpc, nil, true)
}

// DeleteVPCInput is the request of DeleteVpc.
type DeleteVPCInput struct {
	VPCID  string `query:"VpcId"`
	DryRun bool   `query:"DryRun"`
}

// DeleteVPC deletes a VPC with its default security group, main route table and default network ACL. Everything else
// that is in it must be deleted before.
func (m *Model) DeleteVPC(c Call, in *DeleteVPCInput) (*Return, error) {
	m.Advance(c.Now)
	if _, err := m.vpcOf(in.VPCID); err != nil {
		return nil, err
	}
	if m.vpcHasParts(in.VPCID) {
		return nil, dependent("vpc", in.VPCID)
	}
	if in.DryRun {
		return nil, dryRun()
	}
	for _, group := range m.groups.all() {
		if group.VPCID == in.VPCID {
			m.removeGroup(group.GroupID)
		}
	}
	for _, table := range m.routeTables.all() {
		if table.VPCID == in.VPCID {
			put(m, m.routeTables, table.RouteTableID, nil)
		}
	}
	for _, acl := range m.networkACLs.all() {
		if acl.VPCID == in.VPCID {
			put(m, m.networkACLs, acl.NetworkACLID, nil)
		}
	}
	put(m, m.vpcs, in.VPCID, nil)
	return &Return{true}, nil
}

// vpcHasParts reports whether a VPC has more in it than each VPC.
func (m *Model) vpcHasParts(id string) bool {
	return slices.ContainsFunc(m.subnets.all(), func(s *Subnet) bool { return s.VPCID == id }) ||
		slices.ContainsFunc(m.groups.all(), func(g *SecurityGroup) bool {
			return g.VPCID == id && g.GroupName != defaultGroupName
		}) ||
		slices.ContainsFunc(m.routeTables.all(), func(t *RouteTable) bool { return t.VPCID == id && !t.isMain() }) ||
		slices.ContainsFunc(m.internetGateways.all(), func(g *InternetGateway) bool { return g.isAttachedTo(id) })
}

// dependent is EC2's refusal to delete what other resources need.
func dependent(kind, id string) *Error {
	return refuse("DependencyViolation", "The %s '%s' has dependencies and cannot be deleted.", kind, id)
}

// vpcOf returns a VPC that a request names.
func (m *Model) vpcOf(id string) (*VPC, error) {
	if id == "" {
		return nil, missing("vpcId")
	}
	vpc := m.vpcs.get(id)
	if vpc == nil {
		return nil, vpcNotFound(id)
	}
	return vpc, nil
}

// vpcAttributes are attributes of a VPC that DescribeVpcs does not show.
type vpcAttributes struct {
	DNSSupport   bool `json:"dnsSupport,omitempty"`
	DNSHostnames bool `json:"dnsHostnames,omitempty"`
	UsageMetrics bool `json:"usageMetrics,omitempty"`
}

// DescribeVPCAttributeInput is the request of DescribeVpcAttribute.
type DescribeVPCAttributeInput struct {
	VPCID     string `query:"VpcId"`
	Attribute string `query:"Attribute"`
	DryRun    bool   `query:"DryRun"`
}

// DescribeVPCAttributeOutput is its answer: the ID, and the one attribute.
type DescribeVPCAttributeOutput struct {
	VPCID                            string          `json:"vpcId"`
	EnableDNSSupport                 *TruthAttribute `json:"enableDnsSupport,omitempty"`
	EnableDNSHostnames               *TruthAttribute `json:"enableDnsHostnames,omitempty"`
	EnableNetworkAddressUsageMetrics *TruthAttribute `json:"enableNetworkAddressUsageMetrics,omitempty"`
}

// DescribeVPCAttribute returns one attribute of a VPC.
func (m *Model) DescribeVPCAttribute(c Call, in *DescribeVPCAttributeInput) (*DescribeVPCAttributeOutput, error) {
	if in.VPCID == "" {
		return nil, missing("vpcId")
	}
	found, _, err := describe(m, c, m.vpcs, []string{in.VPCID}, Page{DryRun: in.DryRun})
	if err != nil {
		return nil, err
	}
	attributes, out := found[0].attributes, &DescribeVPCAttributeOutput{VPCID: in.VPCID}
	switch in.Attribute {
	case "enableDnsSupport":
		out.EnableDNSSupport = &TruthAttribute{attributes.DNSSupport}
	case "enableDnsHostnames":
		out.EnableDNSHostnames = &TruthAttribute{attributes.DNSHostnames}
	case "enableNetworkAddressUsageMetrics":
		out.EnableNetworkAddressUsageMetrics = &TruthAttribute{attributes.UsageMetrics}
	case "":
		return nil, missing("attribute")
	default:
		return nil, unknownAttribute(in.Attribute)
	}
	return out, nil
}

func unknownAttribute(name string) *Error {
	return invalidValue("Value (%s) for parameter attribute is invalid: EC2 does not have it, or awssim "+
		"does not model it", name)
}

// ModifyVPCAttributeInput is the request of ModifyVpcAttribute: one attribute per call.
type ModifyVPCAttributeInput struct {
	VPCID                            string     `query:"VpcId"`
	EnableDNSSupport                 *BoolValue `query:"EnableDnsSupport"`
	EnableDNSHostnames               *BoolValue `query:"EnableDnsHostnames"`
	EnableNetworkAddressUsageMetrics *BoolValue `query:"EnableNetworkAddressUsageMetrics"`
}

// ModifyVPCAttribute sets an attribute of a VPC.
func (m *Model) ModifyVPCAttribute(c Call, in *ModifyVPCAttributeInput) (*Return, error) {
	m.Advance(c.Now)
	vpc, err := m.vpcOf(in.VPCID)
	if err != nil {
		return nil, err
	}
	changed := *vpc
	err = setOnly(
		setting{in.EnableDNSSupport, &changed.attributes.DNSSupport},
		setting{in.EnableDNSHostnames, &changed.attributes.DNSHostnames},
		setting{in.EnableNetworkAddressUsageMetrics, &changed.attributes.UsageMetrics},
	)
	if err != nil {
		return nil, err
	}
	if changed.attributes.DNSHostnames && !changed.attributes.DNSSupport {
		return nil, invalidValue("enableDnsHostnames needs enableDnsSupport")
	}
	put(m, m.vpcs, in.VPCID, &changed)
	return &Return{true}, nil
}

// setting is an attribute, and the value that a request gives it; nil for none.
type setting struct {
	value  *BoolValue
	target *bool
}

// setOnly sets the one attribute that a request has.
func setOnly(settings ...setting) error {
	given := slices.DeleteFunc(settings, func(s setting) bool { return s.value == nil })
	switch len(given) {
	case 0:
		return missing("attribute")
	case 1:
		*given[0].target = given[0].value.Value
		return nil
	default:
		return invalidCombination("Fields for multiple attribute types specified: one can be modified at a time")
	}
}
