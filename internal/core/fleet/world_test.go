// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/fleet"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
)

const instance = "i-00000000000000001"

var (
	now     = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	granted = fleet.Permission{Granted: true}
)

// attached is a desired interface of a NodeENI with updatePolicy: Replace, in use at a device index.
func attached(owner identity.Owner, device int) plan.Interface {
	member := identity.Member{NodeENI: string(owner), InstanceID: instance, Key: identity.Key{Owner: owner}}
	slot := eni.Slot{Device: device}
	of := eni.Interface{
		ID: "eni-" + string(owner), SubnetID: "s1", Status: eni.InUse, Tags: map[string]string{identity.TagNodeENIUID: string(owner)},
		Attachment: &eni.Attachment{ID: "attach", InstanceID: instance, Slot: slot, Status: eni.AttachmentAttached},
	}
	return plan.Interface{
		Member: plan.Member{Member: member, Desired: true, Interface: &of, RequestedSlot: slot, Slot: slot},
		Goal:   plan.Ensure, Settings: &plan.DesiredInterface{Subnets: []string{"s1"}, Slot: slot}, Target: slot,
		Record:         &inventory.Record{Member: member, Interface: of, Confirmed: true},
		ReplaceAllowed: true, AllResolved: true,
	}
}

// drifted is an interface in use in a subnet that the NodeENI does not list any more.
func drifted(owner identity.Owner, device int) plan.Interface {
	i := attached(owner, device)
	i.Settings.Subnets, i.Drift = []string{"s2"}, []plan.Drift{{Field: "subnet", Want: "s2", Have: "s1"}}
	return i
}

// lacking is a desired interface that does not exist.
func lacking(owner identity.Owner) plan.Interface {
	i := attached(owner, 1)
	i.Record, i.Interface = nil, nil
	return i
}

// with returns an interface after a change.
func with(i plan.Interface, change func(*plan.Interface)) plan.Interface {
	change(&i)
	return i
}

func desired(interfaces ...plan.Interface) plan.Desired {
	return plan.Desired{InstanceID: instance, Interfaces: interfaces}
}

// running is a running instance of a type with four slots.
func running(interfaces ...eni.Interface) plan.Observed {
	return plan.Observed{
		Limits:   eni.Limits{Cards: []int{4}, Interfaces: 4},
		Snapshot: &eni.InstanceSnapshot{At: now, Instance: eni.Instance{ID: instance, State: eni.InstanceRunning}, Interfaces: interfaces},
	}
}

// foreign is an interface of another program at a device index.
func foreign(device int) eni.Interface {
	return eni.Interface{ID: "eni-foreign", Attachment: &eni.Attachment{
		InstanceID: instance, Slot: eni.Slot{Device: device}, Status: eni.AttachmentAttached,
	}}
}
