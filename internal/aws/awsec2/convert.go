// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"net/netip"
	"slices"
	"unique"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/multieni/multieni/internal/core/eni"
)

func networkInterface(n types.NetworkInterface) eni.Interface {
	return eni.Interface{
		ID:               aws.ToString(n.NetworkInterfaceId),
		Type:             eni.Type(n.InterfaceType),
		Status:           eni.Status(n.Status),
		Description:      aws.ToString(n.Description),
		MAC:              aws.ToString(n.MacAddress),
		SubnetID:         shared(n.SubnetId),
		VPCID:            shared(n.VpcId),
		Zone:             shared(n.AvailabilityZone),
		Groups:           convertAll(n.Groups, func(g types.GroupIdentifier) string { return shared(g.GroupId) }),
		SourceDestCheck:  aws.ToBool(n.SourceDestCheck),
		Addresses:        addresses(n),
		Tags:             tagMap(n.TagSet),
		RequesterManaged: aws.ToBool(n.RequesterManaged),
		Attachment:       attachment(n.Attachment),

		ConnectionTracking: connectionTracking(n.ConnectionTrackingConfiguration),
	}
}

// attachment returns nil for an unattached interface. Interfaces of load balancers and other services have an
// attachment without an instance.
func attachment(a *types.NetworkInterfaceAttachment) *eni.Attachment {
	if a == nil {
		return nil
	}
	return &eni.Attachment{
		ID:                  aws.ToString(a.AttachmentId),
		InstanceID:          aws.ToString(a.InstanceId),
		Slot:                eni.Slot{Card: int(aws.ToInt32(a.NetworkCardIndex)), Device: int(aws.ToInt32(a.DeviceIndex))},
		Status:              eni.AttachmentStatus(a.Status),
		Since:               aws.ToTime(a.AttachTime),
		DeleteOnTermination: aws.ToBool(a.DeleteOnTermination),
		ENAExpress:          enaExpress(a.EnaSrdSpecification),
	}
}

func connectionTracking(c *types.ConnectionTrackingConfiguration) eni.ConnectionTracking {
	if c == nil {
		return eni.ConnectionTracking{}
	}
	return eni.ConnectionTracking{
		TCPEstablished: int(aws.ToInt32(c.TcpEstablishedTimeout)), UDPStream: int(aws.ToInt32(c.UdpStreamTimeout)),
		UDP: int(aws.ToInt32(c.UdpTimeout)),
	}
}

func enaExpress(s *types.AttachmentEnaSrdSpecification) eni.ENAExpress {
	switch {
	case s == nil:
		return ""
	case !aws.ToBool(s.EnaSrdEnabled):
		return eni.ENAExpressNone
	case s.EnaSrdUdpSpecification != nil && aws.ToBool(s.EnaSrdUdpSpecification.EnaSrdUdpEnabled):
		return eni.ENAExpressTCPAndUDP
	default:
		return eni.ENAExpressTCP
	}
}

// addresses keeps EC2's order, in which the newest come last.
func addresses(n types.NetworkInterface) eni.Addresses {
	a := eni.Addresses{
		PrimaryIPv4:  addr(n.PrivateIpAddress),
		IPv4Prefixes: convertAll(n.Ipv4Prefixes, ipv4Prefix),
		IPv6: convertAll(n.Ipv6Addresses, func(a types.NetworkInterfaceIpv6Address) netip.Addr {
			return addr(a.Ipv6Address)
		}),
		IPv6Prefixes: convertAll(n.Ipv6Prefixes, func(p types.Ipv6PrefixSpecification) netip.Prefix {
			return prefix(p.Ipv6Prefix)
		}),
	}
	if n.Association != nil {
		a.PublicIP, a.CarrierIP = addr(n.Association.PublicIp), addr(n.Association.CarrierIp)
	}
	for _, private := range n.PrivateIpAddresses {
		if !aws.ToBool(private.Primary) {
			a.SecondaryIPv4 = append(a.SecondaryIPv4, addr(private.PrivateIpAddress))
		}
	}
	return a
}

func ipv4Prefix(p types.Ipv4PrefixSpecification) netip.Prefix { return prefix(p.Ipv4Prefix) }

func instance(i types.Instance) eni.Instance {
	converted := eni.Instance{
		ID:         aws.ToString(i.InstanceId),
		Type:       string(i.InstanceType),
		VPCID:      aws.ToString(i.VpcId),
		LaunchedAt: aws.ToTime(i.LaunchTime),
		Tags:       tagMap(i.Tags),

		PrivateDNSName: aws.ToString(i.PrivateDnsName),
	}
	if i.Placement != nil {
		converted.Zone = aws.ToString(i.Placement.AvailabilityZone)
	}
	if i.State != nil {
		converted.State = eni.InstanceState(i.State.Name)
	}
	return converted
}

func subnet(s types.Subnet) eni.Subnet {
	tags := tagMap(s.Tags)
	return eni.Subnet{
		ID:          aws.ToString(s.SubnetId),
		Name:        tags["Name"],
		VPCID:       aws.ToString(s.VpcId),
		Zone:        aws.ToString(s.AvailabilityZone),
		CIDR:        prefix(s.CidrBlock),
		FreeIPv4:    int(aws.ToInt32(s.AvailableIpAddressCount)),
		HasIPv6:     ipv6CIDR(s).IsValid(),
		IPv6CIDR:    ipv6CIDR(s),
		OwnerID:     aws.ToString(s.OwnerId),
		Tags:        tags,
		MapPublicIP: aws.ToBool(s.MapPublicIpOnLaunch),
	}
}

