// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package volatile

import (
	"time"

	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// Attempts have the results of the calls for the objects of each instance. After a restart the controller makes the
// next call for each object at once.
type Attempts struct {
	byInstance map[string]map[identity.UID]plan.Attempts
}

// Of returns the attempts for the objects of an instance. Later attempts do not change the result.
func (a *Attempts) Of(instanceID string) map[identity.UID]plan.Attempts {
	return a.byInstance[instanceID]
}

// Record records the outcome of a call.
func (a *Attempts) Record(instanceID string, call plan.Call, err error, at time.Time) {
	if a.byInstance == nil {
		a.byInstance = map[string]map[identity.UID]plan.Attempts{}
	}
	a.byInstance[instanceID] = plan.Record(a.byInstance[instanceID], call, err, at)
}

// Forget drops the attempts for an instance.
func (a *Attempts) Forget(instanceID string) { delete(a.byInstance, instanceID) }

// InFlightCreates counts the create calls without an answer, for the limit on unattached interfaces of the cluster.
// After a restart no call of this process is in flight; the first listing shows the interfaces that calls of the
// earlier process created.
type InFlightCreates struct {
	count int
}

// Count returns how many creates are in flight.
func (c *InFlightCreates) Count() int { return c.count }

// Begin counts the creates among the calls, and returns their number and the number that were in flight before.
func (c *InFlightCreates) Begin(calls []plan.Call) (creates, before int) {
	for _, call := range calls {
		if _, is := call.(plan.Create); is {
			creates++
		}
	}
	before = c.count
	c.count += creates
	return creates, before
}

// End subtracts creates from the count.
func (c *InFlightCreates) End(creates int) { c.count -= creates }
