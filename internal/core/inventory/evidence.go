// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"maps"
	"slices"
	"time"
)

// evidence says of which interfaces more than their tags is known. It outlives the loss of ledgers, not the process.
type evidence struct {
	// ours is when each interface was last known to be ours.
	ours map[string]time.Time
	// denied are the interfaces with our tags that are left alone.
	denied map[string]bool
}

func newEvidence() evidence {
	return evidence{ours: map[string]time.Time{}, denied: map[string]bool{}}
}

func (e evidence) verified(id string) bool { return !e.ours[id].IsZero() }

func (e evidence) verify(now time.Time, id string) {
	e.ours[id] = now
	delete(e.denied, id)
}

// deniedOf counts the denied interfaces of a NodeENI.
func (e evidence) deniedOf(v *Inventory, nodeENIUID string) int {
	n := 0
	for id := range e.denied {
		if known, ok := v.entries[id]; ok && known.Member.NodeENIUID == nodeENIUID {
			n++
		}
	}
	return n
}

// forget drops what is known of interfaces that have been gone for long.
func (e evidence) forget(now time.Time, known map[string]*entry) {
	maps.DeleteFunc(e.ours, func(id string, at time.Time) bool { return known[id] == nil && now.Sub(at) > retention })
	maps.DeleteFunc(e.denied, func(id string, _ bool) bool { return known[id] == nil })
}

// Judged takes in what is known of an instance's interfaces beside their tags: those that are ours, and those that are left
// alone because nothing but their tags says so. It returns the ones of these that were not left alone before.
func (v *Inventory) Judged(now time.Time, instanceID string, ours, denied []string) (newlyDenied []string) {
	for _, id := range ours {
		v.evidence.verify(now, id)
	}
	for _, id := range denied {
		if !v.evidence.denied[id] {
			newlyDenied = append(newlyDenied, id)
		}
	}
	for id := range v.byInstance[instanceID] {
		delete(v.evidence.denied, id)
	}
	for _, id := range denied {
		v.evidence.denied[id] = true
	}
	return newlyDenied
}

// Denied returns the IDs of the interfaces that are left alone although their tags are ours, in order.
func (v *Inventory) Denied() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(v.evidence.denied)), func(id string) bool { return v.entries[id] == nil })
}

// Holds reports whether any interface of a NodeENI is known.
func (v *Inventory) Holds(nodeENIUID string) bool { return v.CountOf(nodeENIUID) > 0 }

// CountOf returns how many interfaces of a NodeENI are known. Those that are left alone as unverified do not count.
func (v *Inventory) CountOf(nodeENIUID string) int {
	return v.byNodeENI[nodeENIUID] - v.evidence.deniedOf(v, nodeENIUID)
}