// ipv6CIDR returns the associated range; EC2 continues to return a disassociated one.
func ipv6CIDR(s types.Subnet) netip.Prefix {
	for _, association := range s.Ipv6CidrBlockAssociationSet {
		state := association.Ipv6CidrBlockState
		if state != nil && state.State == types.SubnetCidrBlockStateCodeAssociated {
			return prefix(association.Ipv6CidrBlock)
		}
	}
	return netip.Prefix{}
}

func securityGroup(g types.SecurityGroup) eni.SecurityGroup {
	rules := groupRules(g)
	return eni.SecurityGroup{
		ID: aws.ToString(g.GroupId), Name: aws.ToString(g.GroupName), VPCID: aws.ToString(g.VpcId), Tags: tagMap(g.Tags),
		AllFrom: allTraffic(rules.Ingress), AllTo: allTraffic(rules.Egress),
	}
}

// allTraffic returns the groups that rules name for all protocols.
func allTraffic(rules []eni.GroupRule) (groupIDs []string) {
	for _, rule := range rules {
		if rule.Protocol == eni.AnyProtocol {
			groupIDs = append(groupIDs, rule.Groups...)
		}
	}
	return groupIDs
}

func groupRules(g types.SecurityGroup) eni.GroupRules {
	return eni.GroupRules{
		ID: aws.ToString(g.GroupId), Ingress: convertAll(g.IpPermissions, groupRule),
		Egress: convertAll(g.IpPermissionsEgress, groupRule),
	}
}

// groupRule converts a rule. EC2 omits the ports of a rule for all of them.
func groupRule(p types.IpPermission) eni.GroupRule {
	port := func(n *int32) int {
		if n == nil {
			return eni.AnyPort
		}
		return int(*n)
	}
	return eni.GroupRule{
		Protocol: aws.ToString(p.IpProtocol), FromPort: port(p.FromPort), ToPort: port(p.ToPort),
		CIDRs: slices.Concat(
			convertAll(p.IpRanges, func(r types.IpRange) netip.Prefix { return prefix(r.CidrIp) }),
			convertAll(p.Ipv6Ranges, func(r types.Ipv6Range) netip.Prefix { return prefix(r.CidrIpv6) })),
		Groups: convertAll(p.UserIdGroupPairs, func(g types.UserIdGroupPair) string { return aws.ToString(g.GroupId) }),
		PrefixLists: convertAll(p.PrefixListIds, func(l types.PrefixListId) string {
			return aws.ToString(l.PrefixListId)
		}),
	}
}

func limits(t types.InstanceTypeInfo) eni.Limits {
	info := t.NetworkInfo
	if info == nil {
		return eni.Limits{}
	}
	converted := eni.Limits{
		Cards:         make([]int, len(info.NetworkCards)),
		Interfaces:    int(aws.ToInt32(info.MaximumNetworkInterfaces)),
		IPv4:          int(aws.ToInt32(info.Ipv4AddressesPerInterface)),
		IPv6:          int(aws.ToInt32(info.Ipv6AddressesPerInterface)),
		XenHypervisor: t.Hypervisor == types.InstanceTypeHypervisorXen,
		ENAExpress:    aws.ToBool(info.EnaSrdSupported),
	}
	if c := info.ConnectionTrackingConfiguration; c != nil {
		converted.Tracking = eni.ConnectionTracking{
			TCPEstablished: int(aws.ToInt32(c.DefaultTcpEstablishedTimeout)),
			UDPStream:      int(aws.ToInt32(c.DefaultUdpStreamTimeout)), UDP: int(aws.ToInt32(c.DefaultUdpTimeout)),
		}
	}
	if info.EfaInfo != nil {
		converted.EFAs = int(aws.ToInt32(info.EfaInfo.MaximumEfaInterfaces))
	}
	for _, card := range info.NetworkCards {
		if index := int(aws.ToInt32(card.NetworkCardIndex)); index < len(converted.Cards) {
			converted.Cards[index] = int(aws.ToInt32(card.MaximumNetworkInterfaces))
		}
	}
	return converted
}

func tagMap(tags []types.Tag) map[string]string {
	m := make(map[string]string, len(tags))
	for _, tag := range tags {
		m[shared(tag.Key)] = shared(tag.Value)
	}
	return m
}

// shared returns the one copy of a string that thousands of interfaces share, or "".
func shared(s *string) string { return unique.Make(aws.ToString(s)).Value() }

// addr and prefix return the zero value for an absent or invalid text.
func addr(s *string) netip.Addr {
	a, _ := netip.ParseAddr(aws.ToString(s))
	return a
}

func prefix(s *string) netip.Prefix {
	p, _ := netip.ParsePrefix(aws.ToString(s))
	return p
}

func convertAll[From, To any](all []From, convert func(From) To) []To {
	if len(all) == 0 {
		return nil
	}
	converted := make([]To, len(all))
	for n, one := range all {
		converted[n] = convert(one)
	}
	return converted
}
