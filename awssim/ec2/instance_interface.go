// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"net/netip"
	"time"
)

// InstanceNetworkInterface is a network interface as EC2 shows it with its instance: without tags and zone (EC2 API
// reference, InstanceNetworkInterface).
type InstanceNetworkInterface struct {
	NetworkInterfaceID string                       `json:"networkInterfaceId"`
	SubnetID           string                       `json:"subnetId"`
	VPCID              string                       `json:"vpcId"`
	InterfaceType      string                       `json:"interfaceType"`
	Description        string                       `json:"description"`
	Status             string                       `json:"status"`
	MACAddress         string                       `json:"macAddress"`
	PrivateIPAddress   netip.Addr                   `json:"privateIpAddress,omitzero"`
	PrivateDNSName     string                       `json:"privateDnsName,omitempty"`
	PrivateIPAddresses []PrivateIPAddress           `json:"privateIpAddressesSet"`
	IPv4Prefixes       []IPv4Prefix                 `json:"ipv4PrefixSet,omitempty"`
	IPv6Addresses      []IPv6Address                `json:"ipv6AddressesSet"`
	IPv6Prefixes       []IPv6Prefix                 `json:"ipv6PrefixSet,omitempty"`
	SourceDestCheck    bool                         `json:"sourceDestCheck"`
	Groups             []GroupIdentifier            `json:"groupSet"`
	Attachment         *InstanceInterfaceAttachment `json:"attachment,omitempty"`
	Association        *Association                 `json:"association,omitempty"`
	OwnerID            string                       `json:"ownerId"`
	Operator           Operator                     `json:"operator"`
	ConnectionTracking *ConnectionTracking          `json:"connectionTrackingConfiguration,omitempty"`
}

// InstanceInterfaceAttachment is an attachment without the instance that it is shown with (EC2 API reference,
// InstanceNetworkInterfaceAttachment).
type InstanceInterfaceAttachment struct {
	AttachmentID        string    `json:"attachmentId"`
	DeviceIndex         int       `json:"deviceIndex"`
	NetworkCardIndex    int       `json:"networkCardIndex"`
	Status              string    `json:"status"`
	AttachTime          time.Time `json:"attachTime"`
	DeleteOnTermination bool      `json:"deleteOnTermination"`
	ENASRD              *ENASRD   `json:"enaSrdSpecification,omitempty"`
}

// shownWithInstance converts the interfaces of an instance.
func shownWithInstance(enis []*NetworkInterface) []InstanceNetworkInterface {
	return each(enis, func(e *NetworkInterface) InstanceNetworkInterface {
		shown := InstanceNetworkInterface{
			NetworkInterfaceID: e.NetworkInterfaceID, SubnetID: e.SubnetID, VPCID: e.VPCID, InterfaceType: e.InterfaceType,
			Description: e.Description, Status: e.Status, MACAddress: e.MACAddress,
			PrivateIPAddress: e.PrivateIPAddress, PrivateDNSName: e.PrivateDNSName, PrivateIPAddresses: e.PrivateIPAddresses,
			IPv4Prefixes: e.IPv4Prefixes, IPv6Addresses: e.IPv6Addresses, IPv6Prefixes: e.IPv6Prefixes,
			SourceDestCheck: e.SourceDestCheck, Groups: e.Groups, Association: e.Association, OwnerID: e.OwnerID,
			ConnectionTracking: e.ConnectionTracking,
		}
		if a := e.Attachment; a != nil {
			shown.Attachment = &InstanceInterfaceAttachment{
				AttachmentID: a.AttachmentID, DeviceIndex: a.DeviceIndex, NetworkCardIndex: a.NetworkCardIndex, Status: a.Status,
				AttachTime: a.AttachTime, DeleteOnTermination: a.DeleteOnTermination, ENASRD: a.ENASRD,
			}
		}
		return shown
	})
}
