// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"iter"
	"maps"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
)

// requested are the addresses and prefixes of one interface that EC2's answers to our calls named.
type requested struct {
	eni.Addresses
	// at is the time of the last answer.
	at time.Time
}

// Requested returns, by interface ID, the addresses and prefixes of an instance's interfaces that EC2's answers to
// calls of this process named. Earlier processes may have recorded some of the interfaces that it leaves out.
func (v *Inventory) Requested(instanceID string) map[string]eni.Addresses {
	all := map[string]eni.Addresses{}
	for _, ids := range []iter.Seq[string]{maps.Keys(v.byInstance[instanceID]),
		maps.Keys(v.launched.byInstance[instanceID])} {
		for id := range ids {
			if r, known := v.requested[id]; known {
				all[id] = r.Addresses
			}
		}
	}
	return all
}

// RecordRequested records EC2's answer to a call of ours for addresses. The argument before has the requested addresses
// before the call; they count if this process knows of no earlier answer.
func (v *Inventory) RecordRequested(now time.Time, id string, before, added, removed eni.Addresses) {
	if r, known := v.requested[id]; known {
		before = r.Addresses
	}
	v.requested[id] = requested{before.Without(removed).With(added), now}
}

// forgetUnassigned drops the requested addresses that a read omits: another program unassigned them, and may assign
// them again as its own. A stale read can omit the addresses of an answer for [StaleReadWindow].
func (v *Inventory) forgetUnassigned(begun time.Time, seen eni.Interface) {
	if r, known := v.requested[seen.ID]; known && begun.Sub(r.at) >= StaleReadWindow {
		v.requested[seen.ID] = requested{r.Common(seen.Addresses), r.at}
	}
}

// forgetRequested drops the requested addresses of interfaces that the inventory does not have.
func (v *Inventory) forgetRequested() {
	maps.DeleteFunc(v.requested, func(id string, _ requested) bool {
		_, known := v.Interface(id)
		return !known
	})
}
