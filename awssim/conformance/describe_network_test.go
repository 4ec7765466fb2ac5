// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"slices"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// lister is one of the describe calls for parts of a network: subnets, security groups, VPCs, route tables. It returns the IDs
// that were found, and an error if a page was longer than requested.
type lister func(ctx context.Context, ec *endpoint, ids []string, maxResults *int32, filters ...types.Filter) ([]string, error)

func subnetIDs(ctx context.Context, ec *endpoint, ids []string, maxResults *int32, filters ...types.Filter) ([]string, error) {
	var found []string
	pages := ec2.NewDescribeSubnetsPaginator(ec, &ec2.DescribeSubnetsInput{SubnetIds: ids, MaxResults: maxResults, Filters: filters})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, subnet := range page.Subnets {
			found = append(found, *subnet.SubnetId)
		}
	}
	return found, nil
}

func groupIDs(ctx context.Context, ec *endpoint, ids []string, maxResults *int32, filters ...types.Filter) ([]string, error) {
	var found []string
	pages := ec2.NewDescribeSecurityGroupsPaginator(ec, &ec2.DescribeSecurityGroupsInput{GroupIds: ids, MaxResults: maxResults, Filters: filters})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, group := range page.SecurityGroups {
			found = append(found, *group.GroupId)
		}
	}
	return found, nil
}

func vpcIDs(ctx context.Context, ec *endpoint, ids []string, maxResults *int32, filters ...types.Filter) ([]string, error) {
	var found []string
	pages := ec2.NewDescribeVpcsPaginator(ec, &ec2.DescribeVpcsInput{VpcIds: ids, MaxResults: maxResults, Filters: filters})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, vpc := range page.Vpcs {
			found = append(found, *vpc.VpcId)
		}
	}
	return found, nil
}

func routeTableIDs(ctx context.Context, ec *endpoint, ids []string, maxResults *int32, filters ...types.Filter) ([]string, error) {
	var found []string
	pages := ec2.NewDescribeRouteTablesPaginator(ec, &ec2.DescribeRouteTablesInput{RouteTableIds: ids, MaxResults: maxResults, Filters: filters})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, table := range page.RouteTables {
			found = append(found, *table.RouteTableId)
		}
	}
	return found, nil
}

// fact is a filter with a value that the known resource has; others may have it too.
type fact struct{ name, value string }

func TestDescribeSubnets(t *testing.T) {
	ec := open(t)
	home := ec.subnet
	if ec.dualStack != nil {
		home = *ec.dualStack
	}
	var facts []fact
	if ec.simulated { // elsewhere other users may use addresses meanwhile
		facts = append(facts, fact{"available-ip-address-count", strconv.Itoa(int(*home.AvailableIpAddressCount))})
	}
	for _, six := range home.Ipv6CidrBlockAssociationSet {
		facts = append(facts, fact{"ipv6-cidr-block-association.ipv6-cidr-block", *six.Ipv6CidrBlock})
	}
	facts = append(facts, withTagFacts(home.Tags,
		fact{"subnet-id", *home.SubnetId},
		fact{"vpc-id", *home.VpcId},
		fact{"availability-zone", *home.AvailabilityZone},
		fact{"availabilityZone", *home.AvailabilityZone},
		fact{"availability-zone-id", *home.AvailabilityZoneId},
		fact{"cidr-block", *home.CidrBlock},
		fact{"cidr", *home.CidrBlock},
		fact{"cidrBlock", *home.CidrBlock},
		fact{"state", "available"},
		fact{"owner-id", *home.OwnerId},
		fact{"subnet-arn", *home.SubnetArn},
		fact{"default-for-az", strconv.FormatBool(*home.DefaultForAz)},
		fact{"map-public-ip-on-launch", strconv.FormatBool(*home.MapPublicIpOnLaunch)},
	)...)
	describesNetwork(t, ec, network{subnetIDs, *home.SubnetId, noSubnet, "InvalidSubnetID.NotFound"}, facts)
}

func TestDescribeSecurityGroups(t *testing.T) {
	ec := open(t)
	out, err := ec.DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{GroupIds: []string{ec.group}})
	ok(t, err)
	known := out.SecurityGroups[0]
	describesNetwork(t, ec, network{groupIDs, ec.group, noGroup, "InvalidGroup.NotFound"}, withTagFacts(known.Tags,
		fact{"group-id", ec.group},
		fact{"group-name", *known.GroupName},
		fact{"vpc-id", *known.VpcId},
		fact{"description", *known.Description},
		fact{"owner-id", *known.OwnerId},
	))
}

func TestDescribeVpcs(t *testing.T) {
	ec := open(t)
	out, err := ec.DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{VpcIds: []string{*ec.subnet.VpcId}})
	ok(t, err)
	known := out.Vpcs[0]
	describesNetwork(t, ec, network{vpcIDs, *known.VpcId, noVPC, "InvalidVpcID.NotFound"}, withTagFacts(known.Tags,
		fact{"vpc-id", *known.VpcId},
		fact{"cidr", *known.CidrBlock},
		fact{"state", "available"},
		fact{"owner-id", *known.OwnerId},
		fact{"is-default", strconv.FormatBool(*known.IsDefault)},
	))
}

