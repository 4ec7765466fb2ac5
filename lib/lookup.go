// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lib

import (
	"context"
	"fmt"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
)

// NetworkInterfaceInfo describes an interface, as EC2 returns it.
type NetworkInterfaceInfo struct {
	ID, SubnetID, VPCID, AvailabilityZone string
	Description, MACAddress, PrivateIP    string
	// Status is available, in-use, attaching or detaching.
	Status           string
	SecurityGroupIDs []string
	Tags             map[string]string
	// Attachment is nil while the interface is not attached.
	Attachment *AttachmentInfo
}

// AttachmentInfo describes the attachment of an interface.
type AttachmentInfo struct {
	ID, InstanceID                string
	NetworkCardIndex, DeviceIndex int
	// Status is attaching, attached or detaching.
	Status              string
	DeleteOnTermination bool
}

// SubnetInfo describes a subnet, as EC2 returns it.
type SubnetInfo struct {
	ID, Name, VPCID, AvailabilityZone, CIDRBlock string
	AvailableIPs                                 int
	Tags                                         map[string]string
}

// SecurityGroupInfo describes a security group, as EC2 returns it.
type SecurityGroupInfo struct {
	ID, Name, VPCID string
	Tags            map[string]string
}

// GetENI returns an interface; [ErrNotFound] is in the error's chain if EC2 does not return it.
func (m *ENIManager) GetENI(ctx context.Context, eniID string) (NetworkInterfaceInfo, error) {
	found, err := m.ec2.Interfaces(ctx, []string{eniID})
	if err != nil {
		return NetworkInterfaceInfo{}, explained(err)
	}
	if len(found) == 0 {
		return NetworkInterfaceInfo{}, fmt.Errorf("interface %s: %w", eniID, ErrNotFound)
	}
	return interfaceInfo(found[0]), nil
}

// GetENIsByInstance returns the interfaces attached to an instance, the primary one included, sorted by ID.
func (m *ENIManager) GetENIsByInstance(ctx context.Context, instanceID string) ([]NetworkInterfaceInfo, error) {
	all, err := m.ec2.AttachedTo(ctx, instanceID)
	return convert(all, interfaceInfo), explained(err)
}

// GetSubnetsByVPC returns the subnets of a VPC.
func (m *ENIManager) GetSubnetsByVPC(ctx context.Context, vpcID string) ([]SubnetInfo, error) {
	all, err := m.ec2.SubnetsOf(ctx, vpcID)
	return convert(all, subnetInfo), explained(err)
}

// GetSecurityGroupsByVPC returns the security groups of a VPC.
func (m *ENIManager) GetSecurityGroupsByVPC(ctx context.Context, vpcID string) ([]SecurityGroupInfo, error) {
	all, err := m.ec2.SecurityGroupsOf(ctx, vpcID)
	return convert(all, func(g eni.SecurityGroup) SecurityGroupInfo {
		return SecurityGroupInfo{ID: g.ID, Name: g.Name, VPCID: g.VPCID, Tags: g.Tags}
	}), explained(err)
}

// State is a state that [ENIManager.WaitForENI] waits for.
type State string

// The states that [ENIManager.WaitForENI] waits for.
const (
	Attached  State = "attached"
	Available State = "available"
	Deleted   State = "deleted"
)

// waitPoll is the time between two reads of [ENIManager.WaitForENI].
const waitPoll = time.Second

// WaitForENI returns when the interface is in the state, or the context ends. EC2 may not return a new interface for a
// moment, so a missing interface means only the state Deleted.
func (m *ENIManager) WaitForENI(ctx context.Context, eniID string, state State) error {
	ticker := time.NewTicker(waitPoll)
	defer ticker.Stop()
	for {
		found, err := m.ec2.Interfaces(ctx, []string{eniID})
		if err != nil {
			return fmt.Errorf("wait until %s is %s: %w", eniID, state, explained(err))
		}
		if state.of(found) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s is %s: %w", eniID, state, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// of reports whether the answer of EC2 means the state.
func (s State) of(found []eni.Interface) bool {
	if len(found) == 0 {
		return s == Deleted
	}
	switch s {
	case Attached:
		return found[0].Ready()
	case Available:
		return found[0].Attachment == nil && found[0].Status == eni.Available
	default:
		return false
	}
}

func convert[From, To any](all []From, one func(From) To) []To {
	converted := make([]To, len(all))
	for i, from := range all {
		converted[i] = one(from)
	}
	return converted
}

func interfaceInfo(i eni.Interface) NetworkInterfaceInfo {
	info := NetworkInterfaceInfo{
		ID: i.ID, SubnetID: i.SubnetID, VPCID: i.VPCID, AvailabilityZone: i.Zone, Description: i.Description,
		MACAddress: i.MAC,
		Status:     string(i.Status), SecurityGroupIDs: i.Groups, Tags: i.Tags,
	}
	if i.PrimaryIPv4.IsValid() {
		info.PrivateIP = i.PrimaryIPv4.String()
	}
	if a := i.Attachment; a != nil {
		info.Attachment = &AttachmentInfo{
			ID: a.ID, InstanceID: a.InstanceID, NetworkCardIndex: a.Slot.Card, DeviceIndex: a.Slot.Device,
			Status: string(a.Status), DeleteOnTermination: a.DeleteOnTermination,
		}
	}
	return info
}

func subnetInfo(s eni.Subnet) SubnetInfo {
	info := SubnetInfo{ID: s.ID, Name: s.Name, VPCID: s.VPCID, AvailabilityZone: s.Zone,
		AvailableIPs: s.FreeIPv4, Tags: s.Tags}
	if s.CIDR.IsValid() {
		info.CIDRBlock = s.CIDR.String()
	}
	return info
}
