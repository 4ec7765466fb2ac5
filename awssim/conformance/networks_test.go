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
)

// newVPC creates a VPC of 10.77.0.0/16, which the test removes after everything in it.
func (ec *endpoint) newVPC(t *testing.T) types.Vpc {
	t.Helper()
	out, err := ec.CreateVpc(t.Context(), &ec2.CreateVpcInput{
		CidrBlock: aws.String("10.77.0.0/16"), AmazonProvidedIpv6CidrBlock: aws.Bool(true), TagSpecifications: named("vpc"),
	})
	ok(t, err)
	ec.removeLater(t, "VPC", "InvalidVpcID.NotFound", func(ctx context.Context) error {
		_, err := ec.DeleteVpc(ctx, &ec2.DeleteVpcInput{VpcId: out.Vpc.VpcId})
		return err
	})
	ec.await(t, "the new VPC", func(ctx context.Context) (string, error) {
		found, err := ec.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{Filters: []types.Filter{filter("vpc-id", *out.Vpc.VpcId)}})
		if err != nil || len(found.Vpcs) != 1 || found.Vpcs[0].State != types.VpcStateAvailable || !hasIPv6(found.Vpcs[0]) {
			return "no VPC with an IPv6 range", err
		}
		*out.Vpc = found.Vpcs[0]
		return "", nil
	})
	return *out.Vpc
}

func hasIPv6(vpc types.Vpc) bool {
	return slices.ContainsFunc(vpc.Ipv6CidrBlockAssociationSet, func(a types.VpcIpv6CidrBlockAssociation) bool {
		return a.Ipv6CidrBlockState.State == types.VpcCidrBlockStateCodeAssociated
	})
}

func (ec *endpoint) newSubnet(t *testing.T, vpcID, cidr string) types.Subnet {
	t.Helper()
	out, err := ec.CreateSubnet(t.Context(), &ec2.CreateSubnetInput{
		VpcId: &vpcID, CidrBlock: &cidr, AvailabilityZone: ec.subnet.AvailabilityZone, TagSpecifications: named("subnet"),
	})
	ok(t, err)
	ec.removeLater(t, "subnet", "InvalidSubnetID.NotFound", func(ctx context.Context) error {
		_, err := ec.DeleteSubnet(ctx, &ec2.DeleteSubnetInput{SubnetId: out.Subnet.SubnetId})
		return err
	})
	return *out.Subnet
}

// removeLater removes a resource at the end of the test, unless the test has removed it.
func (ec *endpoint) removeLater(t *testing.T, what, gone string, remove func(context.Context) error) {
	t.Helper()
	t.Cleanup(func() {
		if err := remove(context.WithoutCancel(t.Context())); err != nil && codeOf(err) != gone {
			t.Errorf("clean up %s: %v", what, err)
		}
	})
}

// named is the tag Name of a new resource.
func named(resource types.ResourceType) []types.TagSpecification {
	return []types.TagSpecification{{ResourceType: resource, Tags: []types.Tag{tag("Name", "made by a test")}}}
}

func createVPC(cidr string, dry bool) call {
	return func(ctx context.Context, ec *endpoint) error {
		_, err := ec.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: &cidr, DryRun: &dry})
		return err
	}
}

func deleteVPC(id string) call {
	return func(ctx context.Context, ec *endpoint) error {
		_, err := ec.DeleteVpc(ctx, &ec2.DeleteVpcInput{VpcId: &id})
		return err
	}
}

