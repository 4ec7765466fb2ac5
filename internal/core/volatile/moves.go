// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package volatile

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/plan"
)

// moveRetention is how long an address without a claim is remembered. It is longer than any interval at which a node is
// reconciled, so that an address in use is not forgotten.
const moveRetention = time.Hour

// AddressMoves decides which interface has an address that pods bring up themselves. The newest claim wins, which is
// the one that this process saw last. Clocks of nodes decide only between claims that it first saw at the same time.
// After a restart these are all claims, so a node with a wrong clock can get an address that another node claimed
// later.
//
// It also bounds how often the addresses on one instance change.
type AddressMoves struct {
	addresses map[netip.Addr]*addressMoves
	arrivals  uint64
	pruned    time.Time
	// begun has the times of the last changes on instances.
	begun map[string]time.Time
}

// Begin records that addresses on an instance change now.
func (m *AddressMoves) Begin(instanceID string, now time.Time) {
	if m.begun == nil {
		m.begun = map[string]time.Time{}
	}
	m.begun[instanceID] = now
}

// From returns the time from which addresses on an instance may change again; zero if they may change now. The
// interval counts per instance and not per interface, because all interfaces of an instance share its reads.
func (m *AddressMoves) From(instanceID string, now time.Time) time.Time {
	if from := m.begun[instanceID].Add(plan.MoveInterval); now.Before(from) {
		return from
	}
	delete(m.begun, instanceID)
	return time.Time{}
}

type claimKey struct {
	interfaceID string
	sequence    int64
}

// addressMoves is the state of one address.
type addressMoves struct {
	// arrived has the order in which claims were seen.
	arrived map[claimKey]uint64
	// holder is the claim that has the address, movedAt the time of the last move from another one.
	holder          claimKey
	movedAt, usedAt time.Time
}

// Holder returns the claim, among all claims on an address, that must have it, if any. If a newer claim must wait
// because the address moved shortly before, it also returns until when.
func (m *AddressMoves) Holder(address netip.Addr, claims []plan.AddressClaim,
	now time.Time) (holder plan.AddressClaim, held bool, until time.Time) {
	m.prune(now)
	a := m.arrive(address, claims)
	a.usedAt = now
	live := slices.DeleteFunc(slices.Clone(claims), func(c plan.AddressClaim) bool { return c.Released })
	if len(live) == 0 {
		return plan.AddressClaim{}, false, time.Time{}
	}
	newest := slices.MaxFunc(live, func(x, y plan.AddressClaim) int {
		return cmp.Compare(a.arrived[keyOf(x)], a.arrived[keyOf(y)])
	})
	switch {
	case keyOf(newest) == a.holder:
	case a.holder.interfaceID == newest.InterfaceID || a.holder == claimKey{}: // EC2 moves nothing
		a.holder = keyOf(newest)
	case now.Before(a.movedAt.Add(plan.MoveInterval)):
		n := slices.IndexFunc(live, func(c plan.AddressClaim) bool { return keyOf(c) == a.holder })
		if n < 0 {
			return plan.AddressClaim{}, false, a.movedAt.Add(plan.MoveInterval)
		}
		return live[n], true, a.movedAt.Add(plan.MoveInterval)
	default:
		a.holder, a.movedAt = keyOf(newest), now
	}
	return newest, true, time.Time{}
}

// arrive adds the new claims, in the order of the nodes' clocks, and drops those that no longer exist.
func (m *AddressMoves) arrive(address netip.Addr, claims []plan.AddressClaim) *addressMoves {
	a := m.addresses[address]
	if a == nil {
		a = &addressMoves{arrived: map[claimKey]uint64{}}
		if m.addresses == nil {
			m.addresses = map[netip.Addr]*addressMoves{}
		}
		m.addresses[address] = a
	}
	present := map[claimKey]bool{}
	for _, c := range claims {
		present[keyOf(c)] = true
	}
	maps.DeleteFunc(a.arrived, func(key claimKey, _ uint64) bool { return !present[key] })
	bySince := slices.SortedFunc(slices.Values(claims), func(x, y plan.AddressClaim) int {
		return cmp.Or(x.Since.Compare(y.Since), cmp.Compare(x.InterfaceID, y.InterfaceID))
	})
	for _, c := range bySince {
		if _, known := a.arrived[keyOf(c)]; !known {
			m.arrivals++
			a.arrived[keyOf(c)] = m.arrivals
		}
	}
	return a
}

func (m *AddressMoves) prune(now time.Time) {
	if now.Sub(m.pruned) < moveRetention {
		return
	}
	m.pruned = now
	maps.DeleteFunc(m.addresses, func(_ netip.Addr, a *addressMoves) bool { return now.Sub(a.usedAt) >= moveRetention })
	maps.DeleteFunc(m.begun, func(_ string, at time.Time) bool { return now.Sub(at) >= moveRetention })
}

func keyOf(c plan.AddressClaim) claimKey { return claimKey{c.InterfaceID, c.Sequence} }
