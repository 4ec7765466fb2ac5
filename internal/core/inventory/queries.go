// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
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
	if e, known := v.entries[id]; known {
		return e.Clone(), true
	}
	if b, known := v.launched.get(id); known {
		return b.Clone(), true
	}
	return eni.Interface{}, false
}

// RecentlyCreated reports whether EC2's Describe calls may still omit the interface because it is new.
func (v *Inventory) RecentlyCreated(now time.Time, id string) bool {
	e, known := v.entries[id]
	return known && now.Before(e.ownedSince.Add(VisibilityWindow))
}

// Len returns the number of interfaces.
func (v *Inventory) Len() int { return len(v.entries) }

// InstancesOf returns the instances with interfaces under a node name, in order. A node name can return with another
// instance; an instance ID never returns.
func (v *Inventory) InstancesOf(node string) []string {
	return slices.Sorted(maps.Keys(v.byNode[node]))
}

// InTransition returns the IDs of the interfaces that EC2 is changing, or that a read omitted.
func (v *Inventory) InTransition() []string {
	var ids []string
	for id, e := range v.entries {
		if e.Missing || e.Interface.InTransition() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// UsedGenerations returns, for each member of the instance, the highest generation whose interface was deleted.
func (v *Inventory) UsedGenerations(instanceID string) identity.Generations {
	spent := identity.Generations{}
	for key, last := range v.spent[instanceID] {
		spent[key] = last.generation
	}
	return spent
}

// RemovedExternally returns the times at which interfaces of the instance's members disappeared without a call of ours.
func (v *Inventory) RemovedExternally(instanceID string) map[identity.Key]time.Time {
	lost := map[identity.Key]time.Time{}
	for key, last := range v.spent[instanceID] {
		if last.lost {
			lost[key] = last.at
		}
	}
	return lost
}

// Unattached returns the number of unattached interfaces of the NodeENIs that count.
func (v *Inventory) Unattached(counts func(owner identity.Owner) bool) int {
	n := 0
	for id := range v.unattached {
		if counts(v.entries[id].Member.Owner) {
			n++
		}
	}
	return n
}

// Attached returns the number of attached interfaces, without those that are retained as unverified.
func (v *Inventory) Attached(counts func(Record) bool) int {
	n := 0
	for id, e := range v.entries {
		if !v.unattached[id] && !v.evidence.denied[id] && counts(e.Record) {
			n++
		}
	}
	return n
}

// AttachedOf returns the attached interfaces of a NodeENI by ID, without those that are retained as unverified.
func (v *Inventory) AttachedOf(owner identity.Owner) (all []Record) {
	v.Attached(func(r Record) bool {
		if r.Member.Owner == owner {
			all = append(all, r)
		}
		return false
	})
	slices.SortFunc(all, func(a, b Record) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// HasAny reports whether the inventory has an interface that was created for an instance.
func (v *Inventory) HasAny(instanceID string) bool { return len(v.byInstance[instanceID]) > 0 }

// Owners returns the UIDs of the NodeENIs with interfaces, in order.
func (v *Inventory) Owners() []identity.Owner { return slices.Sorted(maps.Keys(v.byOwner)) }

// MembersOf returns the members of a NodeENI with interfaces.
func (v *Inventory) MembersOf(owner identity.Owner) []identity.Member {
	var members []identity.Member
	for _, id := range slices.Sorted(maps.Keys(v.entries)) {
		if m := v.entries[id].Member; m.Owner == owner {
			members = append(members, m)
		}
	}
	return members
}

// made returns the member that an interface was created for; the zero value for an unknown interface.
func (v *Inventory) made(id string) identity.Member {
	if e, known := v.entries[id]; known {
		return e.Member
	}
	return identity.Member{}
}

func (v *Inventory) records(entries map[string]*entry) []Record {
	records := make([]Record, 0, len(entries))
	for _, id := range slices.Sorted(maps.Keys(entries)) {
		r := entries[id].Record
		r.Interface, r.Verified = r.Clone(), v.evidence.verified(id)
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