func TestDescribeRouteTables(t *testing.T) {
	ec := open(t)
	out, err := ec.DescribeRouteTables(t.Context(), &ec2.DescribeRouteTablesInput{
		Filters: []types.Filter{filter("vpc-id", *ec.subnet.VpcId), filter("association.main", "true")},
	})
	ok(t, err)
	known := out.RouteTables[0]
	describesNetwork(t, ec, network{routeTableIDs, *known.RouteTableId, "rtb-0000000000000000f", "InvalidRouteTableID.NotFound"}, []fact{
		{"route-table-id", *known.RouteTableId},
		{"vpc-id", *known.VpcId},
		{"owner-id", *known.OwnerId},
		{"association.main", "true"},
		{"association.route-table-association-id", *known.Associations[0].RouteTableAssociationId},
		{"route.destination-cidr-block", *known.Routes[0].DestinationCidrBlock},
		{"route.gateway-id", "local"},
		{"route.origin", "CreateRouteTable"},
		{"route.state", "active"},
	})
}

// TestDescribeAvailabilityZones has no pages: a region has few zones.
func TestDescribeAvailabilityZones(t *testing.T) {
	ec := open(t)
	zones := func(ctx context.Context, in *ec2.DescribeAvailabilityZonesInput) ([]string, error) {
		out, err := ec.DescribeAvailabilityZones(ctx, in)
		if err != nil {
			return nil, err
		}
		var names []string
		for _, zone := range out.AvailabilityZones {
			names = append(names, *zone.ZoneName)
		}
		return names, nil
	}
	home := *ec.subnet.AvailabilityZone
	verify(t, ec, []check{
		{name: "all, with the zones of the subnets among them", run: func(t *testing.T, ec *endpoint) {
			names, err := zones(t.Context(), &ec2.DescribeAvailabilityZonesInput{})
			if err != nil || !slices.Contains(names, home) || !slices.Contains(names, *ec.otherZone.AvailabilityZone) {
				t.Errorf("got %v (%v)", names, err)
			}
		}},
		{name: "one, by name, by id, by filter", run: func(t *testing.T, ec *endpoint) {
			for _, in := range []*ec2.DescribeAvailabilityZonesInput{
				{ZoneNames: []string{home}},
				{ZoneIds: []string{*ec.subnet.AvailabilityZoneId}},
				{Filters: []types.Filter{filter("zone-name", home), filter("state", "available"), filter("region-name", ec.region)}},
				{Filters: []types.Filter{filter("zone-id", *ec.subnet.AvailabilityZoneId), filter("zone-type", "availability-zone")}},
			} {
				if names, err := zones(t.Context(), in); err != nil || !slices.Equal(names, []string{home}) {
					t.Errorf("got %v (%v), want %s", names, err, home)
				}
			}
		}},
		{name: "an unknown zone", run: refused("InvalidParameterValue", func(ctx context.Context, _ *endpoint) error {
			_, err := zones(ctx, &ec2.DescribeAvailabilityZonesInput{ZoneNames: []string{"xx-nowhere-1a"}})
			return err
		})},
	})
}

func withTagFacts(tags []types.Tag, facts ...fact) []fact {
	if len(tags) > 0 {
		facts = append(facts, fact{"tag-key", *tags[0].Key}, fact{"tag:" + *tags[0].Key, *tags[0].Value})
	}
	return facts
}

// network is a kind of resource of a network: how it is listed, one that exists, and one that does not.
type network struct {
	list                     lister
	known, unknown, notFound string
}

// describesNetwork has the rows that the describe calls share.
func describesNetwork(t *testing.T, ec *endpoint, n network, facts []fact) {
	list, known := n.list, n.known
	var rows []check
	for _, f := range facts {
		rows = append(rows, check{name: f.name, run: func(t *testing.T, ec *endpoint) {
			found, err := list(t.Context(), ec, nil, nil, filter(f.name, f.value))
			if err != nil || !slices.Contains(found, known) {
				t.Errorf("%s=%s finds %v (%v), want %s among them", f.name, f.value, found, err, known)
			}
			none, err := list(t.Context(), ec, nil, nil, filter(f.name, "no such "+f.value))
			if err != nil || len(none) != 0 {
				t.Errorf("a wrong %s finds %v (%v)", f.name, none, err)
			}
		}})
	}
	verify(t, ec, rows)
	listing := func(ids []string, maxResults *int32, filters ...types.Filter) call {
		return func(ctx context.Context, ec *endpoint) error {
			_, err := list(ctx, ec, ids, maxResults, filters...)
			return err
		}
	}
	verify(t, ec, []check{
		{name: "by id", run: func(t *testing.T, ec *endpoint) {
			if found, err := list(t.Context(), ec, []string{known}, nil); err != nil || !slices.Equal(found, []string{known}) {
				t.Errorf("found %v (%v), want %s", found, err, known)
			}
		}},
		{name: "all, and all in pages", run: func(t *testing.T, ec *endpoint) {
			all, err := list(t.Context(), ec, nil, nil)
			ok(t, err)
			paged, err := list(t.Context(), ec, nil, aws.Int32(5))
			ok(t, err)
			slices.Sort(all)
			slices.Sort(paged)
			if !slices.Equal(all, paged) || !slices.Contains(all, known) {
				t.Errorf("all %v, in pages %v", all, paged)
			}
		}},
		{name: "an unknown id", run: refused(n.notFound, listing([]string{n.unknown}, nil))},
		{name: "one unknown id fails them all", strict: true, run: refused(n.notFound, listing([]string{known, n.unknown}, nil))},
		{name: "pages of 4", strict: true, run: refused("InvalidParameterValue", listing(nil, aws.Int32(4)))},
		{name: "pages of 1001", strict: true, run: refused("InvalidParameterValue", listing(nil, aws.Int32(1001)))},
		{name: "a filter that does not exist", run: refused("InvalidParameterValue", listing(nil, nil, filter("colour", "red")))},
	})
}
