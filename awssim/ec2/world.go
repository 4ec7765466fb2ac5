// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/multieni/multieni/awssim/instancetypes"
)

// World is the initial state of an account in a region. Its members have EC2's names.
//
// IDs stay as given, even those that EC2 would not issue; a resource without an ID gets one from the seed.
type World struct {
	// Region is for example us-east-1.
	Region string `json:"region"`
	// AccountID owns everything; empty means 123456789012.
	AccountID string `json:"accountId,omitempty"`
	// AvailabilityZones of the region.
	AvailabilityZones []WorldZone `json:"availabilityZones"`
	// VPCs each also have a security group named default, unless one is listed.
	VPCs []WorldVPC `json:"vpcs"`
	// Subnets of the VPCs. An instance that names only a zone is in the first subnet of the zone.
	Subnets []WorldSubnet `json:"subnets"`
	// SecurityGroups of the VPCs.
	SecurityGroups []WorldSecurityGroup `json:"securityGroups,omitempty"`
	// NetworkInterfaces that belong to no instance, for example those of a load balancer.
	NetworkInterfaces []WorldInterface `json:"networkInterfaces,omitempty"`
	// Instances that run from the beginning.
	Instances []WorldInstance `json:"instances,omitempty"`
	// Images that can be launched. Without any, every image ID can.
	Images []Image `json:"images,omitempty"`
	// Parameters of Systems Manager, by name: image IDs, and anything else that a program stores there.
	Parameters map[string]string `json:"parameters,omitempty"`
	// LaunchTemplates that exist from the beginning, each with one version.
	LaunchTemplates []WorldLaunchTemplate `json:"launchTemplates,omitempty"`
	// Quotas of the account.
	Quotas WorldQuotas `json:"quotas,omitzero"`
}

// WorldZone is an availability zone.
type WorldZone struct {
	// ZoneName is for example us-east-1a.
	ZoneName string `json:"zoneName"`
	// ZoneID is the name that all accounts share, for example use1-az1.
	ZoneID string `json:"zoneId"`
	// ZoneType is availability-zone, if empty, local-zone or wavelength-zone.
	ZoneType string `json:"zoneType,omitempty"`
}

// WorldVPC is a VPC.
type WorldVPC struct {
	VPCID         string       `json:"vpcId"`
	CIDRBlock     netip.Prefix `json:"cidrBlock"`
	IPv6CIDRBlock netip.Prefix `json:"ipv6CidrBlock,omitzero"`
	IsDefault     bool         `json:"isDefault,omitempty"`
	Tags          Tags         `json:"tags,omitempty"`
}

// WorldSubnet is a subnet.
type WorldSubnet struct {
	SubnetID         string       `json:"subnetId"`
	VPCID            string       `json:"vpcId"`
	AvailabilityZone string       `json:"availabilityZone"`
	CIDRBlock        netip.Prefix `json:"cidrBlock,omitzero"`
	IPv6CIDRBlock    netip.Prefix `json:"ipv6CidrBlock,omitzero"`
	// IPv6Native subnets have no IPv4 range, and no IPv4 addresses.
	IPv6Native bool `json:"ipv6Native,omitempty"`
	// DefaultForAZ is for the subnets of a default VPC.
	DefaultForAZ bool `json:"defaultForAz,omitempty"`
	// MapPublicIPOnLaunch gives instances with one interface a public address.
	MapPublicIPOnLaunch bool `json:"mapPublicIpOnLaunch,omitempty"`
	// OwnerID is the account of a subnet that another account shares; empty means the account of the world.
	OwnerID string `json:"ownerId,omitempty"`
	Tags    Tags   `json:"tags,omitempty"`
}

// WorldSecurityGroup is a security group.
type WorldSecurityGroup struct {
	GroupID     string `json:"groupId"`
	GroupName   string `json:"groupName"`
	Description string `json:"description,omitempty"`
	VPCID       string `json:"vpcId"`
	// IPPermissions are the rules for packets to interfaces with the group. Packets from them may go everywhere.
	IPPermissions []IPPermission `json:"ipPermissions,omitempty"`
	Tags          Tags           `json:"tags,omitempty"`
}

