// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// API is exactly the EC2 calls of the run-time path. Each method is one IAM action of the same name.
type API interface {
	DescribeInstances(context.Context, *ec2.DescribeInstancesInput,
		...func(*ec2.Options)) (*ec2.DescribeInstancesOutput, error)
	DescribeInstanceTypes(context.Context, *ec2.DescribeInstanceTypesInput,
		...func(*ec2.Options)) (*ec2.DescribeInstanceTypesOutput, error)
	DescribeNetworkInterfaces(context.Context, *ec2.DescribeNetworkInterfacesInput,
		...func(*ec2.Options)) (*ec2.DescribeNetworkInterfacesOutput, error)
	DescribeSecurityGroups(context.Context, *ec2.DescribeSecurityGroupsInput,
		...func(*ec2.Options)) (*ec2.DescribeSecurityGroupsOutput, error)
	GetSubnetCidrReservations(context.Context, *ec2.GetSubnetCidrReservationsInput,
		...func(*ec2.Options)) (*ec2.GetSubnetCidrReservationsOutput, error)
	DescribeSubnets(context.Context, *ec2.DescribeSubnetsInput, ...func(*ec2.Options)) (*ec2.DescribeSubnetsOutput, error)

	CreateNetworkInterface(context.Context, *ec2.CreateNetworkInterfaceInput,
		...func(*ec2.Options)) (*ec2.CreateNetworkInterfaceOutput, error)
	AttachNetworkInterface(context.Context, *ec2.AttachNetworkInterfaceInput,
		...func(*ec2.Options)) (*ec2.AttachNetworkInterfaceOutput, error)
	DetachNetworkInterface(context.Context, *ec2.DetachNetworkInterfaceInput,
		...func(*ec2.Options)) (*ec2.DetachNetworkInterfaceOutput, error)
	DeleteNetworkInterface(context.Context, *ec2.DeleteNetworkInterfaceInput,
		...func(*ec2.Options)) (*ec2.DeleteNetworkInterfaceOutput, error)
	ModifyNetworkInterfaceAttribute(context.Context, *ec2.ModifyNetworkInterfaceAttributeInput,
		...func(*ec2.Options)) (*ec2.ModifyNetworkInterfaceAttributeOutput, error)
	CreateTags(context.Context, *ec2.CreateTagsInput, ...func(*ec2.Options)) (*ec2.CreateTagsOutput, error)
	AssignPrivateIpAddresses(context.Context, *ec2.AssignPrivateIpAddressesInput,
		...func(*ec2.Options)) (*ec2.AssignPrivateIpAddressesOutput, error)
	UnassignPrivateIpAddresses(context.Context, *ec2.UnassignPrivateIpAddressesInput,
		...func(*ec2.Options)) (*ec2.UnassignPrivateIpAddressesOutput, error)
	AssignIpv6Addresses(context.Context, *ec2.AssignIpv6AddressesInput,
		...func(*ec2.Options)) (*ec2.AssignIpv6AddressesOutput, error)
	UnassignIpv6Addresses(context.Context, *ec2.UnassignIpv6AddressesInput,
		...func(*ec2.Options)) (*ec2.UnassignIpv6AddressesOutput, error)
}

var _ API = (*ec2.Client)(nil)
