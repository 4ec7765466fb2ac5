// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"context"
	"maps"
	"net/netip"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/core/eni"
)

var _ executor.Cloud = (*Client)(nil)

// CreateInterface implements [executor.Cloud].
func (c *Client) CreateInterface(ctx context.Context, request executor.CreateRequest) (eni.Interface, error) {
	input := &ec2.CreateNetworkInterfaceInput{
		ClientToken:                     unlessEmpty(request.Token),
		SubnetId:                        aws.String(request.SubnetID),
		Description:                     unlessEmpty(request.Description),
		Groups:                          request.Groups,
		SecondaryPrivateIpAddressCount:  unlessZero(request.Counts.SecondaryIPv4),
		Ipv4PrefixCount:                 unlessZero(request.Counts.IPv4Prefixes),
		Ipv6AddressCount:                unlessZero(request.Counts.IPv6),
		Ipv6PrefixCount:                 unlessZero(request.Counts.IPv6Prefixes),
		ConnectionTrackingSpecification: trackingRequest(request.ConnectionTracking),
	}
	if request.PrimaryIPv4.IsValid() {
		input.PrivateIpAddress = aws.String(request.PrimaryIPv4.String())
	}
	if request.IPv6.IsValid() {
		input.Ipv6Addresses = []types.InstanceIpv6Address{{Ipv6Address: aws.String(request.IPv6.String())}}
	}
	if len(request.Tags) > 0 {
		input.TagSpecifications = []types.TagSpecification{{
			ResourceType: types.ResourceTypeNetworkInterface,
			Tags:         tagList(request.Tags),
		}}
	}
	out, err := c.api.CreateNetworkInterface(ctx, input, noRetry)
	if err != nil {
		return eni.Interface{}, toAPIError(err)
	}
	return networkInterface(*out.NetworkInterface), nil
}

// AttachInterface implements [executor.Cloud]. It always sends the network card index: without it, EC2 would compare
// device indices across cards.
func (c *Client) AttachInterface(
	ctx context.Context, interfaceID, instanceID string, slot eni.Slot,
) (eni.Attachment, error) {
	return c.AttachInterfaceWith(ctx, "", interfaceID, instanceID, slot)
}

// AttachInterfaceWith implements [executor.Cloud].
func (c *Client) AttachInterfaceWith(
	ctx context.Context, express eni.ENAExpress, interfaceID, instanceID string, slot eni.Slot,
) (eni.Attachment, error) {
	out, err := c.api.AttachNetworkInterface(ctx, &ec2.AttachNetworkInterfaceInput{
		NetworkInterfaceId:  aws.String(interfaceID),
		InstanceId:          aws.String(instanceID),
		NetworkCardIndex:    aws.Int32(int32(slot.Card)),
		DeviceIndex:         aws.Int32(int32(slot.Device)),
		EnaSrdSpecification: expressRequest(express),
	}, noRetry)
	if err != nil {
		return eni.Attachment{}, toAPIError(err)
	}
	return eni.Attachment{
		ID: aws.ToString(out.AttachmentId), InstanceID: instanceID, Slot: slot, Status: eni.AttachmentAttaching,
		ENAExpress: express,
	}, nil
}

// DetachInterface implements [executor.Cloud].
func (c *Client) DetachInterface(ctx context.Context, attachmentID string, force bool) error {
	_, err := c.api.DetachNetworkInterface(ctx, &ec2.DetachNetworkInterfaceInput{
		AttachmentId: aws.String(attachmentID),
		Force:        aws.Bool(force),
	}, noRetry)
	return ignoreNotFound(err)
}

// DeleteInterface implements [executor.Cloud].
func (c *Client) DeleteInterface(ctx context.Context, interfaceID string) error {
	_, err := c.api.DeleteNetworkInterface(ctx,
		&ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: aws.String(interfaceID)}, noRetry)
	return toAPIError(err)
}

