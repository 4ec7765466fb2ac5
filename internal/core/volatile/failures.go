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

// Backoffs are the failures of members since their last success, and the slots that EC2 reported as taken, by instance.
// After a restart each member makes its next call at once; the backoff then grows again from the first delay.
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

// Succeeded records that EC2 accepted an action. Of the backoff it keeps what [plan.Backoff.AfterSuccess] returns.
func (b *Backoffs) Succeeded(instanceID string, action plan.Action) {
	key := action.Of().Key
	left := b.byInstance[instanceID][key].AfterSuccess(action)
	if left.IsZero() {
		removeEntry(b.byInstance, instanceID, key)
		return
	}
	b.byInstance[instanceID][key] = left
}

// Forget drops the backoffs of an instance.
func (b *Backoffs) Forget(instanceID string) { delete(b.byInstance, instanceID) }

// Evictions are the last attempts to evict the pods of interfaces, by instance and interface ID. After a restart the
// controller makes the next attempt at once; the API server refuses what a PodDisruptionBudget forbids.
type Evictions struct {
	byInstance map[string]map[string]plan.EvictionAttempt
}

// Of returns a copy of the attempts for interfaces of an instance.
func (e *Evictions) Of(instanceID string) map[string]plan.EvictionAttempt {
	return maps.Clone(e.byInstance[instanceID])
}

// Record records an attempt, with the API server's refusal of a part of it; an empty refusal is none.
func (e *Evictions) Record(instanceID, interfaceID, refusal string, at time.Time) {
	attempts := entry(&e.byInstance, instanceID)
	attempts[interfaceID] = attempts[interfaceID].Next(refusal, at)
}

// Forget drops the attempts for interfaces of an instance.
func (e *Evictions) Forget(instanceID string) { delete(e.byInstance, instanceID) }

// RepeatedUpdates are the updates that EC2 accepted, by instance. They reveal an attribute that another program sets
// back. After a restart the controller repeats such an update up to three times before the delay grows again.
type RepeatedUpdates struct {
	byInstance map[string]plan.RepeatedUpdates
}

// Of returns the updates of an instance. Its result never changes.
func (r *RepeatedUpdates) Of(instanceID string) plan.RepeatedUpdates { return r.byInstance[instanceID] }

// Accepted records an action that EC2 accepted.
func (r *RepeatedUpdates) Accepted(instanceID string, action plan.Action, at time.Time) {
	if r.byInstance == nil {
		r.byInstance = map[string]plan.RepeatedUpdates{}
	}
	r.byInstance[instanceID] = r.byInstance[instanceID].Accepted(action, at)
}

// Forget drops the updates of an instance.
func (r *RepeatedUpdates) Forget(instanceID string) { delete(r.byInstance, instanceID) }

// fullSubnetTTL is how long after its next attempt a full subnet is kept. Each node that needs an address tries within
// [plan.SubnetFullBackoff].
const fullSubnetTTL = 3 * plan.SubnetFullBackoff

// FullSubnets are the subnets in which EC2 had no address or no prefix for a NodeENI, with the time of the next
// attempt. One node at a time makes that attempt, so that a fleet does not ask for addresses that do not exist. After a
// restart each node that needs an address in a full subnet makes one attempt.
type FullSubnets struct {
	next map[plan.SubnetDemand]plan.FullSubnet
}

// Known returns a copy of the subnets with the times of the next attempts. It first drops the attempts that are overdue
// by more than fullSubnetTTL: their NodeENI may be gone.
func (s *FullSubnets) Known(now time.Time) map[plan.SubnetDemand]plan.FullSubnet {
	maps.DeleteFunc(s.next, func(_ plan.SubnetDemand, known plan.FullSubnet) bool {
		return now.Sub(known.Until) > fullSubnetTTL
	})
	return maps.Clone(s.next)
}

// Allow reports whether all creates among the actions may be made now. If so, those in full subnets are the attempt,
// and the next one is a backoff later.
func (s *FullSubnets) Allow(actions []plan.Action, now time.Time) bool {
	for _, action := range actions {
		if create, ok := action.(plan.Create); ok && now.Before(s.next[demandOf(create)].Until) {
			return false
		}
	}
	for _, action := range actions {
		if create, ok := action.(plan.Create); ok {
			s.postpone(demandOf(create), now.Add(plan.SubnetFullBackoff))
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
	case plan.IsFull(eni.ErrorClass(err)):
		if s.next == nil {
			s.next = map[plan.SubnetDemand]plan.FullSubnet{}
		}
		s.next[demand] = plan.FullSubnet{Until: at.Add(plan.SubnetFullBackoff), Class: eni.ErrorClass(err)}
	default:
		// The failure does not say whether the subnet is full, and the same node may fail each time: another node may try.
		s.postpone(demand, at)
	}
}

// postpone sets the time of the next attempt in a subnet that is known to be full.
func (s *FullSubnets) postpone(demand plan.SubnetDemand, until time.Time) {
	if known, is := s.next[demand]; is {
		known.Until = until
		s.next[demand] = known
	}
}

func demandOf(c plan.Create) plan.SubnetDemand {
	return plan.DemandOf(c.Member.Owner, c.SubnetID, c.Spec)
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