func TestVPCs(t *testing.T) {
	ec := open(t)
	vpc := ec.newVPC(t)
	id := *vpc.VpcId
	inVPC := []types.Filter{filter("vpc-id", id)}
	verify(t, ec, []check{
		{name: "a VPC has its ranges and tags", run: func(t *testing.T, _ *endpoint) {
			if *vpc.CidrBlock != "10.77.0.0/16" || tagsOf(vpc.Tags)["Name"] == "" || *vpc.IsDefault || aws.ToString(vpc.DhcpOptionsId) == "" {
				t.Errorf("VPC %+v", vpc)
			}
		}},
		{name: "a VPC has a default security group, a main route table and a default network ACL", run: func(t *testing.T, ec *endpoint) {
			groups, err := ec.DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{Filters: append(inVPC, filter("group-name", "default"))})
			ok(t, err)
			tables, err := ec.DescribeRouteTables(t.Context(), &ec2.DescribeRouteTablesInput{Filters: append(inVPC, filter("association.main", "true"))})
			ok(t, err)
			acls, err := ec.DescribeNetworkAcls(t.Context(), &ec2.DescribeNetworkAclsInput{Filters: append(inVPC, filter("default", "true"))})
			ok(t, err)
			if len(groups.SecurityGroups) != 1 || len(tables.RouteTables) != 1 || len(acls.NetworkAcls) != 1 {
				t.Errorf("%d groups, %d tables, %d ACLs", len(groups.SecurityGroups), len(tables.RouteTables), len(acls.NetworkAcls))
			}
		}},
		{name: "attributes", run: func(t *testing.T, ec *endpoint) { changesVPCAttributes(t, ec, id) }},
		{name: "a VPC with a subnet cannot be deleted", run: func(t *testing.T, ec *endpoint) {
			subnet := ec.newSubnet(t, id, "10.77.1.0/24")
			expectRefusal(t, "DependencyViolation", deleteVPC(id)(t.Context(), ec))
			_, err := ec.DeleteSubnet(t.Context(), &ec2.DeleteSubnetInput{SubnetId: subnet.SubnetId})
			ok(t, err)
		}},
		{name: "too large a range", run: refused("InvalidVpc.Range", createVPC("10.0.0.0/8", false))},
		{name: "no range", run: refused("InvalidParameterValue", createVPC("10.0.0.0", false))},
		{name: "a dry run", run: refused("DryRunOperation", createVPC("10.78.0.0/16", true))},
		{name: "an unknown VPC", run: refused("InvalidVpcID.NotFound", deleteVPC(noVPC))},
		{name: "a deleted VPC is gone, with all that it had", run: func(t *testing.T, ec *endpoint) {
			ok(t, deleteVPC(id)(t.Context(), ec))
			ec.await(t, "the end of the VPC", func(ctx context.Context) (string, error) {
				tables, err := ec.DescribeRouteTables(ctx, &ec2.DescribeRouteTablesInput{Filters: inVPC})
				if err != nil || len(tables.RouteTables) > 0 {
					return "a route table", err
				}
				groups, err := ec.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{Filters: inVPC})
				if err != nil || len(groups.SecurityGroups) > 0 {
					return "a group", err
				}
				return "", nil
			})
			expectRefusal(t, "InvalidVpcID.NotFound", deleteVPC(id)(t.Context(), ec))
		}},
	})
}

func changesVPCAttributes(t *testing.T, ec *endpoint, id string) {
	t.Helper()
	hostnames := func(want bool) {
		t.Helper()
		ec.await(t, "the attribute", func(ctx context.Context) (string, error) {
			out, err := ec.DescribeVpcAttribute(ctx, &ec2.DescribeVpcAttributeInput{VpcId: &id, Attribute: types.VpcAttributeNameEnableDnsHostnames})
			if err != nil || *out.EnableDnsHostnames.Value != want {
				return "another value", err
			}
			return "", nil
		})
	}
	hostnames(false)
	_, err := ec.ModifyVpcAttribute(t.Context(), &ec2.ModifyVpcAttributeInput{
		VpcId: &id, EnableDnsHostnames: &types.AttributeBooleanValue{Value: aws.Bool(true)},
	})
	ok(t, err)
	hostnames(true)
}

func TestSubnets(t *testing.T) {
	ec := open(t)
	vpc := ec.newVPC(t)
	id := *vpc.VpcId
	subnet := ec.newSubnet(t, id, "10.77.0.0/24")
	creating := func(cidr, zone string, change ...func(*ec2.CreateSubnetInput)) call {
		return func(ctx context.Context, ec *endpoint) error {
			in := &ec2.CreateSubnetInput{VpcId: &id, CidrBlock: &cidr, AvailabilityZone: &zone}
			for _, c := range change {
				c(in)
			}
			_, err := ec.CreateSubnet(ctx, in)
			return err
		}
	}
	zone := *ec.subnet.AvailabilityZone
	deleting := func(id string) call {
		return func(ctx context.Context, ec *endpoint) error {
			_, err := ec.DeleteSubnet(ctx, &ec2.DeleteSubnetInput{SubnetId: &id})
			return err
		}
	}
	verify(t, ec, []check{
		{name: "a subnet has 251 free addresses of a /24", run: func(t *testing.T, _ *endpoint) {
			if *subnet.AvailableIpAddressCount != 251 || *subnet.AvailabilityZone != zone || tagsOf(subnet.Tags)["Name"] == "" {
				t.Errorf("subnet %+v", subnet)
			}
		}},
		{name: "an overlap", run: refused("InvalidSubnet.Conflict", creating("10.77.0.128/25", zone))},
		{name: "outside of the VPC", run: refused("InvalidSubnet.Range", creating("10.78.0.0/24", zone))},
		{name: "too small", run: refused("InvalidSubnet.Range", creating("10.77.9.0/29", zone))},
		{name: "an unknown zone", run: refused("InvalidParameterValue", creating("10.77.9.0/24", "xx-nowhere-1a"))},
		{name: "an unknown VPC", run: refused("InvalidVpcID.NotFound", creating("10.77.9.0/24", zone,
			func(in *ec2.CreateSubnetInput) { in.VpcId = aws.String(noVPC) }))},
		{name: "a dry run", run: refused("DryRunOperation", creating("10.77.9.0/24", zone,
			func(in *ec2.CreateSubnetInput) { in.DryRun = aws.Bool(true) }))},
		{name: "an interface keeps its subnet, and can get an IPv6 address at its creation", run: func(t *testing.T, ec *endpoint) {
			usesSubnet(t, ec, vpc)
		}},
		{name: "an unknown subnet", run: refused("InvalidSubnetID.NotFound", deleting(noSubnet))},
		{name: "a deleted subnet leaves its range free", run: func(t *testing.T, ec *endpoint) {
			ok(t, deleting(*subnet.SubnetId)(t.Context(), ec))
			again := ec.newSubnet(t, id, "10.77.0.0/25")
			ok(t, deleting(*again.SubnetId)(t.Context(), ec))
		}},
	})
}