// WorldInterface is a network interface without an instance.
type WorldInterface struct {
	NetworkInterfaceID string `json:"networkInterfaceId,omitempty"`
	SubnetID           string `json:"subnetId"`
	Description        string `json:"description,omitempty"`
	// RequesterManaged interfaces belong to an AWS service, which uses them: the account may not change them.
	RequesterManaged bool `json:"requesterManaged,omitempty"`
	Tags             Tags `json:"tags,omitempty"`
}

// WorldInstance is one instance, or Count of them. It is also what [Model.Launch] takes.
type WorldInstance struct {
	// InstanceID is only for a single instance.
	InstanceID   string `json:"instanceId,omitempty"`
	InstanceType string `json:"instanceType"`
	// SubnetID or AvailabilityZone is the location of the instance.
	SubnetID         string `json:"subnetId,omitempty"`
	AvailabilityZone string `json:"availabilityZone,omitempty"`
	// SecurityGroupIDs of the primary interface; none means the default group of the VPC.
	SecurityGroupIDs []string `json:"securityGroupIds,omitempty"`
	// Count of instances; 0 means 1.
	Count int `json:"count,omitempty"`
	// Name becomes the tag Name; with a Count above 1 it is numbered: name-1, name-2, ….
	Name string `json:"name,omitempty"`
	// Tags of the instance.
	Tags Tags `json:"tags,omitempty"`
	// ImageID is the machine image; empty means an image without known attributes.
	ImageID string `json:"imageId,omitempty"`
	// CNI simulates the Amazon VPC CNI on the instance.
	CNI *CNI `json:"cni,omitempty"`
}

// CNI is the part of the Amazon VPC CNI that affects other programs on the instance: soon after the start it uses the
// lowest free device indexes.
type CNI struct {
	// WarmENIs is the number of interfaces that it attaches.
	WarmENIs int `json:"warmENIs"`
}

// WorldLaunchTemplate is a launch template.
type WorldLaunchTemplate struct {
	LaunchTemplateID   string             `json:"launchTemplateId,omitempty"`
	LaunchTemplateName string             `json:"launchTemplateName"`
	LaunchTemplateData LaunchTemplateData `json:"launchTemplateData"`
	Tags               Tags               `json:"tags,omitempty"`
}

// WorldQuotas are limits of the account.
type WorldQuotas struct {
	// NetworkInterfaces in the region; 0 means 5,000, the default of Service Quotas.
	NetworkInterfaces int `json:"networkInterfaces,omitempty"`
	// VPCs in the region; 0 means 5.
	VPCs int `json:"vpcs,omitempty"`
	// LaunchTemplates in the region; 0 means 5,000.
	LaunchTemplates int `json:"launchTemplates,omitempty"`
	// LaunchTemplateVersions of one template; 0 means 10,000.
	LaunchTemplateVersions int `json:"launchTemplateVersions,omitempty"`
}

// Validate returns all problems of the world.
func (w World) Validate() error {
	v := worldCheck{ids: map[string]string{}}
	v.require("region", w.Region)
	if len(w.AvailabilityZones) == 0 {
		v.add("availabilityZones: there must be at least one")
	}
	for _, zone := range w.AvailabilityZones {
		v.require("zoneId", zone.ZoneID)
		v.id("availability zone", zone.ZoneName)
	}
	for _, vpc := range w.VPCs {
		v.id("VPC", vpc.VPCID)
		v.range4("VPC", vpc.VPCID, vpc.CIDRBlock)
	}
	for _, group := range w.SecurityGroups {
		v.id("security group", group.GroupID)
		v.refer("security group "+group.GroupID, "VPC", group.VPCID)
	}
	for i := range w.Subnets {
		v.subnet(w, i)
	}
	for _, eni := range w.NetworkInterfaces {
		v.refer("network interface "+eni.Description, "subnet", eni.SubnetID)
	}
	for _, instance := range w.Instances {
		v.instance(instance)
	}
	for _, image := range w.Images {
		v.id("image", image.ImageID)
	}
	for _, template := range w.LaunchTemplates {
		v.id("launch template", template.LaunchTemplateName)
	}
	return errors.Join(v.problems...)
}

