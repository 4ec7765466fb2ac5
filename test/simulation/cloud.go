// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"

	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/core/eni"
)

// cloud is the EC2 of a process: the product's ports to EC2 over the model, without HTTP in between.
type cloud struct{ p *process }

var _ executor.Cloud = cloud{}

// request is one call to EC2, with what faults and invariants need of it.
type request struct {
	action string
	// target is the interface that a mutating call is about; empty for reads and for creating one.
	target string
	// instance is the instance that an attach names.
	instance string
	mutates  bool
	// create, attach and detach hold the parameters of the calls with invariants of their own.
	create *executor.CreateRequest
	// made is the interface that a create returned.
	made *eni.Interface
	slot eni.Slot
	// attachment is the ID that a detach names; reassigns has the addresses that a call moves, and unassigns those that
	// it removes. assigns has the numbers of addresses that EC2 chooses.
	attachment string
	reassigns  []netip.Addr
	unassigns  eni.Addresses
	assigns    eni.AddressCounts
}

// CreateInterface implements [executor.Cloud].
func (c cloud) CreateInterface(_ context.Context, r executor.CreateRequest) (made eni.Interface, err error) {
	r.Tags = c.p.written(r.Tags)
	in := &ec2.CreateNetworkInterfaceInput{
		InterfaceSettings: ec2.InterfaceSettings{
			SubnetID: r.SubnetID, Description: r.Description, Groups: r.Groups,
			SecondaryPrivateIPAddressCount: unlessZero(r.Counts.SecondaryIPv4),
			IPv4PrefixCount:                unlessZero(r.Counts.IPv4Prefixes),
			IPv6AddressCount:               unlessZero(r.Counts.IPv6), IPv6PrefixCount: unlessZero(r.Counts.IPv6Prefixes),
		},
		ClientToken: r.Token,
	}
	if r.PrimaryIPv4.IsValid() {
		in.PrivateIPAddress = r.PrimaryIPv4.String()
		c.p.run.noteAddress(r.SubnetID, r.PrimaryIPv4)
	}
	if len(r.Tags) > 0 {
		in.TagSpecifications = []ec2.TagSpecification{{ResourceType: "network-interface", Tags: tagList(r.Tags)}}
	}
	err = c.p.call(request{action: "CreateNetworkInterface", create: &r, made: &made, mutates: true},
		func(at ec2.Call) error {
			out, err := c.p.run.model.CreateNetworkInterface(at, in)
			if err == nil {
				made = c.p.read(networkInterface(out.NetworkInterface))
			}
			return err
		})
	return made, err
}

// AttachInterface implements [executor.Cloud].
func (c cloud) AttachInterface(_ context.Context, id, instanceID string, slot eni.Slot) (a eni.Attachment, err error) {
	r := request{action: "AttachNetworkInterface", target: id, instance: instanceID, slot: slot, mutates: true}
	err = c.p.call(r, func(at ec2.Call) error {
		out, err := c.p.run.model.AttachNetworkInterface(at, &ec2.AttachNetworkInterfaceInput{
			NetworkInterfaceID: id, InstanceID: instanceID, NetworkCardIndex: &slot.Card, DeviceIndex: &slot.Device,
		})
		if err == nil {
			a = eni.Attachment{ID: out.AttachmentID, InstanceID: instanceID, Slot: slot, Status: eni.AttachmentAttaching}
		}
		return err
	})
	return a, err
}

// AttachInterfaceWith implements [executor.Cloud]. No NodeENI of the simulation declares ENA Express.
func (c cloud) AttachInterfaceWith(
	_ context.Context, _ eni.ENAExpress, _, _ string, _ eni.Slot,
) (eni.Attachment, error) {
	panic("an attachment with ENA Express")
}

// DetachInterface implements [executor.Cloud].
func (c cloud) DetachInterface(_ context.Context, attachmentID string, force bool) error {
	r := request{action: "DetachNetworkInterface", attachment: attachmentID,
		target: c.p.run.truth().attachedBy(attachmentID), mutates: true}
	if force {
		r.action = forceDetach
	}
	return gone(c.p.call(r, func(at ec2.Call) error {
		_, err := c.p.run.model.DetachNetworkInterface(at,
			&ec2.DetachNetworkInterfaceInput{AttachmentID: attachmentID, Force: force})
		return err
	}))
}

