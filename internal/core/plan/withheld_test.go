// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
)

// TestPodsUseNoPrefixThatAReadMayShowAfterItsEnd has an interface with two prefixes. Calls that unassign prefixes may
// have ended before the read that shows both.
func TestPodsUseNoPrefixThatAReadMayShowAfterItsEnd(t *testing.T) {
	t.Parallel()
	const window, second = inventory.StaleReadWindow, time.Second
	unassigned := func(ago time.Duration, class eni.Class) func(*plan.Observed, time.Time) {
		to := plan.UnassignAddresses{Family: plan.IPv4, Surplus: eni.Addresses{IPv4Prefixes: blocks(0)}}
		return func(o *plan.Observed, now time.Time) {
			o.Backoffs = map[identity.Key]plan.Backoff{{Owner: "uid-n3"}: {Updates: map[string]plan.Backoff{
				plan.FieldOf(to): {Action: plan.Change{To: to}, Class: class, At: now.Add(-ago), Count: 1},
			}}}
		}
	}
	accepted := func(ago time.Duration) func(*plan.Observed, time.Time) {
		to := plan.UnassignAddresses{Family: plan.IPv4, Surplus: eni.Addresses{IPv4Prefixes: blocks(0)}}
		return func(o *plan.Observed, now time.Time) {
			o.RepeatedUpdates = plan.RepeatedUpdates{o.Owned[0].ID: {plan.FieldOf(to): {To: to, At: now.Add(-ago), Count: 1}}}
		}
	}
	unlisted := func(o *plan.Observed, _ time.Time) {
		store(o, o.Owned[0].ID, func(s *plan.Stored) { s.Listed = nil })
	}
	for name, tc := range map[string]struct {
		// leads is how long the process leads; since when pods may use the prefixes of listed.
		leads    time.Duration
		listed   []netip.Prefix
		happens  func(o *plan.Observed, now time.Time)
		withheld []netip.Prefix
		wait     time.Duration
		// none is set if the NodeENI has no network for pods.
		none bool
	}{
		"the process leads for long":    {leads: time.Hour, listed: blocks(0)},
		"it got the lease just before":  {leads: second, listed: blocks(0), withheld: blocks(1), wait: window - second},
		"the state lists both":          {leads: second, listed: blocks(0, 1)},
		"pods do not use the interface": {leads: second, none: true, happens: unlisted},
		"an interface of an earlier leader becomes a network for pods": {leads: second, listed: blocks(0, 1),
			happens: unlisted, withheld: blocks(0, 1), wait: window - second},
		"the clock of the earlier leader is ahead": {leads: second, listed: blocks(0),
			happens: func(o *plan.Observed, now time.Time) {
				o.Owned[0].Tags[identity.TagCreatedAt] = strconv.FormatInt(now.Add(time.Hour).Unix(), 10)
			}, withheld: blocks(1), wait: window - second},
		"a network drains before the agent opened it": {leads: second, listed: blocks(0, 1),
			happens: func(o *plan.Observed, _ time.Time) {
				store(o, o.Owned[0].ID, func(s *plan.Stored) { s.Listed = &plan.ListedNetwork{Draining: true} })
			}, withheld: blocks(0, 1), wait: window - second},
		"a network drains after the agent opened it": {leads: second, listed: blocks(0, 1),
			happens: func(o *plan.Observed, _ time.Time) {
				store(o, o.Owned[0].ID, func(s *plan.Stored) { s.Listed = &plan.ListedNetwork{Draining: true, Opened: true} })
			}},
		"pods of a new interface wait for no read": {leads: second, happens: func(o *plan.Observed, now time.Time) {
			unlisted(o, now)
			o.Owned[0].Made = true
		}},
		"EC2 unassigned a prefix": {leads: time.Hour, listed: blocks(0, 1), happens: accepted(second), withheld: blocks(0), wait: window - second},
		"EC2 unassigned a prefix before pods used the interface": {leads: time.Hour, happens: func(o *plan.Observed, now time.Time) {
			accepted(second)(o, now)
			unlisted(o, now)
		}, withheld: blocks(0), wait: window - second},
		"EC2 unassigned a prefix a window ago": {leads: time.Hour, listed: blocks(0, 1), happens: accepted(window)},
		"the state is lost": {leads: second, withheld: blocks(0, 1), wait: window - second, happens: func(o *plan.Observed, now time.Time) {
			store(o, o.Owned[0].ID, func(s *plan.Stored) {
				s.ListedPrefixes, s.Listed, s.MayLackReport, s.ReportDue = nil, nil, true, now.Add(time.Hour)
			})
		}},
		"a call has no answer":              {leads: time.Hour, listed: blocks(0, 1), happens: unassigned(second, eni.Transient), withheld: blocks(0), wait: window - second},
		"a call had no answer a window ago": {leads: time.Hour, listed: blocks(0, 1), happens: unassigned(window, eni.Transient)},
		"EC2 refused a call":                {leads: time.Hour, listed: blocks(0, 1), happens: unassigned(second, eni.Throttled)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newMinimalEC2(limits(4))
			d := desired(claim("n3", desiredInterface(0, 1, "s1")))
			settled, ledger := w.drive(d, nil)
			i := *settled.Members[0].Interface
			i.IPv4Prefixes = blocks(0, 1)
			w.interfaces[i.ID], w.requested[i.ID] = i, i.Addresses
			d.Claims[0].PodPrefixes = plan.PrefixDemand{Pods: !tc.none, Max: 4}
			o := w.observe(ledger)
			o.Era.Since = w.now.Add(-tc.leads)
			store(&o, i.ID, func(s *plan.Stored) {
				s.Report, s.Listed, s.ListedPrefixes = new(network(1, 1)), &plan.ListedNetwork{}, tc.listed
			})
			if tc.happens != nil {
				tc.happens(&o, w.now)
			}
			p := compute(d, o, w.now)
			if diff := cmp.Diff(texts(tc.withheld), texts(p.Members[0].Withheld)); diff != "" {
				t.Errorf("withheld prefixes differ (-want +got):\n%s", diff)
			}
			if len(tc.withheld) > 0 && !p.RequeueAt.Equal(w.now.Add(tc.wait)) {
				t.Errorf("planned again at %s, want %s", p.RequeueAt, w.now.Add(tc.wait))
			}
			// Once the read is old enough, only another one shows more.
			o.Snapshot = nil
			if p = compute(d, o, w.now.Add(2*window)); p.NeedsDescribe != (len(tc.withheld) > 0) {
				t.Errorf("needs a read: %t", p.NeedsDescribe)
			}
		})
	}
}

// TestACallForAStoredGenerationRepeats plans the creation of an interface before and after the ledger has its
// generation.
func TestACallForAStoredGenerationRepeats(t *testing.T) {
	t.Parallel()
	w, d := newMinimalEC2(limits(4)), desired(claim("n3", desiredInterface(0, 1, "s1")))
	var ledger identity.Generations
	for _, want := range []bool{false, true} {
		p := compute(d, w.observe(ledger), w.now)
		if create, is := p.Actions[0].(plan.Create); !is || create.Repeats != want {
			t.Errorf("with ledger %v: %+v, want a create call that repeats: %t", ledger, p.Actions, want)
		}
		ledger = p.Ledger
	}
}