// usesSubnet creates a dual-stack subnet that assigns IPv6 addresses, and an interface in it.
func usesSubnet(t *testing.T, ec *endpoint, vpc types.Vpc) {
	t.Helper()
	six := *vpc.Ipv6CidrBlockAssociationSet[0].Ipv6CidrBlock
	out, err := ec.CreateSubnet(t.Context(), &ec2.CreateSubnetInput{
		VpcId: vpc.VpcId, CidrBlock: aws.String("10.77.2.0/24"), Ipv6CidrBlock: aws.String(six[:len(six)-len("56")] + "64"),
	})
	ok(t, err)
	id := out.Subnet.SubnetId
	_, err = ec.ModifySubnetAttribute(t.Context(), &ec2.ModifySubnetAttributeInput{
		SubnetId: id, AssignIpv6AddressOnCreation: &types.AttributeBooleanValue{Value: aws.Bool(true)},
	})
	ok(t, err)
	eni, err := ec.CreateNetworkInterface(t.Context(), &ec2.CreateNetworkInterfaceInput{SubnetId: id})
	ok(t, err)
	if len(eni.NetworkInterface.Ipv6Addresses) != 1 {
		t.Errorf("IPv6 addresses %+v, want one", eni.NetworkInterface.Ipv6Addresses)
	}
	_, err = ec.DeleteSubnet(t.Context(), &ec2.DeleteSubnetInput{SubnetId: id})
	expectRefusal(t, "DependencyViolation", err)
	interfaceID := *eni.NetworkInterface.NetworkInterfaceId
	ec.await(t, "the removal of "+interfaceID, func(ctx context.Context) (string, error) { return ec.remove(ctx, interfaceID) })
	_, err = ec.DeleteSubnet(t.Context(), &ec2.DeleteSubnetInput{SubnetId: id})
	ok(t, err)
}

