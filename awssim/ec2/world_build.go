// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// build fills the model with its world, without any lag.
func (m *Model) build() error {
	lag := m.behavior.Visibility
	m.behavior.Visibility = Latency{}
	defer func() { m.behavior.Visibility = lag }()

	m.buildZones()
	for _, vpc := range m.world.VPCs {
		m.buildVPC(vpc)
	}
	for _, group := range m.world.SecurityGroups {
		m.buildGroup(group)
	}
	for _, group := range m.world.SecurityGroups {
		if err := m.buildRules(group); err != nil {
			return err
		}
	}
	for _, subnet := range m.world.Subnets {
		m.buildSubnet(subnet)
	}
	for _, eni := range m.world.NetworkInterfaces {
		if err := m.buildInterface(eni); err != nil {
			return err
		}
	}
	for _, image := range m.world.Images {
		m.buildImage(image)
	}
	m.parameters = maps.Clone(m.world.Parameters)
	for _, template := range m.world.LaunchTemplates {
		if err := m.buildLaunchTemplate(template); err != nil {
			return err
		}
	}
	for _, spec := range m.world.Instances {
		instances, err := m.launchSpec(spec)
		if err != nil {
			return err
		}
		for _, instance := range instances {
			m.enterRunning(instance.InstanceID)
		}
	}
	return nil
}

func (m *Model) buildZones() {
	for _, zone := range m.world.AvailabilityZones {
		m.zones = append(m.zones, AvailabilityZone{
			ZoneName: zone.ZoneName, ZoneID: zone.ZoneID, ZoneType: cmp.Or(zone.ZoneType, "availability-zone"),
			ZoneState:   "available",
			OptInStatus: optInNotRequired, RegionName: m.region, GroupName: m.region, NetworkBorderGroup: m.region,
		})
	}
}

func (m *Model) buildVPC(spec WorldVPC) {
	vpc := &VPC{
		VPCID: spec.VPCID, State: StatusAvailable, CIDRBlock: spec.CIDRBlock, InstanceTenancy: tenancyDefault,
		DHCPOptionsID: m.dhcpOptionsID(), IsDefault: spec.IsDefault, OwnerID: m.account, Tags: spec.Tags,
		// The default VPC has DNS host names, and others have not (EC2 API reference, ModifyVpcAttribute).
		attributes: vpcAttributes{DNSSupport: true, DNSHostnames: spec.IsDefault},
		CIDRBlockAssociations: []IPv4Association{{
			AssociationID: m.id("vpc-cidr-assoc"), CIDRBlock: spec.CIDRBlock, CIDRBlockState: CIDRBlockState{associated},
		}},
	}
	if spec.IPv6CIDRBlock.IsValid() {
		vpc.IPv6CIDRBlockAssociations = m.vpcAssociations(m.id("vpc-cidr-assoc"), spec.IPv6CIDRBlock)
	}
	m.vpcs.put(spec.VPCID, vpc, m.now(), m.now())
	isDefault := func(g WorldSecurityGroup) bool { return g.VPCID == spec.VPCID && g.GroupName == defaultGroupName }
	if !slices.ContainsFunc(m.world.SecurityGroups, isDefault) {
		m.buildGroup(WorldSecurityGroup{
			GroupID: m.id("sg"), GroupName: defaultGroupName, Description: "default VPC security group", VPCID: spec.VPCID,
		})
	}
	m.furnish(vpc, false)
}

func (m *Model) buildGroup(spec WorldSecurityGroup) {
	m.putGroup(&SecurityGroup{
		GroupID: spec.GroupID, GroupName: spec.GroupName, Description: spec.Description, VPCID: spec.VPCID, Tags: spec.Tags,
	})
}

// buildRules adds the rules of a group. They can name groups that the world lists later.
func (m *Model) buildRules(spec WorldSecurityGroup) error {
	if len(spec.IPPermissions) == 0 {
		return nil
	}
	rules, err := m.rulesOf(spec.GroupID, spec.IPPermissions, false)
	if err != nil {
		return fmt.Errorf("rules of security group %s: %w", spec.GroupID, err)
	}
	for _, rule := range rules {
		m.putRule(rule)
	}
	return nil
}

func (m *Model) buildSubnet(spec WorldSubnet) {
	associationID := ""
	if spec.IPv6CIDRBlock.IsValid() {
		associationID = m.id("subnet-cidr-assoc")
	}
	m.subnets.put(spec.SubnetID, m.newSubnet(spec, associationID), m.now(), m.now())
}

// subnetAssociations are the IPv6 ranges of a subnet: one or none.
func subnetAssociations(id string, cidr netip.Prefix) []IPv6Association {
	if !cidr.IsValid() {
		return nil
	}
	return []IPv6Association{{
		AssociationID: id, IPv6CIDRBlock: cidr, IPv6CIDRBlockState: CIDRBlockState{associated}, IPSource: "amazon",
		IPv6AddressAttribute: "public",
	}}
}

