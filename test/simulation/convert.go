// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/eni"
)

// networkInterface converts as internal/aws/awsec2 converts what the SDK gives it.
func networkInterface(n *ec2.NetworkInterface) eni.Interface {
	converted := eni.Interface{
		ID: n.NetworkInterfaceID, Type: eni.Type(n.InterfaceType), Status: eni.Status(n.Status),
		Description: n.Description, MAC: n.MACAddress,
		SubnetID: n.SubnetID, VPCID: n.VPCID, Zone: n.AvailabilityZone,
		SourceDestCheck: n.SourceDestCheck, Tags: n.Tags, RequesterManaged: n.RequesterManaged,
		Addresses: addressesOf(n),
	}
	for _, group := range n.Groups {
		converted.Groups = append(converted.Groups, group.GroupID)
	}
	if a := n.Attachment; a != nil {
		converted.Attachment = &eni.Attachment{
			ID: a.AttachmentID, InstanceID: a.InstanceID, Slot: eni.Slot{Card: a.NetworkCardIndex, Device: a.DeviceIndex},
			Status: eni.AttachmentStatus(a.Status), Since: a.AttachTime, DeleteOnTermination: a.DeleteOnTermination,
		}
	}
	return converted
}

func addressesOf(n *ec2.NetworkInterface) eni.Addresses {
	a := eni.Addresses{PrimaryIPv4: n.PrivateIPAddress}
	for _, private := range n.PrivateIPAddresses {
		if !private.Primary {
			a.SecondaryIPv4 = append(a.SecondaryIPv4, private.PrivateIPAddress)
		}
	}
	for _, prefix := range n.IPv4Prefixes {
		a.IPv4Prefixes = append(a.IPv4Prefixes, prefix.IPv4Prefix)
	}
	for _, address := range n.IPv6Addresses {
		a.IPv6 = append(a.IPv6, address.IPv6Address)
	}
	for _, prefix := range n.IPv6Prefixes {
		a.IPv6Prefixes = append(a.IPv6Prefixes, prefix.IPv6Prefix)
	}
	return a
}

func machineOf(i *ec2.Instance) eni.Instance {
	return eni.Instance{
		ID: i.InstanceID, Type: i.InstanceType, Zone: i.Placement.AvailabilityZone, VPCID: i.VPCID,
		State: eni.InstanceState(i.State.Name),
	}
}

func subnet(s *ec2.Subnet) eni.Subnet {
	converted := eni.Subnet{
		ID: s.SubnetID, Name: s.Tags["Name"], VPCID: s.VPCID, Zone: s.AvailabilityZone, CIDR: s.CIDRBlock,
		FreeIPv4: s.AvailableIPAddressCount, HasIPv6: len(s.IPv6CIDRBlockAssociations) > 0, Tags: s.Tags,
	}
	for _, association := range s.IPv6CIDRBlockAssociations {
		converted.IPv6CIDR = association.IPv6CIDRBlock
	}
	return converted
}