// SetDeleteOnTermination implements [executor.Cloud].
func (c *Client) SetDeleteOnTermination(ctx context.Context, interfaceID, attachmentID string, on bool) error {
	return c.modify(ctx, &ec2.ModifyNetworkInterfaceAttributeInput{
		NetworkInterfaceId: aws.String(interfaceID),
		Attachment: &types.NetworkInterfaceAttachmentChanges{
			AttachmentId: aws.String(attachmentID), DeleteOnTermination: aws.Bool(on),
		},
	})
}

// SetSourceDestCheck implements [executor.Cloud].
func (c *Client) SetSourceDestCheck(ctx context.Context, interfaceID string, on bool) error {
	return c.modify(ctx, &ec2.ModifyNetworkInterfaceAttributeInput{
		NetworkInterfaceId: aws.String(interfaceID),
		SourceDestCheck:    &types.AttributeBooleanValue{Value: aws.Bool(on)},
	})
}

// SetConnectionTracking implements [executor.Cloud].
func (c *Client) SetConnectionTracking(ctx context.Context, interfaceID string, to eni.ConnectionTracking) error {
	return c.modify(ctx, &ec2.ModifyNetworkInterfaceAttributeInput{
		NetworkInterfaceId: aws.String(interfaceID), ConnectionTrackingSpecification: trackingRequest(to),
	})
}

// SetENAExpress implements [executor.Cloud].
func (c *Client) SetENAExpress(ctx context.Context, interfaceID string, to eni.ENAExpress) error {
	return c.modify(ctx, &ec2.ModifyNetworkInterfaceAttributeInput{
		NetworkInterfaceId: aws.String(interfaceID), EnaSrdSpecification: expressRequest(to),
	})
}

// SetGroups implements [executor.Cloud].
func (c *Client) SetGroups(ctx context.Context, interfaceID string, groupIDs []string) error {
	return c.modify(ctx, &ec2.ModifyNetworkInterfaceAttributeInput{NetworkInterfaceId: aws.String(interfaceID),
		Groups: groupIDs})
}

// SetDescription implements [executor.Cloud].
func (c *Client) SetDescription(ctx context.Context, interfaceID, description string) error {
	return c.modify(ctx, &ec2.ModifyNetworkInterfaceAttributeInput{
		NetworkInterfaceId: aws.String(interfaceID),
		Description:        &types.AttributeValue{Value: aws.String(description)},
	})
}

// modify changes one attribute, the maximum per call (EC2 API reference, ModifyNetworkInterfaceAttribute).
func (c *Client) modify(ctx context.Context, input *ec2.ModifyNetworkInterfaceAttributeInput) error {
	_, err := c.api.ModifyNetworkInterfaceAttribute(ctx, input, noRetry)
	return toAPIError(err)
}

// PutTags implements [executor.Cloud].
func (c *Client) PutTags(ctx context.Context, interfaceID string, tags map[string]string) error {
	_, err := c.api.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{interfaceID}, Tags: tagList(tags)}, noRetry)
	return toAPIError(err)
}

// AssignIPv4 implements [executor.Cloud].
func (c *Client) AssignIPv4(ctx context.Context, interfaceID string, addresses, prefixes int) (eni.Addresses, error) {
	out, err := c.api.AssignPrivateIpAddresses(ctx, &ec2.AssignPrivateIpAddressesInput{
		NetworkInterfaceId:             aws.String(interfaceID),
		SecondaryPrivateIpAddressCount: unlessZero(addresses),
		Ipv4PrefixCount:                unlessZero(prefixes),
	}, noRetry)
	if err != nil {
		return eni.Addresses{}, toAPIError(err)
	}
	return eni.Addresses{
		SecondaryIPv4: convertAll(out.AssignedPrivateIpAddresses, func(a types.AssignedPrivateIpAddress) netip.Addr {
			return addr(a.PrivateIpAddress)
		}),
		IPv4Prefixes: convertAll(out.AssignedIpv4Prefixes, ipv4Prefix),
	}, nil
}