// worldCheck collects problems; ids has the kind of each known ID.
type worldCheck struct {
	ids      map[string]string
	problems []error
}

func (v *worldCheck) add(format string, args ...any) {
	v.problems = append(v.problems, fmt.Errorf(format, args...))
}

func (v *worldCheck) require(name, value string) {
	if value == "" {
		v.add("%s is missing", name)
	}
}

func (v *worldCheck) id(what, id string) {
	switch {
	case id == "":
		v.add("a %s has no ID", what)
	case v.ids[id] != "":
		v.add("%s %s: there is a %s of that ID already", what, id, v.ids[id])
	}
	v.ids[id] = what
}

func (v *worldCheck) refer(who, what, id string) {
	if v.ids[id] != what {
		v.add("%s: there is no %s %q", who, what, id)
	}
}

func (v *worldCheck) range4(what, id string, cidr netip.Prefix) {
	if !cidr.IsValid() || !cidr.Addr().Is4() || cidr.Bits() < 16 || cidr.Bits() > 28 || cidr != cidr.Masked() {
		v.add("%s %s: cidrBlock %s is not an IPv4 range from /16 to /28", what, id, cidr)
	}
}

func (v *worldCheck) subnet(w World, i int) {
	subnet := w.Subnets[i]
	v.id("subnet", subnet.SubnetID)
	who := "subnet " + subnet.SubnetID
	v.refer(who, "VPC", subnet.VPCID)
	v.refer(who, "availability zone", subnet.AvailabilityZone)
	v.subnetRanges(who, subnet)
	at := slices.IndexFunc(w.VPCs, func(vpc WorldVPC) bool { return vpc.VPCID == subnet.VPCID })
	if at >= 0 && !subnet.IPv6Native && !w.VPCs[at].CIDRBlock.Overlaps(subnet.CIDRBlock) {
		v.add("%s: cidrBlock %s is not in %s of its VPC", who, subnet.CIDRBlock, w.VPCs[at].CIDRBlock)
	}
	for _, other := range w.Subnets[:i] {
		if other.VPCID == subnet.VPCID && other.CIDRBlock.Overlaps(subnet.CIDRBlock) {
			v.add("%s: cidrBlock %s overlaps that of subnet %s", who, subnet.CIDRBlock, other.SubnetID)
		}
	}
}

// subnetRanges checks the ranges of a subnet by themselves.
func (v *worldCheck) subnetRanges(who string, subnet WorldSubnet) {
	switch {
	case subnet.IPv6Native && subnet.CIDRBlock.IsValid():
		v.add("%s: a subnet that is ipv6Native has no cidrBlock", who)
	case subnet.IPv6Native && !subnet.IPv6CIDRBlock.IsValid():
		v.add("%s: a subnet that is ipv6Native needs an ipv6CidrBlock", who)
	case !subnet.IPv6Native:
		v.range4("subnet", subnet.SubnetID, subnet.CIDRBlock)
	}
	if six := subnet.IPv6CIDRBlock; six.IsValid() && (!six.Addr().Is6() || six.Bits() != 64 || six != six.Masked()) {
		v.add("%s: ipv6CidrBlock %s is not an IPv6 /64", who, six)
	}
}

func (v *worldCheck) instance(instance WorldInstance) {
	who := "instance " + cmp.Or(instance.Name, instance.InstanceID)
	if instance.InstanceID != "" {
		v.id("instance", instance.InstanceID)
		if instance.Count > 1 {
			v.add("%s: an instanceId is for one instance, count is %d", who, instance.Count)
		}
	}
	if _, ok := instancetypes.Lookup(instance.InstanceType); !ok {
		v.add("%s: awssim does not know the instance type %q", who, instance.InstanceType)
	}
	switch {
	case instance.SubnetID != "":
		v.refer(who, "subnet", instance.SubnetID)
	case instance.AvailabilityZone != "":
		v.refer(who, "availability zone", instance.AvailabilityZone)
	default:
		v.add("%s: give a subnetId or an availabilityZone", who)
	}
	for _, group := range instance.SecurityGroupIDs {
		v.refer(who, "security group", group)
	}
}
