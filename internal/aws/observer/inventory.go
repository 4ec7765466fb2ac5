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

// InstanceInventory is the inventory of one instance; it costs no call to EC2.
type InstanceInventory struct {
	// Interfaces are those whose tags name the instance.
	Interfaces []inventory.Record
	// Launched are the interfaces that the instance was launched with, from a launch template of ours.
	Launched []inventory.Record
	// MissingSince is the time of EC2's first answer that it does not know the instance; zero if it knows it.
	MissingSince time.Time
}

// Of returns the inventory of an instance.
func (o *Observer) Of(instanceID string) InstanceInventory {
	o.mu.Lock()
	defer o.mu.Unlock()
	return InstanceInventory{Interfaces: o.inventory.Of(instanceID), Launched: o.inventory.Launched(instanceID),
		MissingSince: o.missing[instanceID].since}
}

// All returns what is known of all owned interfaces, by ID.
func (o *Observer) All() []inventory.Record {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inventory.All()
}

// Since returns when the first list began; zero before it.
func (o *Observer) Since() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.since
}

// HasAny reports whether the inventory has an interface that was created for an instance, under any node name.
func (o *Observer) HasAny(instanceID string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inventory.HasAny(instanceID)
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

// RecordCreated implements the recorder of the executor.
func (o *Observer) RecordCreated(
	now time.Time, key identity.Interface, made eni.Interface, requested eni.Addresses,
) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inventory.RecordCreated(now, key, made, requested)
	delete(o.looks, key.InstanceID)
	o.pollBackoff.Restart(made.ID)
	o.wakePoll()
}

// RecordChange implements the recorder of the executor.
func (o *Observer) RecordChange(
	now time.Time, id string, change func(eni.Interface) eni.Interface, effect inventory.Effect,
) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inventory.RecordChange(now, id, change, effect)
	if record, known := o.inventory.Record(id); known {
		delete(o.looks, record.Tagged.InstanceID)
	}
	o.pollBackoff.Restart(id)
	o.wakePoll()
}

// RecordRequested implements the recorder of the executor.
func (o *Observer) RecordRequested(now time.Time, id string, added, removed eni.Addresses) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inventory.RecordRequested(now, id, added, removed)
}

// Deleted implements the recorder of the executor.
func (o *Observer) Deleted(now time.Time, id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inventory.Deleted(now, id)
}

// Unattached returns the number of unattached interfaces that count.
func (o *Observer) Unattached(counts func(inventory.Record) bool) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inventory.Unattached(counts)
}

// Count returns how many interfaces the cluster owns.
func (o *Observer) Count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inventory.Len()
}

// LaunchedFrom returns the interfaces of all instances that were launched from a node template, by instance. They
// include the interfaces of NodeENIs that were attached later.
func (o *Observer) LaunchedFrom(nodeTemplateUID string) map[string][]eni.Interface {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := map[string][]eni.Interface{}
	for instanceID, launched := range o.inventory.LaunchedFrom(nodeTemplateUID) {
		for _, record := range launched {
			all[instanceID] = append(all[instanceID], record.Interface)
		}
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

// Find returns what is known of an interface, an owned one or a launch interface.
func (o *Observer) Find(id string) (inventory.Record, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inventory.Find(id)
}

// WithAddress returns the IDs of the known interfaces in a subnet that have a secondary IPv4 address, in order.
func (o *Observer) WithAddress(subnetID string, address netip.Addr) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inventory.WithAddress(subnetID, address)
}
