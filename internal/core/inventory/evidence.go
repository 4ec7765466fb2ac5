// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"maps"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/identity"
)

// evidence is the knowledge of this process about interfaces besides their tags. It survives the loss of ledgers, but
// not a restart.
type evidence struct {
	// ours has, by interface ID, the time at which evidence last confirmed that the interface belongs to the cluster.
	ours map[string]time.Time
	// denied are the interfaces with our tags and without evidence. The controller retains them.
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

// deniedOf counts the denied interfaces of a NodeENI, by its UID.
func (e evidence) deniedOf(v *Inventory, owner identity.Owner) int {
	n := 0
	for id := range e.denied {
		if known, ok := v.entries[id]; ok && known.Member.Owner == owner {
			n++
		}
	}
	return n
}

// forget drops the evidence of interfaces that have been absent for [retention].
func (e evidence) forget(now time.Time, known map[string]*entry) {
	maps.DeleteFunc(e.ours, func(id string, at time.Time) bool { return known[id] == nil && now.Sub(at) > retention })
	maps.DeleteFunc(e.denied, func(id string, _ bool) bool { return known[id] == nil })
}

// Judged merges the evidence about an instance's interfaces. The argument ours names those that belong to the cluster,
// and denied those that are retained because only their tags say so. It returns the newly retained ones.
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

// Denied returns the IDs of the interfaces that are retained although they have our tags, in order.
func (v *Inventory) Denied() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(v.evidence.denied)), func(id string) bool {
		return v.entries[id] == nil
	})
}

// Holds reports whether the inventory has an interface of a NodeENI.
func (v *Inventory) Holds(owner identity.Owner) bool { return v.CountOf(owner) > 0 }

// CountOf returns the number of interfaces of a NodeENI, without those that are retained as unverified.
func (v *Inventory) CountOf(owner identity.Owner) int {
	return v.byOwner[owner] - v.evidence.deniedOf(v, owner)
}
