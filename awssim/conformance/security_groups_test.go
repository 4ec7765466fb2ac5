// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func (ec *endpoint) newGroup(t *testing.T, name string) string {
	t.Helper()
	out, err := ec.CreateSecurityGroup(t.Context(), &ec2.CreateSecurityGroupInput{
		GroupName: &name, Description: aws.String("made by a test"), VpcId: ec.subnet.VpcId, TagSpecifications: named("security-group"),
	})
	ok(t, err)
	ec.removeLater(t, "security group", "InvalidGroup.NotFound", func(ctx context.Context) error {
		_, err := ec.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: out.GroupId})
		return err
	})
	return *out.GroupId
}

// groupWith returns a security group when it has the number of permissions in and out.
func (ec *endpoint) groupWith(t *testing.T, id string, ingress, egress int) types.SecurityGroup {
	t.Helper()
	var group types.SecurityGroup
	ec.await(t, "the rules of "+id, func(ctx context.Context) (string, error) {
		out, err := ec.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{Filters: []types.Filter{filter("group-id", id)}})
		if err != nil || len(out.SecurityGroups) != 1 {
			return "no group", err
		}
		group = out.SecurityGroups[0]
		if len(group.IpPermissions) != ingress || len(group.IpPermissionsEgress) != egress {
			return "other rules", nil
		}
		return "", nil
	})
	return group
}

func permission(protocol string, from, to int32, cidrs ...string) types.IpPermission {
	p := types.IpPermission{IpProtocol: &protocol, FromPort: &from, ToPort: &to}
	for _, cidr := range cidrs {
		p.IpRanges = append(p.IpRanges, types.IpRange{CidrIp: &cidr, Description: aws.String("from a test")})
	}
	return p
}

func authorizing(group string, permissions ...types.IpPermission) call {
	return func(ctx context.Context, ec *endpoint) error {
		_, err := ec.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{GroupId: &group, IpPermissions: permissions})
		return err
	}
}

func revoking(group string, permissions ...types.IpPermission) call {
	return func(ctx context.Context, ec *endpoint) error {
		_, err := ec.RevokeSecurityGroupIngress(ctx, &ec2.RevokeSecurityGroupIngressInput{GroupId: &group, IpPermissions: permissions})
		return err
	}
}

func TestSecurityGroups(t *testing.T) {
	ec := open(t)
	const name = "multieni conformance"
	group := ec.newGroup(t, name)
	creating := func(name, description, vpc string) call {
		return func(ctx context.Context, ec *endpoint) error {
			_, err := ec.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{GroupName: &name, Description: &description, VpcId: &vpc})
			return err
		}
	}
	deleting := func(id string) call {
		return func(ctx context.Context, ec *endpoint) error {
			_, err := ec.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: &id})
			return err
		}
	}
	vpc := *ec.subnet.VpcId
	verify(t, ec, []check{
		{name: "a new group lets everything out and nothing in", run: func(t *testing.T, ec *endpoint) {
			made := ec.groupWith(t, group, 0, 1)
			if out := made.IpPermissionsEgress[0]; *out.IpProtocol != "-1" || *out.IpRanges[0].CidrIp != "0.0.0.0/0" || out.FromPort != nil {
				t.Errorf("rules out %+v", out)
			}
			if tagsOf(made.Tags)["Name"] == "" || *made.VpcId != vpc {
				t.Errorf("group %+v", made)
			}
		}},
		{name: "the name is taken", run: refused("InvalidGroup.Duplicate", creating(name, "again", vpc))},
		{name: "the name is reserved", strict: true, run: refused("InvalidGroup.Reserved|InvalidParameterValue", creating("default", "d", vpc))},
		{name: "no description", run: refused("MissingParameter", creating("other", "", vpc))},
		{name: "characters", strict: true, run: refused("InvalidParameterValue", creating("naïve", "d", vpc))},
		{name: "an unknown VPC", run: refused("InvalidVpcID.NotFound", creating("other", "d", noVPC))},
		{name: "rules in", run: func(t *testing.T, ec *endpoint) { changesRules(t, ec, group) }},
		{name: "a group that a rule names stays", run: func(t *testing.T, ec *endpoint) {
			other := ec.newGroup(t, name+" peer")
			peer := types.IpPermission{IpProtocol: aws.String("-1"), UserIdGroupPairs: []types.UserIdGroupPair{{GroupId: &other}}}
			ok(t, authorizing(group, peer)(t.Context(), ec))
			expectRefusal(t, "DependencyViolation|InvalidGroup.InUse", deleting(other)(t.Context(), ec))
			ok(t, revoking(group, peer)(t.Context(), ec))
		}},
		{name: "a group of an interface stays", run: func(t *testing.T, ec *endpoint) {
			out, err := ec.CreateNetworkInterface(t.Context(), &ec2.CreateNetworkInterfaceInput{SubnetId: ec.subnet.SubnetId, Groups: []string{group}})
			ok(t, err)
			expectRefusal(t, "DependencyViolation", deleting(group)(t.Context(), ec))
			id := *out.NetworkInterface.NetworkInterfaceId
			ec.await(t, "the removal of "+id, func(ctx context.Context) (string, error) { return ec.remove(ctx, id) })
		}},
		{name: "the default group stays", run: refused("CannotDelete", deleting(ec.defaultGroup))},
		{name: "an unknown group", run: refused("InvalidGroup.NotFound", deleting(noGroup))},
		{name: "a deleted group is gone", run: func(t *testing.T, ec *endpoint) {
			ok(t, deleting(group)(t.Context(), ec))
			expectRefusal(t, "InvalidGroup.NotFound", deleting(group)(t.Context(), ec))
		}},
	})
}

