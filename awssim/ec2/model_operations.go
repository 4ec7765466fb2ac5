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
		mutating("AttachNetworkInterface", (*Model).AttachNetworkInterface),
		mutating("CancelSpotFleetRequests", (*Model).CancelSpotFleetRequests),
		mutating("CreateFleet", (*Model).CreateFleet),
		mutating("CreateLaunchTemplate", (*Model).CreateLaunchTemplate),
		mutating("CreateLaunchTemplateVersion", (*Model).CreateLaunchTemplateVersion),
		mutating("CreateNetworkInterface", (*Model).CreateNetworkInterface),
		mutating("CreateSubnetCidrReservation", (*Model).CreateSubnetCIDRReservation),
		mutating("CreateTags", (*Model).CreateTags),
		mutating("DeleteFleets", (*Model).DeleteFleets),
		mutating("DeleteLaunchTemplate", (*Model).DeleteLaunchTemplate),
		mutating("DeleteLaunchTemplateVersions", (*Model).DeleteLaunchTemplateVersions),
		mutating("DeleteNetworkInterface", (*Model).DeleteNetworkInterface),
		mutating("DeleteSubnetCidrReservation", (*Model).DeleteSubnetCIDRReservation),
		mutating("DeleteTags", (*Model).DeleteTags),
		reading("DescribeAvailabilityZones", (*Model).DescribeAvailabilityZones),
		reading("DescribeFleets", (*Model).DescribeFleets),
		reading("DescribeImages", (*Model).DescribeImages),
		reading("DescribeInstanceStatus", (*Model).DescribeInstanceStatus),
		reading("DescribeInstanceTypes", (*Model).DescribeInstanceTypes),
		reading("DescribeInstances", (*Model).DescribeInstances),
		reading("DescribeLaunchTemplateVersions", (*Model).DescribeLaunchTemplateVersions),
		reading("DescribeLaunchTemplates", (*Model).DescribeLaunchTemplates),
		reading("DescribeNetworkInterfaceAttribute", (*Model).DescribeNetworkInterfaceAttribute),
		reading("DescribeNetworkInterfaces", (*Model).DescribeNetworkInterfaces),
		reading("DescribeSecurityGroups", (*Model).DescribeSecurityGroups),
		reading("DescribeSpotFleetRequests", (*Model).DescribeSpotFleetRequests),
		reading("DescribeSubnets", (*Model).DescribeSubnets),
		reading("DescribeTags", (*Model).DescribeTags),
		reading("DescribeVpcs", (*Model).DescribeVPCs),
		mutating("DetachNetworkInterface", (*Model).DetachNetworkInterface),
		reading("GetSubnetCidrReservations", (*Model).GetSubnetCIDRReservations),
		mutating("ModifyLaunchTemplate", (*Model).ModifyLaunchTemplate),
		mutating("ModifyNetworkInterfaceAttribute", (*Model).ModifyNetworkInterfaceAttribute),
		mutating("RequestSpotFleet", (*Model).RequestSpotFleet),
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
