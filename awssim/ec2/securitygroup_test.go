// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/multieni/multieni/awssim/ec2"
)

// A group without rules in the world has those of a new group: to everywhere, in each family of its VPC.
func TestRulesOfSecurityGroups(t *testing.T) {
	const plain, own, six = "sg-00000000000000001", "sg-00000000000000002", "sg-00000000000000003"
	itself := []ec2.IPPermission{{IPProtocol: "-1", Groups: []ec2.UserIDGroupPair{{GroupID: own, UserID: ec2.DefaultAccountID}}}}
	world := ec2.World{
		Region: "eu-central-1", AvailabilityZones: []ec2.WorldZone{{ZoneName: "eu-central-1a", ZoneID: "euc1-az1"}},
		VPCs: []ec2.WorldVPC{
			{VPCID: "vpc-00000000000000001", CIDRBlock: netip.MustParsePrefix("10.1.0.0/16")},
			{VPCID: "vpc-00000000000000002", CIDRBlock: netip.MustParsePrefix("10.2.0.0/16"), IPv6CIDRBlock: netip.MustParsePrefix("2001:db8::/56")},
		},
		SecurityGroups: []ec2.WorldSecurityGroup{
			{GroupID: plain, GroupName: "plain", VPCID: "vpc-00000000000000001"},
			{GroupID: own, GroupName: "own", VPCID: "vpc-00000000000000001", IPPermissions: itself},
			{GroupID: six, GroupName: "six", VPCID: "vpc-00000000000000002"},
		},
	}
	model, call := start(t, world, ec2.Behavior{})
	out, err := model.DescribeSecurityGroups(call, &ec2.DescribeSecurityGroupsInput{Page: by(filter("group-id", plain, own, six))})
	if err != nil {
		t.Fatal(err)
	}
	four := []ec2.IPRange{{CIDRIP: "0.0.0.0/0"}}
	want := map[string][2][]ec2.IPPermission{
		plain: {nil, {{IPProtocol: "-1", IPRanges: four}}},
		own:   {itself, {{IPProtocol: "-1", IPRanges: four}}},
		six:   {nil, {{IPProtocol: "-1", IPRanges: four, IPv6Ranges: []ec2.IPv6Range{{CIDRIPv6: "::/0"}}}}},
	}
	got := map[string][2][]ec2.IPPermission{}
	for _, g := range out.SecurityGroups {
		got[g.GroupID] = [2][]ec2.IPPermission{g.IPPermissions, g.IPPermissionsEgress}
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
