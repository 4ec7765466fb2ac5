// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"time"

	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// ec2State is the true state of EC2 at one moment, regardless of what readers see.
type ec2State struct {
	interfaces map[string]eni.Interface
	ordered    []eni.Interface
	// owned are the interfaces with a cluster's tag, by cluster, without the launch interfaces.
	owned map[string][]eni.Interface
	// launched are the launch interfaces, by instance.
	launched  map[string][]eni.Interface
	instances map[string]*ec2.Instance
	// machines are the instances in order.
	machines []*ec2.Instance
	free     map[string]int
	// reservations are the reserved parts of subnets.
	reservations []*ec2.SubnetCIDRReservation
	validTill    time.Time
	checked      bool
}

// truth returns the present state.
func (r *run) truth() *ec2State {
	if r.seen != nil && (r.seen.validTill.IsZero() || r.now.Before(r.seen.validTill)) {
		return r.seen
	}
	state := r.model.State(r.call())
	t := &ec2State{
		interfaces: make(map[string]eni.Interface, len(state.NetworkInterfaces)), owned: map[string][]eni.Interface{},
		launched:  map[string][]eni.Interface{},
		instances: make(map[string]*ec2.Instance, len(state.Instances)), free: make(map[string]int, len(state.Subnets)),
	}
	for _, n := range state.NetworkInterfaces {
		i := networkInterface(n)
		t.interfaces[i.ID] = i
		t.ordered = append(t.ordered, i)
		switch cluster := i.Tags[identity.TagCluster]; {
		case cluster == "":
		case !isLaunched(i):
			t.owned[cluster] = append(t.owned[cluster], i)
		case i.Attachment != nil:
			t.launched[i.Attachment.InstanceID] = append(t.launched[i.Attachment.InstanceID], i)
		}
	}
	t.machines, t.reservations = state.Instances, state.SubnetCIDRReservations
	for _, i := range state.Instances {
		t.instances[i.InstanceID] = i
	}
	for _, s := range state.Subnets {
		t.free[s.SubnetID] = s.AvailableIPAddressCount
	}
	if next, any := r.model.NextDue(); any {
		t.validTill = next
	}
	r.seen = t
	return t
}

// touched makes the next call of truth compute the state again.
func (r *run) touched() { r.seen = nil }

func (t *ec2State) attachedBy(attachmentID string) string {
	for _, i := range t.ordered {
		if i.Attachment != nil && i.Attachment.ID == attachmentID {
			return i.ID
		}
	}
	return ""
}

// holder returns the ID of the interface that holds a slot, or "".
func (t *ec2State) holder(instanceID string, slot eni.Slot) string {
	for _, i := range t.ordered {
		if i.AttachedTo(instanceID) && i.Attachment.Slot == slot {
			return i.ID
		}
	}
	return ""
}

// ended reports whether an instance is terminating, or does not exist any more.
func (t *ec2State) ended(instanceID string) bool {
	i := t.instances[instanceID]
	return i == nil || i.State.Name == ec2.ShuttingDown || i.State.Name == ec2.Terminated
}

// zoneOf is the zone that a call is about.
func (r *run) zoneOf(q request) string {
	if q.create != nil {
		for _, s := range subnets {
			if s.id == q.create.SubnetID {
				return s.zone
			}
		}
	}
	return r.truth().interfaces[q.target].Zone
}
