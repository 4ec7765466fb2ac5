// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"net/netip"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
)

// NodeInventory is the inventory of one instance; it costs no call to EC2.
type NodeInventory struct {
	Owned             []inventory.Record
	UsedGenerations   identity.Generations
	RemovedExternally map[identity.Key]time.Time
	MissingSince      time.Time
	// Since is when the Observer began to observe.
	Since time.Time
	// Launched are the interfaces that the instance was launched with, from a launch template of ours.
	Launched []eni.Interface
	// Requested has, by interface ID, the addresses from EC2's answers to calls of this process.
	Requested map[string]eni.Addresses
}

// Of returns the inventory of an instance.
func (o *Observer) Of(instanceID string) NodeInventory {
	o.mu.Lock()
	defer o.mu.Unlock()
	return NodeInventory{
		Owned: o.inventory.Of(instanceID), UsedGenerations: o.inventory.UsedGenerations(instanceID),
		RemovedExternally: o.inventory.RemovedExternally(instanceID),
		MissingSince:      o.missing[instanceID].since, Since: o.since, Launched: o.inventory.Launched(instanceID),
		Requested: o.inventory.Requested(instanceID),
	}
}

// HasAny reports whether the inventory has an interface that was created for an instance, under any node name.
func (o *Observer) HasAny(instanceID string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inventory.HasAny(instanceID)
}

// InstancesOf returns the instances with interfaces created under a node's name, in order.
func (o *Observer) InstancesOf(node string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inventory.InstancesOf(node)
}

// Judged records which of an instance's interfaces have evidence besides their tags (ours), and which do not (denied).
// It returns the newly denied ones.
func (o *Observer) Judged(now time.Time, instanceID string, ours, denied []string) (newlyDenied []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inventory.Judged(now, instanceID, ours, denied)
}

// Denied returns the IDs of the interfaces that multieni leaves alone, because only the cluster's tags are evidence for
// them.
func (o *Observer) Denied() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inventory.Denied()
}

// Holds reports whether any interface of a NodeENI is known to exist, or may exist after a recent create call.
func (o *Observer) Holds(owner identity.Owner) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inventory.Holds(owner) || o.inventory.MayHavePendingCreate(o.Now(), owner)
}

// Interface returns the last known state of an interface.
func (o *Observer) Interface(id string) (eni.Interface, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inventory.Interface(id)
}

// RecentlyCreated implements the recorder of the executor.
func (o *Observer) RecentlyCreated(now time.Time, id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inventory.RecentlyCreated(now, id)
}

// RecordCall implements the recorder of the executor.
func (o *Observer) RecordCall(now time.Time, after eni.Interface, effect inventory.Effect) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inventory.RecordCall(now, after, effect)
	o.pollBackoff.Restart(after.ID)
	o.wakePoll()
}

// RecordChange implements the recorder of the executor.
func (o *Observer) RecordChange(
	now time.Time, id string, change func(eni.Interface) eni.Interface, effect inventory.Effect,
) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inventory.RecordChange(now, id, change, effect)
	o.pollBackoff.Restart(id)
	o.wakePoll()
}

// RecordRequested implements the recorder of the executor.
func (o *Observer) RecordRequested(now time.Time, id string, before, added, removed eni.Addresses) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inventory.RecordRequested(now, id, before, added, removed)
}

// RecordUnansweredCreate implements the recorder of the executor.
func (o *Observer) RecordUnansweredCreate(now time.Time, owner identity.Owner) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inventory.RecordUnansweredCreate(now, owner)
}

// RecordUnansweredDetach implements the recorder of the executor.
func (o *Observer) RecordUnansweredDetach(now time.Time, id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inventory.RecordUnansweredDetach(now, id)
}

// Deleted implements the recorder of the executor.
func (o *Observer) Deleted(now time.Time, id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inventory.Deleted(now, id)
}

// Unattached returns the number of unattached interfaces whose owner counts.
func (o *Observer) Unattached(counts func(owner identity.Owner) bool) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inventory.Unattached(counts)
}

// Owners returns the UIDs of the NodeENIs with known interfaces.
func (o *Observer) Owners() []identity.Owner {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inventory.Owners()
}

// CountOf returns the number of known interfaces whose owner counts.
func (o *Observer) CountOf(counts func(owner identity.Owner) bool) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, uid := range o.inventory.Owners() {
		if counts(uid) {
			n += o.inventory.CountOf(uid)
		}
	}
	return n
}

// Attached returns the number of known attached interfaces that count.
func (o *Observer) Attached(counts func(inventory.Record) bool) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inventory.Attached(counts)
}

// AttachedOf returns the attached interfaces of a NodeENI, by ID.
func (o *Observer) AttachedOf(owner identity.Owner) []inventory.Record {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inventory.AttachedOf(owner)
}

// Count returns how many interfaces the cluster owns.
func (o *Observer) Count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inventory.Len()
}

// LaunchedFrom returns the interfaces of all instances that were launched from a node template, by instance. They
// include the members of NodeENIs that were attached later.
func (o *Observer) LaunchedFrom(nodeTemplateUID string) map[string][]eni.Interface {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.inventory.LaunchedFrom(nodeTemplateUID)
	for instanceID := range all {
		for _, record := range o.inventory.Of(instanceID) {
			if record.AttachedTo(instanceID) {
				all[instanceID] = append(all[instanceID], record.Interface)
			}
		}
	}
	return all
}

// Record returns what is known of an owned interface.
func (o *Observer) Record(id string) (inventory.Record, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inventory.Record(id)
}

// WithAddress returns the IDs of the known interfaces in a subnet that have a secondary IPv4 address, in order.
func (o *Observer) WithAddress(subnetID string, address netip.Addr) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inventory.WithAddress(subnetID, address)
}
