// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package volatile

import (
	"maps"
	"slices"

	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// InFlightCreates counts the create calls without an answer, for the limit on unattached interfaces of the cluster.
// After a restart no call of this process is in flight; the first listing shows the interfaces that calls of the
// earlier process created.
type InFlightCreates struct {
	count int
}

// Count returns how many creates are in flight.
func (c *InFlightCreates) Count() int { return c.count }

// Begin counts the creates among the actions, and returns their number and the number that were in flight before.
func (c *InFlightCreates) Begin(actions []plan.Action) (creates, before int) {
	for _, action := range actions {
		if _, is := action.(plan.Create); is {
			creates++
		}
	}
	before = c.count
	c.count += creates
	return creates, before
}

// End subtracts creates from the count.
func (c *InFlightCreates) End(creates int) { c.count -= creates }

// Replacements are the instances that replace interfaces, by NodeENI. An instance keeps its permission when its Node
// registers under another name, and an instance that takes over the name has none. After a restart an instance that
// lacks an interface counts for maxUnavailable by its NodeENIState; one that was allowed to replace and had not begun
// asks again.
type Replacements struct {
	instances map[string]map[string]bool
}

// Acquire reports whether an instance may replace interfaces of a NodeENI: the replacing and the unavailable instances
// together must not exceed the limit. The instance keeps the permission until [Replacements.Release], so that a bad
// change stops at the first nodes. Only a lower limit ends the permission earlier, of an instance that has not begun.
func (r *Replacements) Acquire(nodeENIUID, instanceID string, limit int, unavailable []string) bool {
	busy := maps.Clone(r.instances[nodeENIUID])
	if busy[instanceID] && len(busy) > limit {
		removeEntry(r.instances, nodeENIUID, instanceID)
		return false
	}
	if busy[instanceID] {
		return true
	}
	if busy == nil {
		busy = map[string]bool{}
	}
	for _, other := range unavailable {
		if other != instanceID {
			busy[other] = true
		}
	}
	if len(busy) >= limit {
		return false
	}
	entry(&r.instances, nodeENIUID)[instanceID] = true
	return true
}

// Of returns the instances that replace interfaces of a NodeENI.
func (r *Replacements) Of(nodeENIUID string) []string {
	return slices.Collect(maps.Keys(r.instances[nodeENIUID]))
}

// Release ends the permissions of an instance, except those for the given NodeENIs.
func (r *Replacements) Release(instanceID string, except ...identity.Owner) {
	for uid := range r.instances {
		if !slices.Contains(except, identity.Owner(uid)) {
			removeEntry(r.instances, uid, instanceID)
		}
	}
}
