// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lib

import (
	"context"
	"fmt"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/forecast"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// Placement is the planned slot of one interface on an instance, or why it has none.
type Placement struct {
	// NetworkCardIndex and DeviceIndex are the slot that it would use: the requested one, or the next free
	// one above, or below if none above is free.
	NetworkCardIndex, DeviceIndex int
	// Blocked says why it would not fit, for example InstanceFull; empty if it would fit. Message explains the reason.
	Blocked, Message string
}

// PlanENIs returns the slots that further interfaces would use on an instance, and what would block each, in the order
// of the options. It changes nothing.
func (m *ENIManager) PlanENIs(ctx context.Context, instanceID string, options []ENIOptions) ([]Placement, error) {
	look, err := m.ec2.DescribeInstance(ctx, instanceID)
	if err != nil {
		return nil, explained(err)
	}
	if look.Instance.State == eni.InstanceMissing {
		return nil, fmt.Errorf("instance %s: %w", instanceID, ErrNotFound)
	}
	limits, err := m.ec2.Limits(ctx, look.Instance.Type)
	if err != nil {
		return nil, explained(err)
	}
	var want []plan.Interface
	for i, o := range options {
		key := identity.Interface{Cluster: planned, UID: identity.UID(fmt.Sprintf("%s/%d", planned, i)), NodeENI: planned,
			Node: planned, Name: identity.ObjectName(planned, instanceID, i), InstanceID: instanceID, Ordinal: i}
		want = append(want, plan.Interface{Key: key, Goal: plan.Serve, Tags: key.Tags(time.Time{}, nil),
			Settings: eni.Settings{Subnets: []string{o.SubnetID},
				Slot: eni.Slot{Card: o.NetworkCardIndex, Device: o.DeviceIndex}, Spec: eni.Spec{
					Groups: o.SecurityGroupIDs, SourceDestCheck: true, DeleteOnTermination: o.DeleteOnTermination,
					AddressCounts: eni.AddressCounts{SecondaryIPv4: o.SecondaryPrivateIPAddressCount,
						IPv4Prefixes: o.IPv4PrefixCount},
				}}})
	}
	outcome := forecast.Place(want, look, limits, time.Now())
	placements := make([]Placement, len(options))
	for i, state := range outcome.Interfaces {
		placements[i] = Placement{NetworkCardIndex: state.Slot.Card, DeviceIndex: state.Slot.Device}
		if state.Phase == plan.Blocked {
			placements[i].Blocked, placements[i].Message = string(state.Problem.Reason), state.Problem.Message
		}
	}
	return placements, nil
}

// planned is a placeholder for names that a plan does not need.
const planned = "plan"
