// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package volatile

import (
	"maps"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// Backoffs are the failures of members since their last success, and the slots that EC2 reported as taken, by instance. After a restart each member makes its next
// call at once; the backoff then grows again from the first delay.
type Backoffs struct {
	byInstance map[string]map[identity.Key]plan.Backoff
}

// Of returns a copy of the backoffs of an instance.
func (b *Backoffs) Of(instanceID string) map[identity.Key]plan.Backoff {
	return maps.Clone(b.byInstance[instanceID])
}

// Failed records the failure of an action.
func (b *Backoffs) Failed(instanceID string, action plan.Action, err error, at time.Time) {
	key := action.Of().Key
	entry(&b.byInstance, instanceID)[key] = b.byInstance[instanceID][key].WithFailure(action, err, at)
}

// Succeeded records that EC2 accepted an action. Of the backoff it keeps the slots that EC2 reported as taken.
func (b *Backoffs) Succeeded(instanceID string, action plan.Action) {
	key := action.Of().Key
	left := b.byInstance[instanceID][key].AfterSuccess(action)
	if len(left.UnusableSlots) == 0 {
		removeEntry(b.byInstance, instanceID, key)
		return
	}
	b.byInstance[instanceID][key] = left
}

// Forget drops the backoffs of an instance.
func (b *Backoffs) Forget(instanceID string) { delete(b.byInstance, instanceID) }

// RepeatedUpdates are the updates that EC2 accepted, by instance. They reveal an attribute that another program sets back.
// After a restart the controller repeats such an update up to three times before the delay grows again.
type RepeatedUpdates struct {
	byInstance map[string]plan.RepeatedUpdates
}

// Of returns a copy of the updates of an instance.
func (r *RepeatedUpdates) Of(instanceID string) plan.RepeatedUpdates {
	all := plan.RepeatedUpdates{}
	for id, fields := range r.byInstance[instanceID] {
		all[id] = maps.Clone(fields)
	}
	return all
}

// Accepted records an action that EC2 accepted.
func (r *RepeatedUpdates) Accepted(instanceID string, action plan.Action, at time.Time) {
	if r.byInstance == nil {
		r.byInstance = map[string]plan.RepeatedUpdates{}
	}
	if r.byInstance[instanceID] == nil {
		r.byInstance[instanceID] = plan.RepeatedUpdates{}
	}
	r.byInstance[instanceID].Accepted(action, at)
}

// Forget drops the updates of an instance.
func (r *RepeatedUpdates) Forget(instanceID string) { delete(r.byInstance, instanceID) }

// fullSubnetTTL is how long after its next attempt a full subnet is kept. Each node that needs an address tries within
// [plan.SubnetFullBackoff].
const fullSubnetTTL = 3 * plan.SubnetFullBackoff

// FullSubnets are the subnets in which EC2 had no address for a NodeENI, with the time of the next attempt. One node at a
// time makes that attempt, so that a fleet does not ask for addresses that do not exist. After a restart each node that
// needs an address in a full subnet makes one attempt.
type FullSubnets struct {
	next map[plan.SubnetDemand]time.Time
}

// Until returns a copy of the times of the next attempts. It first drops the attempts that are overdue by more than
// fullSubnetTTL: their NodeENI may be gone.
func (s *FullSubnets) Until(now time.Time) map[plan.SubnetDemand]time.Time {
	maps.DeleteFunc(s.next, func(_ plan.SubnetDemand, next time.Time) bool { return now.Sub(next) > fullSubnetTTL })
	return maps.Clone(s.next)
}

// Allow reports whether all creates among the actions may be made now. If so, those in full subnets are the attempt, and
// the next one is a backoff later.
func (s *FullSubnets) Allow(actions []plan.Action, now time.Time) bool {
	for _, action := range actions {
		if create, ok := action.(plan.Create); ok && now.Before(s.next[demandOf(create)]) {
			return false
		}
	}
	for _, action := range actions {
		if create, ok := action.(plan.Create); ok && !s.next[demandOf(create)].IsZero() {
			s.next[demandOf(create)] = now.Add(plan.SubnetFullBackoff)
		}
	}
	return true
}

// Record records the outcome of an action. Outcomes of other actions than creates change nothing.
func (s *FullSubnets) Record(action plan.Action, err error, at time.Time) {
	create, ok := action.(plan.Create)
	if !ok {
		return
	}
	demand := demandOf(create)
	switch {
	case err == nil:
		delete(s.next, demand)
	case eni.ErrorClass(err) == eni.NoAddresses:
		if s.next == nil {
			s.next = map[plan.SubnetDemand]time.Time{}
		}
		s.next[demand] = at.Add(plan.SubnetFullBackoff)
	case !s.next[demand].IsZero():
		// The failure does not say whether the subnet is full, and the same node may fail each time: another node may try.
		s.next[demand] = at
	}
}

func demandOf(c plan.Create) plan.SubnetDemand {
	return plan.SubnetDemand{NodeENIUID: c.Member.NodeENIUID, SubnetID: c.SubnetID}
}

// entry returns the inner map of a key, which it makes if there is none.
func entry[K, L comparable, V any](all *map[K]map[L]V, key K) map[L]V {
	if *all == nil {
		*all = map[K]map[L]V{}
	}
	if (*all)[key] == nil {
		(*all)[key] = map[L]V{}
	}
	return (*all)[key]
}

// removeEntry deletes from the inner map of a key, and the inner map with its last value.
func removeEntry[K, L comparable, V any](all map[K]map[L]V, key K, inner L) {
	delete(all[key], inner)
	if len(all[key]) == 0 {
		delete(all, key)
	}
}
