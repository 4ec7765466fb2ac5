// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// Of returns the records of the interfaces that were created for an instance, ordered by ID.
func (v *Inventory) Of(instanceID string) []Record {
	return v.records(v.byInstance[instanceID])
}

// Interface returns the last known state of an owned interface or a launch interface.
func (v *Inventory) Interface(id string) (eni.Interface, bool) {
	known, is := v.Find(id)
	return known.Interface, is
}

// Find returns the record of an interface, an owned one or a launch interface.
func (v *Inventory) Find(id string) (Record, bool) {
	if owned, is := v.Record(id); is {
		return owned, true
	}
	launched, is := v.launched.get(id)
	if !is {
		return Record{}, false
	}
	r := launched.Record
	r.Interface = r.Clone()
	return r, true
}

// RecentlyCreated reports whether EC2's Describe calls may still omit the interface because it is new.
func (v *Inventory) RecentlyCreated(now time.Time, id string) bool {
	e, known := v.entries[id]
	return known && now.Before(e.ownedSince.Add(VisibilityWindow))
}

// Len returns the number of interfaces whose tags name an object.
func (v *Inventory) Len() int {
	n := 0
	for _, e := range v.entries {
		if !v.isMalformed(e) {
			n++
		}
	}
	return n
}

// InTransition returns the IDs of the interfaces that EC2 is changing, or that a read omitted.
func (v *Inventory) InTransition() []string { return slices.Sorted(maps.Keys(v.moving)) }

// Unattached returns the number of unattached interfaces whose tags name an object and that count.
func (v *Inventory) Unattached(counts func(Record) bool) int {
	n := 0
	for id := range v.unattached {
		if e := v.entries[id]; !v.isMalformed(e) && counts(e.Record) {
			n++
		}
	}
	return n
}

// All returns the records of all interfaces whose tags name an object, ordered by ID.
func (v *Inventory) All() []Record {
	owned := maps.Clone(v.entries)
	maps.DeleteFunc(owned, func(_ string, e *entry) bool { return v.isMalformed(e) })
	return v.records(owned)
}

// Instances returns the instances that interfaces were created for, in order.
func (v *Inventory) Instances() []string { return slices.Sorted(maps.Keys(v.byInstance)) }

// HasAny reports whether the inventory has an interface that was created for an instance.
func (v *Inventory) HasAny(instanceID string) bool { return len(v.byInstance[instanceID]) > 0 }

// made returns the identity that the tags of an interface named; the zero value for an unknown interface.
func (v *Inventory) made(id string) identity.Interface {
	if e, known := v.entries[id]; known {
		return e.Tagged
	}
	return identity.Interface{}
}

func (v *Inventory) records(entries map[string]*entry) []Record {
	records := make([]Record, 0, len(entries))
	for _, id := range slices.Sorted(maps.Keys(entries)) {
		r := entries[id].Record
		r.Interface = r.Clone()
		records = append(records, r)
	}
	return records
}

// Record returns the record of an owned interface.
func (v *Inventory) Record(id string) (Record, bool) {
	e, known := v.entries[id]
	if !known {
		return Record{}, false
	}
	r := e.Record
	r.Interface = e.Clone()
	return r, true
}

// WithAddress returns the IDs of the interfaces in a subnet that have a secondary IPv4 address, in order.
func (v *Inventory) WithAddress(subnetID string, address netip.Addr) []string {
	var ids []string
	has := func(i eni.Interface) bool { return i.SubnetID == subnetID && slices.Contains(i.SecondaryIPv4, address) }
	for id, e := range v.entries {
		if has(e.Interface) {
			ids = append(ids, id)
		}
	}
	for _, interfaces := range v.launched.byInstance {
		for id, one := range interfaces {
			if _, owned := v.entries[id]; !owned && has(one.Interface) {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return ids
}
