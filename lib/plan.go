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
	"github.com/multieni/multieni/internal/core/render"
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
	desired := render.Declared{Cluster: planned, Node: planned, InstanceID: instanceID}
	for i, o := range options {
		desired.Claims = append(desired.Claims, render.Claim{
			NodeENI: planned, Owner: identity.Owner(fmt.Sprintf("%06d", i)), Mode: render.Ensure, AllResolved: true,
			Interfaces: []plan.DesiredInterface{{Subnets: []string{o.SubnetID},
				Slot: eni.Slot{Card: o.NetworkCardIndex, Device: o.DeviceIndex}, Spec: eni.Spec{
					Groups: o.SecurityGroupIDs, SourceDestCheck: true, DeleteOnTermination: o.DeleteOnTermination,
					AddressCounts: eni.AddressCounts{SecondaryIPv4: o.SecondaryPrivateIPAddressCount, IPv4Prefixes: o.IPv4PrefixCount},
				}}},
		})
	}
	outcome := forecast.Simulate(desired, forecast.Input{Look: look, Limits: limits}, time.Now())
	placements := make([]Placement, len(options))
	for i, member := range outcome.Members {
		placements[i] = Placement{NetworkCardIndex: member.Slot.Card, DeviceIndex: member.Slot.Device}
		if member.Phase == plan.Blocked {
			placements[i].Blocked, placements[i].Message = string(member.Why.Reason), member.Why.Message
		}
	}
	return placements, nil
}

// planned is a placeholder for names that a plan does not need.
const planned = "plan"
