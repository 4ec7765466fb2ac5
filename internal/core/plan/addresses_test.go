// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/era"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
)

func addresses(last ...byte) []netip.Addr {
	var all []netip.Addr
	for _, n := range last {
		all = append(all, netip.AddrFrom4([4]byte{10, 0, 4, n}))
	}
	return all
}

func TestCountsOfAddressesAreFloors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		want int
		// have are the addresses of the interface, recorded those that multieni requested.
		have, recorded []netip.Addr
		unassigned     []netip.Addr
		assigned       int
		reason         plan.Reason
	}{
		"an address of another program stays":                {have: addresses(70)},
		"it stays beside the requested ones":                 {want: 2, have: addresses(5, 6, 70), recorded: addresses(5, 6)},
		"it counts while the requested ones are missing":     {want: 2, have: addresses(70), assigned: 1},
		"a lower count gives back the newest requested":      {want: 1, have: addresses(5, 6), recorded: addresses(5, 6), unassigned: addresses(6)},
		"a lower count gives back none of another program":   {want: 0, have: addresses(5, 70, 6), recorded: addresses(5, 6), unassigned: addresses(5, 6)},
		"a record of an address that is gone means nothing":  {want: 1, have: addresses(5), recorded: addresses(5, 6)},
		"a lower count without a record waits and says so":   {want: 1, have: addresses(5, 6), reason: plan.AddressesKept},
		"a lower count with half a record gives that back":   {want: 0, have: addresses(5, 6), recorded: addresses(6), unassigned: addresses(6)},
		"a higher count without a record adds what it lacks": {want: 3, have: addresses(5, 6), assigned: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newMinimalEC2(limits(4))
			d := desired(claim("n3", desiredInterface(0, 1, "s1")))
			last, ledger := w.drive(d, nil)
			i := *last.Members[0].Interface
			i.SecondaryIPv4 = tc.have
			w.interfaces[i.ID], w.requested[i.ID] = i, eni.Addresses{SecondaryIPv4: tc.recorded}

			d.Claims[0].Interfaces[0].Spec.SecondaryIPv4 = tc.want
			p := compute(d, w.observe(ledger), w.now)
			var unassigned []netip.Addr
			assigned := 0
			for _, action := range p.Actions {
				switch to := action.(plan.Change).To.(type) {
				case plan.UnassignAddresses:
					unassigned = append(unassigned, to.Surplus.SecondaryIPv4...)
				case plan.AssignAddresses:
					assigned += to.Addresses
				}
			}
			if diff := cmp.Diff(tc.unassigned, unassigned, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
				t.Errorf("unassigned addresses differ (-want +got):\n%s", diff)
			}
			if assigned != tc.assigned {
				t.Errorf("%d addresses are assigned, want %d", assigned, tc.assigned)
			}
			m := p.Members[0]
			if m.Why.Reason != tc.reason || !m.Ready() {
				t.Errorf("the reason is %q and ready is %t, want %q and true", m.Why.Reason, m.Ready(), tc.reason)
			}
		})
	}
}

// TestAddressesAreAssignedOnceAReadCountsThem asks for two addresses more while an earlier call, by this process or by an
// earlier leader, may have assigned some that a read does not show.
func TestAddressesAreAssignedOnceAReadCountsThem(t *testing.T) {
	t.Parallel()
	const window, second, uncertain = inventory.StaleReadWindow, time.Second, 15 * time.Second
	two := plan.AssignAddresses{Family: plan.IPv4, Addresses: 2}
	for name, tc := range map[string]struct {
		// leads is how long the process leads, and read how long ago the read began.
		leads, read time.Duration
		// failed is how long ago a call for addresses failed; zero for none.
		failed time.Duration
		class  eni.Class
		// shown is how long ago the last read began that has the effects of our other calls.
		shown time.Duration
		want  int
		wait  time.Duration
	}{
		"the process leads for long":        {leads: time.Hour, want: 2},
		"it got the lease just before":      {wait: window},
		"it got the lease a window ago":     {leads: window, want: 2},
		"the read began before that":        {leads: window + second, read: 2 * second, wait: -second},
		"a call had no answer":              {leads: time.Hour, failed: window - second, class: eni.Transient, wait: second},
		"a call had no answer a window ago": {leads: time.Hour, failed: window, class: eni.Transient, want: 2},
		"a call had no answer, and the read lacks another call": {
			leads: time.Hour, failed: window, class: eni.Transient, shown: second, wait: uncertain,
		},
		"EC2 refused a call": {leads: time.Hour, failed: window - second, class: eni.Throttled, want: 2},
		"a call had no answer, and it got the lease later": {leads: 2 * second, failed: window - second, class: eni.Transient, wait: window - 2*second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newMinimalEC2(limits(4))
			d := desired(claim("n3", desiredInterface(0, 1, "s1")))
			_, ledger := w.drive(d, nil)
			d.Claims[0].Interfaces[0].Spec.SecondaryIPv4 = 2
			o := w.observe(ledger)
			o.Era, o.Snapshot.At = era.Era{Since: w.now.Add(-tc.leads)}, w.now.Add(-tc.read)
			o.Owned[0].LastRead = w.now.Add(-tc.shown)
			if tc.failed > 0 {
				o.Backoffs = map[identity.Key]plan.Backoff{{Owner: "uid-n3"}: {Updates: map[string]plan.Backoff{
					plan.FieldOf(two): {Action: plan.Change{To: two}, Class: tc.class, At: w.now.Add(-tc.failed), Count: 1},
				}}}
			}
			p := compute(d, o, w.now)
			assigned := 0
			for _, action := range p.Actions {
				assigned += action.(plan.Change).To.(plan.AssignAddresses).Addresses
			}
			if assigned != tc.want {
				t.Errorf("%d addresses are assigned, want %d", assigned, tc.want)
			}
			if tc.want == 0 && !p.RequeueAt.Equal(w.now.Add(tc.wait)) {
				t.Errorf("planned again at %s, want %s", p.RequeueAt, w.now.Add(tc.wait))
			}
		})
	}
}

// TestOnlyMissingAddressesWaitForAnEra checks that a leader's start plans no interface again that has all addresses.
func TestOnlyMissingAddressesWaitForAnEra(t *testing.T) {
	t.Parallel()
	w := newMinimalEC2(limits(4))
	d := desired(claim("n3", desiredInterface(0, 1, "s1")))
	_, ledger := w.drive(d, nil)
	o := w.observe(ledger)
	o.Era.Since = w.now
	if p := compute(d, o, w.now); !p.RequeueAt.IsZero() {
		t.Errorf("planned again at %s", p.RequeueAt)
	}
}

// TestAnAddressThatNobodyOfOursRequestedStays lets another program assign addresses to our interfaces and unassign
// them, while the NodeENIs change, calls and answers get lost, and the controller crashes. The cloud fails the test if
// a call unassigns one of that program's addresses.
func TestAnAddressThatNobodyOfOursRequestedStays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := newStory(rt, trouble{crashes: true, faults: true, lag: 20, interference: true})
		s.upheaval(rapid.IntRange(1, 6).Draw(rt, "changes"))
		s.calm()
		for _, i := range s.cloud.ours() {
			if lost := s.cloud.foreign[i.ID].Without(i.Addresses).Prefixes(); len(lost) > 0 {
				s.fail("%s lost %v, which somebody else assigned", i.ID, lost)
			}
		}
	})
}
