// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"net/netip"

	"github.com/multieni/multieni/awssim/ec2"
)

// place is a subnet of the world.
type place struct{ id, name, zone, cidr, ipv6, vpcID string }

var (
	zones         = []string{"us-east-1a", "us-east-1b"}
	instanceTypes = []string{"m5.large", "m5.xlarge", "m5.2xlarge", "p4d.24xlarge"}
	subnets       = []place{
		{"subnet-0000000000000000a", "blue-a", zones[0], "10.0.0.0/24", "2001:db8:0:a::/64", vpcID},
		{"subnet-000000000000000a2", "red-a", zones[0], "10.0.1.0/24", "2001:db8:0:a2::/64", vpcID},
		{"subnet-000000000000000a3", "tiny-a", zones[0], "10.0.2.0/28", "2001:db8:0:a3::/64", vpcID},
		{"subnet-0000000000000000b", "blue-b", zones[1], "10.0.3.0/24", "2001:db8:0:b::/64", vpcID},
		{"subnet-000000000000000b2", "red-b", zones[1], "10.0.4.0/24", "2001:db8:0:b2::/64", vpcID},
		// A subnet of another VPC, with the name of one of the cluster's: no instance of the cluster can have an
		// interface in it.
		{"subnet-0000000000000000c", "blue-a", zones[0], "10.1.0.0/24", "2001:db8:1:a::/64", otherVPCID},
	}
	groups = []string{"sg-0000000000000000a", "sg-0000000000000000b", "sg-0000000000000000c"}
)

// The clusters' instances run in the first VPC.
const vpcID, otherVPCID = "vpc-0000000000000000a", "vpc-0000000000000000b"

func world() ec2.World {
	w := ec2.World{
		Region: "us-east-1",
		VPCs: []ec2.WorldVPC{
			{VPCID: vpcID, CIDRBlock: netip.MustParsePrefix("10.0.0.0/16"),
				IPv6CIDRBlock: netip.MustParsePrefix("2001:db8::/48")},
			{VPCID: otherVPCID, CIDRBlock: netip.MustParsePrefix("10.1.0.0/16"),
				IPv6CIDRBlock: netip.MustParsePrefix("2001:db8:1::/48")},
		},
	}
	for n, zone := range zones {
		w.AvailabilityZones = append(w.AvailabilityZones,
			ec2.WorldZone{ZoneName: zone, ZoneID: []string{"use1-az1", "use1-az2"}[n]})
	}
	for _, s := range subnets {
		w.Subnets = append(w.Subnets, ec2.WorldSubnet{
			SubnetID: s.id, VPCID: s.vpcID, AvailabilityZone: s.zone, CIDRBlock: netip.MustParsePrefix(s.cidr),
			IPv6CIDRBlock: netip.MustParsePrefix(s.ipv6), Tags: ec2.Tags{"Name": s.name},
		})
	}
	for n, id := range groups {
		w.SecurityGroups = append(w.SecurityGroups,
			ec2.WorldSecurityGroup{GroupID: id, GroupName: []string{"data", "storage", "signal"}[n], VPCID: vpcID})
	}
	w.NetworkInterfaces = []ec2.WorldInterface{{SubnetID: subnets[0].id, Description: "a load balancer's",
		RequesterManaged: true}}
	return w
}

// subnetsIn returns those of the listed subnets that an instance in a zone can have interfaces in, in the listed order.
func subnetsIn(zone string, ids, names []string) []string {
	var found []string
	for _, id := range ids {
		for _, s := range subnets {
			if s.id == id && s.serves(zone) {
				found = append(found, s.id)
			}
		}
	}
	for _, name := range names {
		for _, s := range subnets {
			if s.name == name && s.serves(zone) {
				found = append(found, s.id)
			}
		}
	}
	return found
}

func (p place) serves(zone string) bool { return p.zone == zone && p.vpcID == vpcID }
