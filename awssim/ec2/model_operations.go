// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import "fmt"

// Operation is an action of the EC2 API.
type Operation struct {
	// Name of the action.
	Name string
	// IsMutating is false for Describe actions.
	IsMutating bool
	// NewInput returns a pointer to a request without parameters.
	NewInput func() any
	// Do executes a request that NewInput returned. Its error is an *Error.
	Do func(*Model, Call, any) (any, error)
}

// Operations returns all actions that are modelled.
func Operations() []Operation {
	return []Operation{
		mutating("AssignIpv6Addresses", (*Model).AssignIPv6Addresses),
		mutating("AssignPrivateIpAddresses", (*Model).AssignPrivateIPAddresses),
		mutating("AssociateRouteTable", (*Model).AssociateRouteTable),
		mutating("AttachInternetGateway", (*Model).AttachInternetGateway),
		mutating("AttachNetworkInterface", (*Model).AttachNetworkInterface),
		mutating("AuthorizeSecurityGroupEgress", (*Model).AuthorizeSecurityGroupEgress),
		mutating("AuthorizeSecurityGroupIngress", (*Model).AuthorizeSecurityGroupIngress),
		mutating("CancelSpotFleetRequests", (*Model).CancelSpotFleetRequests),
		mutating("CreateFleet", (*Model).CreateFleet),
		mutating("CreateInternetGateway", (*Model).CreateInternetGateway),
		mutating("CreateLaunchTemplate", (*Model).CreateLaunchTemplate),
		mutating("CreateLaunchTemplateVersion", (*Model).CreateLaunchTemplateVersion),
		mutating("CreateNetworkInterface", (*Model).CreateNetworkInterface),
		mutating("CreateRoute", (*Model).CreateRoute),
		mutating("CreateRouteTable", (*Model).CreateRouteTable),
		mutating("CreateSecurityGroup", (*Model).CreateSecurityGroup),
		mutating("CreateSubnet", (*Model).CreateSubnet),
		mutating("CreateSubnetCidrReservation", (*Model).CreateSubnetCIDRReservation),
		mutating("CreateTags", (*Model).CreateTags),
		mutating("CreateVpc", (*Model).CreateVPC),
		mutating("DeleteFleets", (*Model).DeleteFleets),
		mutating("DeleteInternetGateway", (*Model).DeleteInternetGateway),
		mutating("DeleteLaunchTemplate", (*Model).DeleteLaunchTemplate),
		mutating("DeleteLaunchTemplateVersions", (*Model).DeleteLaunchTemplateVersions),
		mutating("DeleteNetworkInterface", (*Model).DeleteNetworkInterface),
		mutating("DeleteRoute", (*Model).DeleteRoute),
		mutating("DeleteRouteTable", (*Model).DeleteRouteTable),
		mutating("DeleteSecurityGroup", (*Model).DeleteSecurityGroup),
		mutating("DeleteSubnet", (*Model).DeleteSubnet),
		mutating("DeleteSubnetCidrReservation", (*Model).DeleteSubnetCIDRReservation),
		mutating("DeleteTags", (*Model).DeleteTags),
		mutating("DeleteVpc", (*Model).DeleteVPC),
		reading("DescribeAccountAttributes", (*Model).DescribeAccountAttributes),
		reading("DescribeAvailabilityZones", (*Model).DescribeAvailabilityZones),
		reading("DescribeFleets", (*Model).DescribeFleets),
		reading("DescribeImages", (*Model).DescribeImages),
		reading("DescribeInstanceAttribute", (*Model).DescribeInstanceAttribute),
		reading("DescribeInstanceStatus", (*Model).DescribeInstanceStatus),
		reading("DescribeInstanceTypeOfferings", (*Model).DescribeInstanceTypeOfferings),
		reading("DescribeInstanceTypes", (*Model).DescribeInstanceTypes),
		reading("DescribeInstances", (*Model).DescribeInstances),
		reading("DescribeInternetGateways", (*Model).DescribeInternetGateways),
		reading("DescribeLaunchTemplateVersions", (*Model).DescribeLaunchTemplateVersions),
		reading("DescribeLaunchTemplates", (*Model).DescribeLaunchTemplates),
		reading("DescribeNetworkAcls", (*Model).DescribeNetworkACLs),
		reading("DescribeNetworkInterfaceAttribute", (*Model).DescribeNetworkInterfaceAttribute),
		reading("DescribeNetworkInterfaces", (*Model).DescribeNetworkInterfaces),
		reading("DescribeRegions", (*Model).DescribeRegions),
		reading("DescribeRouteTables", (*Model).DescribeRouteTables),
		reading("DescribeSecurityGroupRules", (*Model).DescribeSecurityGroupRules),
		reading("DescribeSecurityGroups", (*Model).DescribeSecurityGroups),
		reading("DescribeSpotFleetRequests", (*Model).DescribeSpotFleetRequests),
		reading("DescribeSubnets", (*Model).DescribeSubnets),
		reading("DescribeTags", (*Model).DescribeTags),
		reading("DescribeVpcAttribute", (*Model).DescribeVPCAttribute),
		reading("DescribeVpcs", (*Model).DescribeVPCs),
		mutating("DetachInternetGateway", (*Model).DetachInternetGateway),
		mutating("DetachNetworkInterface", (*Model).DetachNetworkInterface),
		mutating("DisassociateRouteTable", (*Model).DisassociateRouteTable),
		reading("GetSubnetCidrReservations", (*Model).GetSubnetCIDRReservations),
		mutating("ModifyInstanceAttribute", (*Model).ModifyInstanceAttribute),
		mutating("ModifyLaunchTemplate", (*Model).ModifyLaunchTemplate),
		mutating("ModifyNetworkInterfaceAttribute", (*Model).ModifyNetworkInterfaceAttribute),
		mutating("ModifySubnetAttribute", (*Model).ModifySubnetAttribute),
		mutating("ModifyVpcAttribute", (*Model).ModifyVPCAttribute),
		mutating("ReplaceRoute", (*Model).ReplaceRoute),
		mutating("ReplaceRouteTableAssociation", (*Model).ReplaceRouteTableAssociation),
		mutating("RequestSpotFleet", (*Model).RequestSpotFleet),
		mutating("RevokeSecurityGroupEgress", (*Model).RevokeSecurityGroupEgress),
		mutating("RevokeSecurityGroupIngress", (*Model).RevokeSecurityGroupIngress),
		mutating("RunInstances", (*Model).RunInstances),
		mutating("StartInstances", (*Model).StartInstances),
		mutating("StopInstances", (*Model).StopInstances),
		mutating("TerminateInstances", (*Model).TerminateInstances),
		mutating("UnassignIpv6Addresses", (*Model).UnassignIPv6Addresses),
		mutating("UnassignPrivateIpAddresses", (*Model).UnassignPrivateIPAddresses),
	}
}

func mutating[I, O any](name string, do func(*Model, Call, *I) (*O, error)) Operation {
	o := reading(name, do)
	o.IsMutating = true
	return o
}

func reading[I, O any](name string, do func(*Model, Call, *I) (*O, error)) Operation {
	return Operation{
		Name:     name,
		NewInput: func() any { return new(I) },
		Do: func(m *Model, c Call, input any) (any, error) {
			in, ok := input.(*I)
			if !ok {
				return nil, fmt.Errorf("%s: the input is a %T", name, input)
			}
			out, err := do(m, c, in)
			if err != nil {
				return nil, err
			}
			return out, nil
		},
	}
}