// ReassignIPv4 implements [executor.Cloud].
func (c *Client) ReassignIPv4(ctx context.Context, interfaceID string, addresses []netip.Addr) error {
	_, err := c.api.AssignPrivateIpAddresses(ctx, &ec2.AssignPrivateIpAddressesInput{
		NetworkInterfaceId: aws.String(interfaceID),
		PrivateIpAddresses: convertAll(addresses, netip.Addr.String),
		AllowReassignment:  aws.Bool(true),
	}, noRetry)
	return toAPIError(err)
}

// AssignIPv6 implements [executor.Cloud].
func (c *Client) AssignIPv6(ctx context.Context, interfaceID string, addresses, prefixes int) (eni.Addresses, error) {
	out, err := c.api.AssignIpv6Addresses(ctx, &ec2.AssignIpv6AddressesInput{
		NetworkInterfaceId: aws.String(interfaceID),
		Ipv6AddressCount:   unlessZero(addresses),
		Ipv6PrefixCount:    unlessZero(prefixes),
	}, noRetry)
	if err != nil {
		return eni.Addresses{}, toAPIError(err)
	}
	return eni.Addresses{
		IPv6:         convertAll(out.AssignedIpv6Addresses, func(a string) netip.Addr { return addr(&a) }),
		IPv6Prefixes: convertAll(out.AssignedIpv6Prefixes, func(p string) netip.Prefix { return prefix(&p) }),
	}, nil
}

// UnassignIPv4 implements [executor.Cloud].
func (c *Client) UnassignIPv4(ctx context.Context, interfaceID string, surplus eni.Addresses) error {
	_, err := c.api.UnassignPrivateIpAddresses(ctx, &ec2.UnassignPrivateIpAddressesInput{
		NetworkInterfaceId: aws.String(interfaceID),
		PrivateIpAddresses: convertAll(surplus.SecondaryIPv4, netip.Addr.String),
		Ipv4Prefixes:       convertAll(surplus.IPv4Prefixes, netip.Prefix.String),
	}, noRetry)
	return toAPIError(err)
}

// UnassignIPv6 implements [executor.Cloud].
func (c *Client) UnassignIPv6(ctx context.Context, interfaceID string, surplus eni.Addresses) error {
	_, err := c.api.UnassignIpv6Addresses(ctx, &ec2.UnassignIpv6AddressesInput{
		NetworkInterfaceId: aws.String(interfaceID),
		Ipv6Addresses:      convertAll(surplus.IPv6, netip.Addr.String),
		Ipv6Prefixes:       convertAll(surplus.IPv6Prefixes, netip.Prefix.String),
	}, noRetry)
	return toAPIError(err)
}

// tagList is sorted, so that a repeated request is identical to the first one, as its client token requires.
func tagList(tags map[string]string) []types.Tag {
	var list []types.Tag
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, types.Tag{Key: aws.String(key), Value: aws.String(tags[key])})
	}
	return list
}

// trackingRequest returns nil without a timeout.
func trackingRequest(to eni.ConnectionTracking) *types.ConnectionTrackingSpecificationRequest {
	if to.IsZero() {
		return nil
	}
	return &types.ConnectionTrackingSpecificationRequest{
		TcpEstablishedTimeout: unlessZero(to.TCPEstablished), UdpStreamTimeout: unlessZero(to.UDPStream),
		UdpTimeout: unlessZero(to.UDP),
	}
}

// expressRequest returns nil for the empty setting.
func expressRequest(to eni.ENAExpress) *types.EnaSrdSpecification {
	if to == "" {
		return nil
	}
	return &types.EnaSrdSpecification{
		EnaSrdEnabled: aws.Bool(to.IsOn()),
		EnaSrdUdpSpecification: &types.EnaSrdUdpSpecification{
			EnaSrdUdpEnabled: aws.Bool(to == eni.ENAExpressTCPAndUDP)},
	}
}

func unlessEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func unlessZero(n int) *int32 {
	if n == 0 {
		return nil
	}
	return aws.Int32(int32(n))
}