// vpcAssociations are the IPv6 ranges of a VPC: one, of Amazon's addresses.
func (m *Model) vpcAssociations(id string, cidr netip.Prefix) []IPv6Association {
	all := subnetAssociations(id, cidr)
	all[0].IPv6Pool, all[0].NetworkBorderGroup = "Amazon", m.region
	return all
}

func (m *Model) buildInterface(spec WorldInterface) error {
	eni, err := m.create(InterfaceSettings{SubnetID: spec.SubnetID, Description: spec.Description},
		spec.NetworkInterfaceID, spec.Tags)
	if err != nil {
		return err
	}
	if spec.RequesterManaged {
		attachment := &Attachment{
			AttachmentID: strings.Replace(m.id("ela-attach"), "-0", "-", 1), InstanceOwnerID: "amazon-elb",
			DeviceIndex: 1, Status: Attached, AttachTime: m.now(),
		}
		m.attachments[attachment.AttachmentID] = eni.NetworkInterfaceID
		m.changeInterface(eni.NetworkInterfaceID, func(e *NetworkInterface) {
			e.RequesterManaged, e.RequesterID, e.Status, e.Attachment = true, "amazon-elb", StatusInUse, attachment
		})
	}
	return nil
}

func (m *Model) zoneID(name string) string {
	for _, zone := range m.zones {
		if zone.ZoneName == name {
			return zone.ZoneID
		}
	}
	return ""
}

// State is the true state, including changes that describe calls do not show yet.
type State struct {
	// Revision grows with each change of a resource.
	Revision          uint64              `json:"-"`
	Now               time.Time           `json:"now"`
	Region            string              `json:"region"`
	AccountID         string              `json:"accountId"`
	AvailabilityZones []AvailabilityZone  `json:"availabilityZones"`
	VPCs              []*VPC              `json:"vpcs"`
	RouteTables       []*RouteTable       `json:"routeTables"`
	InternetGateways  []*InternetGateway  `json:"internetGateways,omitempty"`
	Subnets           []*Subnet           `json:"subnets"`
	SecurityGroups    []*SecurityGroup    `json:"securityGroups"`
	Instances         []*Instance         `json:"instances"`
	NetworkInterfaces []*NetworkInterface `json:"networkInterfaces"`
	// SubnetCIDRReservations are the reserved parts of subnets.
	SubnetCIDRReservations []*SubnetCIDRReservation `json:"subnetCidrReservations,omitempty"`
	LaunchTemplates        []*LaunchTemplate        `json:"launchTemplates,omitempty"`
	// LaunchTemplateVersions are sorted by template, the newest first.
	LaunchTemplateVersions []*LaunchTemplateVersion `json:"launchTemplateVersions,omitempty"`
	// Fleets are those of EC2 Fleet, and then Spot Fleet requests.
	Fleets     []*Fleet          `json:"fleets,omitempty"`
	Images     []*Image          `json:"images,omitempty"`
	Parameters map[string]string `json:"parameters,omitempty"`
}

// State returns the current state, each list sorted by ID.
func (m *Model) State(c Call) State {
	m.Advance(c.Now)
	s := State{
		Revision: m.revision, Now: m.now().UTC(), Region: m.region, AccountID: m.account, AvailabilityZones: m.zones,
		VPCs: m.vpcs.all(), RouteTables: m.routeTables.all(), InternetGateways: m.internetGateways.all(),
		SecurityGroups: m.groups.all(), NetworkInterfaces: m.interfaces.all(),
		SubnetCIDRReservations: m.reservations.all(),
	}
	s.LaunchTemplates, s.Images, s.Parameters = m.templates.all(), m.images.all(), maps.Clone(m.parameters)
	for _, version := range m.versions.all() {
		s.LaunchTemplateVersions = append(s.LaunchTemplateVersions, m.presentVersion(version, look{now: m.now()}))
	}
	for _, fleet := range slices.Concat(m.fleets.all(), m.spotFleets.all()) {
		s.Fleets = append(s.Fleets, m.presentFleet(fleet))
	}
	s.Subnets, s.Instances = m.subnets.all(), m.instances.all()
	for i, subnet := range s.Subnets {
		s.Subnets[i] = m.presentSubnet(subnet, look{})
	}
	for i, group := range s.SecurityGroups {
		s.SecurityGroups[i] = m.presentGroup(group, look{now: m.now()})
	}
	for i, table := range s.RouteTables {
		s.RouteTables[i] = m.presentRoutes(table, look{})
	}
	for i, instance := range s.Instances {
		s.Instances[i] = withInterfaces(instance, m.interfacesOf(instance.InstanceID))
	}
	return s
}

// Revision returns the Revision of a [State].
func (m *Model) Revision(c Call) uint64 {
	m.Advance(c.Now)
	return m.revision
}

// Shown returns an interface as describe calls show it now, or nil if they show none.
func (m *Model) Shown(c Call, id string) *NetworkInterface {
	m.Advance(c.Now)
	return m.interfaces.view(id, m.now())
}
