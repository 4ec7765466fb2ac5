// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
)

func describeInstances(in *ec2.DescribeInstancesInput) call {
	return func(ctx context.Context, ec *endpoint) error {
		_, err := ec.DescribeInstances(ctx, in)
		return err
	}
}

// awaitInstances polls until the filters find exactly these instances, given in sorted order.
func (ec *endpoint) awaitInstances(t *testing.T, want []string, filters ...types.Filter) {
	t.Helper()
	ec.await(t, "the search", func(ctx context.Context) (string, error) {
		got := []string{}
		pages := ec2.NewDescribeInstancesPaginator(ec, &ec2.DescribeInstancesInput{Filters: filters, MaxResults: aws.Int32(5)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return "", err
			}
			got = append(got, instanceIDs(page)...)
		}
		slices.Sort(got)
		return cmp.Diff(want, got), nil
	})
}

func TestDescribeInstances(t *testing.T) {
	ec := open(t)
	marked := mark()
	byTag := func(tags ...types.Tag) func(*runInput) {
		return func(in *runInput) {
			in.TagSpecifications = []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: tags}}
		}
	}
	first := ec.instance(t, byTag(marked, tag("Role", "web")), func(in *runInput) { in.SecurityGroupIds = []string{ec.group} })
	second := ec.instance(t, byTag(marked, tag("Zone", "other")), inSubnet(ec.otherZone), ofType("m5.large"))
	ec.stop(t, *second.InstanceId)
	one, two := *first.InstanceId, *second.InstanceId
	both := []string{min(one, two), max(one, two)}

	var rows []check
	for _, f := range []struct{ name, first, second, neither string }{
		{"instance-id", one, two, noInstance},
		{"instance-state-name", "running", "stopped", "terminated"},
		{"instance-state-code", "16", "80", "48"},
		{"instance-type", ec.instanceType, "m5.large", "m5.xlarge"},
		{"instance-type", "t*", "m5.*", "c5.*"},
		{"availability-zone", *ec.subnet.AvailabilityZone, *ec.otherZone.AvailabilityZone, "xx-nowhere-1a"},
		{"availability-zone-id", *ec.subnet.AvailabilityZoneId, *ec.otherZone.AvailabilityZoneId, "xxn1-az1"},
		{"subnet-id", *ec.subnet.SubnetId, *ec.otherZone.SubnetId, noSubnet},
		{"private-dns-name", aws.ToString(first.PrivateDnsName), aws.ToString(second.PrivateDnsName), "ip-0-0-0-0.nowhere"},
		{"private-ip-address", *first.PrivateIpAddress, *second.PrivateIpAddress, "203.0.113.1"},
		{"instance.group-id", ec.group, ec.defaultGroup, noGroup},
		{"instance.group-name", *first.SecurityGroups[0].GroupName, "default", "no-such-group"},
		{"tag:Role", "web", "", "Web"},
		{"tag-key", "Role", "Zone", "role"},
		{"network-interface.network-interface-id", *first.NetworkInterfaces[0].NetworkInterfaceId, *second.NetworkInterfaces[0].NetworkInterfaceId, noENI},
		{"network-interface.subnet-id", *ec.subnet.SubnetId, *ec.otherZone.SubnetId, noSubnet},
	} {
		rows = append(rows, check{name: f.name, run: func(t *testing.T, ec *endpoint) {
			ec.awaitInstances(t, []string{one}, hasTag(marked), filter(f.name, f.first))
			if f.second != "" {
				ec.awaitInstances(t, []string{two}, hasTag(marked), filter(f.name, f.second))
				ec.awaitInstances(t, both, hasTag(marked), filter(f.name, f.first, f.second))
			}
			ec.awaitInstances(t, []string{}, hasTag(marked), filter(f.name, f.neither))
		}})
	}
	verify(t, ec, rows)
	verify(t, ec, []check{
		{name: "what both share", run: func(t *testing.T, ec *endpoint) {
			ec.awaitInstances(t, both, hasTag(marked), filter("vpc-id", *ec.subnet.VpcId))
			ec.awaitInstances(t, both, hasTag(marked), filter("image-id", ec.image))
			ec.awaitInstances(t, both, hasTag(marked), filter("architecture", "x86_64"))
			ec.awaitInstances(t, both, hasTag(marked), filter("hypervisor", "xen")) // EC2 returns this for Nitro
			ec.awaitInstances(t, both, hasTag(marked), filter("source-dest-check", "true"))
			ec.awaitInstances(t, both, hasTag(marked), filter("launch-index", "0"))
			ec.awaitInstances(t, []string{}, hasTag(marked), filter("launch-index", "1"))
		}},
		{name: "no filter is ignored", run: func(t *testing.T, ec *endpoint) {
			for _, name := range []string{
				"ip-address", "key-name", "network-interface.attachment.status", "network-interface.private-ip-address",
				"placement-group-name", "reservation-id", "tenancy", "client-token", "network-interface.addresses.private-ip-address",
			} {
				out, err := ec.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{Filters: []types.Filter{filter(name, "none has this")}})
				if err == nil && len(out.Reservations) > 0 || err != nil && codeOf(err) != "InvalidParameterValue" {
					t.Errorf("%s: found %v (%v)", name, instanceIDs(out), err)
				}
			}
		}},
	})
}

func TestDescribeInstancesByID(t *testing.T) {
	ec := open(t)
	one, two := *ec.instance(t).InstanceId, *ec.instance(t).InstanceId
	both := []string{one, two}
	verify(t, ec, []check{
		{name: "by id", run: func(t *testing.T, ec *endpoint) {
			out, err := ec.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: both})
			ok(t, err)
			if got := instanceIDs(out); len(got) != 2 || len(out.Reservations) != 2 {
				t.Errorf("got %v in %d reservations, want %v in one each", got, len(out.Reservations), both)
			}
		}},
		{name: "an unknown instance", run: refused("InvalidInstanceID.NotFound",
			describeInstances(&ec2.DescribeInstancesInput{InstanceIds: []string{noInstance}}))},
		{name: "something that is no instance", strict: true, run: refused("InvalidInstanceID.Malformed",
			describeInstances(&ec2.DescribeInstancesInput{InstanceIds: []string{"host-one"}}))},
		{name: "one unknown id fails them all", strict: true, run: refused("InvalidInstanceID.NotFound",
			describeInstances(&ec2.DescribeInstancesInput{InstanceIds: []string{one, noInstance}}))},
		{name: "ids and pages exclude each other", strict: true, run: refused("InvalidParameterCombination",
			describeInstances(&ec2.DescribeInstancesInput{InstanceIds: []string{one}, MaxResults: aws.Int32(5)}))},
		{name: "pages of 4", strict: true, run: refused("InvalidParameterValue",
			describeInstances(&ec2.DescribeInstancesInput{MaxResults: aws.Int32(4)}))},
		{name: "a filter that does not exist", run: refused("InvalidParameterValue",
			describeInstances(&ec2.DescribeInstancesInput{Filters: []types.Filter{filter("instance-colour", "red")}}))},
	})
}
