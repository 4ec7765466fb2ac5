// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package volatile

import (
	"maps"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/fleet"
	"github.com/multieni/multieni/internal/core/plan"
)

// Attempts have the results of the calls for each instance. The next attempt to evict a pod after a restart is made at
// once; the API server enforces PodDisruptionBudgets.
type Attempts struct {
	byInstance map[string]InstanceAttempts
}

// InstanceAttempts are the attempts for one instance.
type InstanceAttempts struct {
	plan.Attempts
	// Evictions are the last attempts to evict the pods of interfaces, by interface ID.
	Evictions map[string]fleet.Attempt
}

// Of returns the attempts for an instance. Later attempts do not change the result.
func (a *Attempts) Of(instanceID string) InstanceAttempts { return a.byInstance[instanceID] }

// Record records the outcome of a call.
func (a *Attempts) Record(instanceID string, action plan.Action, err error, at time.Time) {
	of := a.byInstance[instanceID]
	of.Attempts = of.After(action, err, at)
	a.set(instanceID, of)
}

// RecordEviction records an attempt to evict the pods of an interface. The refusal is the API server's reason not to
// evict one of them; empty if there was none.
func (a *Attempts) RecordEviction(instanceID, interfaceID, refusal string, at time.Time) {
	of := a.byInstance[instanceID]
	of.Evictions = with(of.Evictions, interfaceID, of.Evictions[interfaceID].Next(refusal, at))
	a.set(instanceID, of)
}

// Forget drops the attempts for an instance.
func (a *Attempts) Forget(instanceID string) { delete(a.byInstance, instanceID) }

func (a *Attempts) set(instanceID string, of InstanceAttempts) {
	if a.byInstance == nil {
		a.byInstance = map[string]InstanceAttempts{}
	}
	a.byInstance[instanceID] = of
}

// with returns a copy of a map with one more entry.
func with[K comparable, V any](all map[K]V, key K, value V) map[K]V {
	next := make(map[K]V, len(all)+1)
	maps.Copy(next, all)
	next[key] = value
	return next
}

// fullSubnetTTL is how long a full subnet is kept after its next attempt is due. Each node that needs an address tries
// within [plan.SubnetFullBackoff].
const fullSubnetTTL = 3 * plan.SubnetFullBackoff

// FullSubnets are the subnets in which EC2 had no address or no prefix for a NodeENI, with the time of the next
// attempt. One node at a time makes that attempt, so that a fleet does not ask for addresses that do not exist. After a
// restart each node that needs an address in a full subnet makes one attempt.
type FullSubnets struct {
	next map[plan.SubnetDemand]plan.FullSubnet
}

// Known returns a copy of the subnets with the times of the next attempts. It first drops the attempts that are overdue
// by more than fullSubnetTTL: their NodeENI may not exist any more.
func (s *FullSubnets) Known(now time.Time) map[plan.SubnetDemand]plan.FullSubnet {
	maps.DeleteFunc(s.next, func(_ plan.SubnetDemand, known plan.FullSubnet) bool {
		return now.Sub(known.Until) > fullSubnetTTL
	})
	return maps.Clone(s.next)
}

// Allow reports whether all creates among the actions may be made now. If so, the creates in full subnets are the next
// attempt, and the one after it is due a backoff later.
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

// Record records the outcome of an action. Only outcomes of creates change something.
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
		// The failure does not say whether the subnet is full, and this node may fail each time, so another node may try.
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

// entry returns the inner map of a key, and creates it if necessary.
func entry[K, L comparable, V any](all *map[K]map[L]V, key K) map[L]V {
	if *all == nil {
		*all = map[K]map[L]V{}
	}
	if (*all)[key] == nil {
		(*all)[key] = map[L]V{}
	}
	return (*all)[key]
}

// removeEntry deletes a value from the inner map of a key, and the inner map with its last value.
func removeEntry[K, L comparable, V any](all map[K]map[L]V, key K, inner L) {
	delete(all[key], inner)
	if len(all[key]) == 0 {
		delete(all, key)
	}
}
