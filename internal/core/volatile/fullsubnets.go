// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package volatile

import (
	"maps"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
)

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

// Allow reports whether all creates among the calls may be made now. If so, the creates in full subnets are the next
// attempt, and the one after it is due a backoff later.
func (s *FullSubnets) Allow(calls []plan.Call, now time.Time) bool {
	for _, call := range calls {
		if create, ok := call.(plan.Create); ok && now.Before(s.next[demandOf(create)].Until) {
			return false
		}
	}
	for _, call := range calls {
		if create, ok := call.(plan.Create); ok {
			s.postpone(demandOf(create), now.Add(plan.SubnetFullBackoff))
		}
	}
	return true
}

// Record records the outcome of a call. Only outcomes of creates change something.
func (s *FullSubnets) Record(call plan.Call, err error, at time.Time) {
	create, ok := call.(plan.Create)
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
	return plan.DemandOf(c.Key.NodeENI, c.SubnetID, c.Spec)
}