// DeleteInterface implements [executor.Cloud].
func (c cloud) DeleteInterface(_ context.Context, id string) error {
	return c.p.call(request{action: "DeleteNetworkInterface", target: id, mutates: true}, func(at ec2.Call) error {
		_, err := c.p.run.model.DeleteNetworkInterface(at, &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceID: id})
		return err
	})
}

// SetDeleteOnTermination implements [executor.Cloud].
func (c cloud) SetDeleteOnTermination(_ context.Context, id, attachmentID string, on bool) error {
	return c.modify("DeleteOnTermination", &ec2.ModifyNetworkInterfaceAttributeInput{
		NetworkInterfaceID: id, Attachment: &ec2.AttachmentChanges{AttachmentID: attachmentID, DeleteOnTermination: &on},
	})
}

// SetSourceDestCheck implements [executor.Cloud].
func (c cloud) SetSourceDestCheck(_ context.Context, id string, on bool) error {
	return c.modify("SourceDestCheck",
		&ec2.ModifyNetworkInterfaceAttributeInput{NetworkInterfaceID: id, SourceDestCheck: &ec2.BoolValue{Value: on}})
}

// SetConnectionTracking implements [executor.Cloud]. No NodeENI of the simulation declares connection tracking.
func (c cloud) SetConnectionTracking(context.Context, string, eni.ConnectionTracking) error {
	panic("a change of connection tracking")
}

// SetENAExpress implements [executor.Cloud]. No NodeENI of the simulation declares ENA Express.
func (c cloud) SetENAExpress(context.Context, string, eni.ENAExpress) error {
	panic("a change of ENA Express")
}

// SetGroups implements [executor.Cloud].
func (c cloud) SetGroups(_ context.Context, id string, groupIDs []string) error {
	return c.modify("Groups", &ec2.ModifyNetworkInterfaceAttributeInput{NetworkInterfaceID: id, Groups: groupIDs})
}

// SetDescription implements [executor.Cloud].
func (c cloud) SetDescription(_ context.Context, id, description string) error {
	return c.modify("Description",
		&ec2.ModifyNetworkInterfaceAttributeInput{NetworkInterfaceID: id, Description: &ec2.StringValue{Value: description}})
}

func (c cloud) modify(what string, in *ec2.ModifyNetworkInterfaceAttributeInput) error {
	return c.p.call(request{action: "Modify" + what, target: in.NetworkInterfaceID, mutates: true},
		func(at ec2.Call) error {
			_, err := c.p.run.model.ModifyNetworkInterfaceAttribute(at, in)
			return err
		})
}

// PutTags implements [executor.Cloud].
func (c cloud) PutTags(_ context.Context, id string, tags map[string]string) error {
	return c.p.call(request{action: "CreateTags", target: id, mutates: true}, func(at ec2.Call) error {
		_, err := c.p.run.model.CreateTags(at, &ec2.TagsInput{ResourceIDs: []string{id}, Tags: tagList(c.p.written(tags))})
		return err
	})
}

// AssignIPv4 implements [executor.Cloud].
func (c cloud) AssignIPv4(_ context.Context, id string, addresses, prefixes int) (added eni.Addresses, err error) {
	q := request{action: "AssignPrivateIpAddresses", target: id, mutates: true,
		assigns: eni.AddressCounts{SecondaryIPv4: addresses, IPv4Prefixes: prefixes}}
	err = c.p.call(q, func(at ec2.Call) error {
		out, err := c.p.run.model.AssignPrivateIPAddresses(at, &ec2.AssignPrivateIPAddressesInput{
			NetworkInterfaceID: id, SecondaryPrivateIPAddressCount: unlessZero(addresses), IPv4PrefixCount: unlessZero(prefixes),
		})
		if err != nil {
			return err
		}
		for _, a := range out.AssignedPrivateIPAddresses {
			added.SecondaryIPv4 = append(added.SecondaryIPv4, a.PrivateIPAddress)
		}
		for _, prefix := range out.AssignedIPv4Prefixes {
			added.IPv4Prefixes = append(added.IPv4Prefixes, prefix.IPv4Prefix)
		}
		return nil
	})
	return added, err
}