// changesRules adds rules to a group without any for packets to it, and removes them.
func changesRules(t *testing.T, ec *endpoint, group string) {
	t.Helper()
	out, err := ec.AuthorizeSecurityGroupIngress(t.Context(), &ec2.AuthorizeSecurityGroupIngressInput{
		GroupId: &group, TagSpecifications: named("security-group-rule"),
		IpPermissions: []types.IpPermission{permission("6", 443, 443, "10.0.0.0/8", "192.0.2.7/24")},
	})
	ok(t, err)
	if rules := out.SecurityGroupRules; len(rules) != 2 || *rules[0].IpProtocol != "tcp" || *rules[1].CidrIpv4 != "192.0.2.0/24" || *rules[0].IsEgress {
		t.Errorf("new rules %+v", rules)
	}
	if one := ec.groupWith(t, group, 1, 1).IpPermissions[0]; len(one.IpRanges) != 2 || *one.FromPort != 443 || *one.IpRanges[0].Description != "from a test" {
		t.Errorf("permission %+v", one)
	}
	for _, row := range []struct {
		codes string
		do    call
	}{
		{"InvalidPermission.Duplicate", authorizing(group, permission("tcp", 443, 443, "10.0.0.0/8"))},
		{"InvalidPermission.NotFound", revoking(group, permission("tcp", 444, 444, "10.0.0.0/8"))},
		{"InvalidParameterValue", authorizing(group, permission("tcp", 444, 443, "10.0.0.0/8"))},
		{"InvalidParameterValue", authorizing(group, permission("tcp", 443, 443, "10.0.0.0/33"))},
		{"InvalidParameterValue", authorizing(group, permission("icmp6", -1, -1, "10.0.0.0/8"))},
		{"InvalidGroup.NotFound", authorizing(noGroup, permission("tcp", 443, 443, "10.0.0.0/8"))},
	} {
		expectRefusal(t, row.codes, row.do(t.Context(), ec))
	}
	found, err := ec.DescribeSecurityGroupRules(t.Context(), &ec2.DescribeSecurityGroupRulesInput{
		Filters: []types.Filter{filter("group-id", group), filter("tag:Name", "made by a test")},
	})
	ok(t, err)
	var ids []string
	for _, rule := range found.SecurityGroupRules {
		ids = append(ids, *rule.SecurityGroupRuleId)
	}
	if len(ids) != 2 {
		t.Errorf("rules %+v, want two with the tag", found.SecurityGroupRules)
	}
	_, err = ec.RevokeSecurityGroupIngress(t.Context(), &ec2.RevokeSecurityGroupIngressInput{GroupId: &group, SecurityGroupRuleIds: ids})
	ok(t, err)
	ec.groupWith(t, group, 0, 1)
	expectRefusal(t, "InvalidSecurityGroupRuleId.NotFound", func() error {
		_, err := ec.DescribeSecurityGroupRules(t.Context(), &ec2.DescribeSecurityGroupRulesInput{SecurityGroupRuleIds: ids})
		return err
	}())
}