func TestInternetGatewaysAndRoutes(t *testing.T) {
	ec := open(t)
	vpc := *ec.newVPC(t).VpcId
	subnet := *ec.newSubnet(t, vpc, "10.77.0.0/24").SubnetId
	gateway := ec.newGateway(t)
	table := ec.newTable(t, vpc)
	attaching := func(ctx context.Context, ec *endpoint) error {
		_, err := ec.AttachInternetGateway(ctx, &ec2.AttachInternetGatewayInput{InternetGatewayId: &gateway, VpcId: &vpc})
		return err
	}
	routing := func(cidr, gateway string) call {
		return func(ctx context.Context, ec *endpoint) error {
			_, err := ec.CreateRoute(ctx, &ec2.CreateRouteInput{RouteTableId: &table, DestinationCidrBlock: &cidr, GatewayId: &gateway})
			return err
		}
	}
	unrouting := func(cidr string) call {
		return func(ctx context.Context, ec *endpoint) error {
			_, err := ec.DeleteRoute(ctx, &ec2.DeleteRouteInput{RouteTableId: &table, DestinationCidrBlock: &cidr})
			return err
		}
	}
	verify(t, ec, []check{
		{name: "a route to a gateway of no VPC", run: refused("InvalidParameterValue", routing("0.0.0.0/0", gateway))},
		{name: "a gateway has one VPC", run: func(t *testing.T, ec *endpoint) {
			ok(t, attaching(t.Context(), ec))
			expectRefusal(t, "Resource.AlreadyAssociated", attaching(t.Context(), ec))
			_, err := ec.DeleteInternetGateway(t.Context(), &ec2.DeleteInternetGatewayInput{InternetGatewayId: &gateway})
			expectRefusal(t, "DependencyViolation", err)
		}},
		{name: "a default route", run: func(t *testing.T, ec *endpoint) {
			ok(t, routing("0.0.0.0/0", gateway)(t.Context(), ec))
			expectRefusal(t, "RouteAlreadyExists", routing("0.0.0.0/0", gateway)(t.Context(), ec))
			found, err := ec.DescribeRouteTables(t.Context(), &ec2.DescribeRouteTablesInput{RouteTableIds: []string{table}})
			ok(t, err)
			if routes := found.RouteTables[0].Routes; len(routes) != 3 { // of IPv4, IPv6, and the new one
				t.Errorf("routes %+v", routes)
			}
		}},
		{name: "an unknown gateway", run: refused("InvalidGatewayID.NotFound", routing("10.9.0.0/16", "igw-0000000000000000f"))},
		{name: "an unknown route", run: refused("InvalidRoute.NotFound", unrouting("10.9.0.0/16"))},
		{name: "the local route stays", strict: true, run: refused("InvalidParameterValue", unrouting("10.77.0.0/16"))},
		{name: "a subnet has one route table", run: func(t *testing.T, ec *endpoint) { associates(t, ec, subnet, table, vpc) }},
		{name: "the main route table stays", run: func(t *testing.T, ec *endpoint) {
			main, err := ec.DescribeRouteTables(t.Context(), &ec2.DescribeRouteTablesInput{
				Filters: []types.Filter{filter("vpc-id", vpc), filter("association.main", "true")},
			})
			ok(t, err)
			_, err = ec.DeleteRouteTable(t.Context(), &ec2.DeleteRouteTableInput{RouteTableId: main.RouteTables[0].RouteTableId})
			expectRefusal(t, "DependencyViolation", err)
		}},
		{name: "a detached gateway", run: func(t *testing.T, ec *endpoint) {
			ok(t, unrouting("0.0.0.0/0")(t.Context(), ec))
			in := &ec2.DetachInternetGatewayInput{InternetGatewayId: &gateway, VpcId: &vpc}
			_, err := ec.DetachInternetGateway(t.Context(), in)
			ok(t, err)
			_, err = ec.DetachInternetGateway(t.Context(), in)
			expectRefusal(t, "Gateway.NotAttached", err)
		}},
	})
}

func (ec *endpoint) newGateway(t *testing.T) string {
	t.Helper()
	out, err := ec.CreateInternetGateway(t.Context(), &ec2.CreateInternetGatewayInput{TagSpecifications: named("internet-gateway")})
	ok(t, err)
	id := out.InternetGateway.InternetGatewayId
	ec.removeLater(t, "internet gateway", "InvalidInternetGatewayID.NotFound", func(ctx context.Context) error {
		_, err := ec.DeleteInternetGateway(ctx, &ec2.DeleteInternetGatewayInput{InternetGatewayId: id})
		return err
	})
	return *id
}

func (ec *endpoint) newTable(t *testing.T, vpcID string) string {
	t.Helper()
	out, err := ec.CreateRouteTable(t.Context(), &ec2.CreateRouteTableInput{VpcId: &vpcID, TagSpecifications: named("route-table")})
	ok(t, err)
	id := out.RouteTable.RouteTableId
	ec.removeLater(t, "route table", "InvalidRouteTableID.NotFound", func(ctx context.Context) error {
		_, err := ec.DeleteRouteTable(ctx, &ec2.DeleteRouteTableInput{RouteTableId: id})
		return err
	})
	return *id
}

// associates gives a subnet a route table, and takes it away.
func associates(t *testing.T, ec *endpoint, subnet, table, vpc string) {
	t.Helper()
	a, err := ec.AssociateRouteTable(t.Context(), &ec2.AssociateRouteTableInput{RouteTableId: &table, SubnetId: &subnet})
	ok(t, err)
	other := ec.newTable(t, vpc)
	_, err = ec.AssociateRouteTable(t.Context(), &ec2.AssociateRouteTableInput{RouteTableId: &other, SubnetId: &subnet})
	expectRefusal(t, "Resource.AlreadyAssociated", err)
	_, err = ec.DeleteRouteTable(t.Context(), &ec2.DeleteRouteTableInput{RouteTableId: &table})
	expectRefusal(t, "DependencyViolation", err)
	_, err = ec.DisassociateRouteTable(t.Context(), &ec2.DisassociateRouteTableInput{AssociationId: a.AssociationId})
	ok(t, err)
	_, err = ec.DisassociateRouteTable(t.Context(), &ec2.DisassociateRouteTableInput{AssociationId: a.AssociationId})
	expectRefusal(t, "InvalidAssociationID.NotFound", err)
}