// ReassignIPv4 implements [executor.Cloud].
func (c cloud) ReassignIPv4(_ context.Context, id string, addresses []netip.Addr) error {
	q := request{action: "AssignPrivateIpAddresses", target: id, reassigns: addresses, mutates: true}
	return c.p.call(q, func(at ec2.Call) error {
		_, err := c.p.run.model.AssignPrivateIPAddresses(at, &ec2.AssignPrivateIPAddressesInput{
			NetworkInterfaceID: id, PrivateIPAddresses: texts(addresses, netip.Addr.String), AllowReassignment: true,
		})
		return err
	})
}

// AssignIPv6 implements [executor.Cloud].
func (c cloud) AssignIPv6(_ context.Context, id string, addresses, prefixes int) (added eni.Addresses, err error) {
	q := request{action: "AssignIpv6Addresses", target: id, mutates: true,
		assigns: eni.AddressCounts{IPv6: addresses, IPv6Prefixes: prefixes}}
	err = c.p.call(q, func(at ec2.Call) error {
		out, err := c.p.run.model.AssignIPv6Addresses(at, &ec2.AssignIPv6AddressesInput{
			NetworkInterfaceID: id, IPv6AddressCount: unlessZero(addresses), IPv6PrefixCount: unlessZero(prefixes),
		})
		if err == nil {
			added.IPv6, added.IPv6Prefixes = out.AssignedIPv6Addresses, out.AssignedIPv6Prefixes
		}
		return err
	})
	return added, err
}

// UnassignIPv4 implements [executor.Cloud].
func (c cloud) UnassignIPv4(_ context.Context, id string, surplus eni.Addresses) error {
	return c.p.call(request{action: "UnassignPrivateIpAddresses", target: id, unassigns: surplus, mutates: true},
		func(at ec2.Call) error {
			_, err := c.p.run.model.UnassignPrivateIPAddresses(at, &ec2.UnassignPrivateIPAddressesInput{
				NetworkInterfaceID: id, PrivateIPAddresses: texts(surplus.SecondaryIPv4, netip.Addr.String),
				IPv4Prefixes: texts(surplus.IPv4Prefixes, netip.Prefix.String),
			})
			return err
		})
}

// UnassignIPv6 implements [executor.Cloud].
func (c cloud) UnassignIPv6(_ context.Context, id string, surplus eni.Addresses) error {
	return c.p.call(request{action: "UnassignIpv6Addresses", target: id, unassigns: surplus, mutates: true},
		func(at ec2.Call) error {
			_, err := c.p.run.model.UnassignIPv6Addresses(at, &ec2.UnassignIPv6AddressesInput{
				NetworkInterfaceID: id, IPv6Addresses: texts(surplus.IPv6, netip.Addr.String),
				IPv6Prefixes: texts(surplus.IPv6Prefixes, netip.Prefix.String),
			})
			return err
		})
}

// gone turns the error for an attachment that is already absent into success, as the product's own client does.
func gone(err error) error {
	if err != nil && eni.ErrorClass(err) == eni.NotFound {
		return nil
	}
	return err
}

// faultOf gives a refusal of the model the class that the product's own client gives it.
func faultOf(action string, err error) error {
	refused := (*ec2.Error)(nil)
	if err == nil || !errors.As(err, &refused) {
		return err
	}
	return &eni.APIError{
		Class: awsec2.Classify(refused.Code, refused.Message, refused.Status), Operation: action,
		Code: refused.Code, Message: refused.Message, Err: refused,
	}
}

func tagList(tags map[string]string) []ec2.Tag {
	list := make([]ec2.Tag, 0, len(tags))
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		value := tags[key]
		list = append(list, ec2.Tag{Key: key, Value: &value})
	}
	return list
}

func unlessZero(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

func texts[T any](all []T, text func(T) string) []string {
	list := make([]string, len(all))
	for n, one := range all {
		list[n] = text(one)
	}
	return list
}
