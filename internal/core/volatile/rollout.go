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

// RampAdmissions are the nodes that NodeENIs in a ramp-up already serve or have admitted. After a restart the
// NodeENIStates name the served nodes; a node that was admitted and has no NodeENIState yet waits for admission again.
type RampAdmissions struct {
	ramps map[string]ramp
}

type ramp struct {
	// generation is that of the NodeENI when its ramp-up began.
	generation int64
	admitted   map[string]bool
}

// Begun reports whether [RampAdmissions.Begin] was called for the ramp-up of a NodeENI.
func (a *RampAdmissions) Begun(nodeENIUID string) bool {
	_, begun := a.ramps[nodeENIUID]
	return begun
}

// Begin records which nodes a NodeENI served before its ramp-up, in addition to those already recorded.
func (a *RampAdmissions) Begin(nodeENIUID string, generation int64, served []string) {
	if a.ramps == nil {
		a.ramps = map[string]ramp{}
	}
	admitted := a.ramps[nodeENIUID].admitted
	if admitted == nil {
		admitted = make(map[string]bool, len(served))
	}
	for _, node := range served {
		admitted[node] = true
	}
	a.ramps[nodeENIUID] = ramp{generation, admitted}
}

// Admit admits a node unless that exceeds the limit, and reports whether the node is admitted.
func (a *RampAdmissions) Admit(nodeENIUID, node string, limit int) bool {
	of, begun := a.ramps[nodeENIUID]
	if !begun || !of.admitted[node] && len(of.admitted) >= limit {
		return false
	}
	of.admitted[node] = true
	return true
}

// End drops a ramp-up that has ended according to a generation of the NodeENI. A reconciliation that began before the
// ramp-up has an earlier generation and does not know of it.
func (a *RampAdmissions) End(nodeENIUID string, generation int64) {
	if of, begun := a.ramps[nodeENIUID]; begun && generation >= of.generation {
		delete(a.ramps, nodeENIUID)
	}
}
