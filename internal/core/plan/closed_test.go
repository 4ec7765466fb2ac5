// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// TestNoNetworkOpensWhileItsInterfaceMayBeDetached has an interface that a user wants back. A detach of the removal
// before may still take effect.
func TestNoNetworkOpensWhileItsInterfaceMayBeDetached(t *testing.T) {
	t.Parallel()
	const window, second = inventory.StaleReadWindow, time.Second
	drained, idle := plan.PodNetwork{Drained: true}, network(0)
	draining, closed, open := &plan.ListedNetwork{Draining: true}, &plan.ListedNetwork{}, &plan.ListedNetwork{Opened: true}
	made := func(o *plan.Observed, _ time.Time) { o.Owned[0].Made = true }
	unanswered := func(ago time.Duration) func(*plan.Observed, time.Time) {
		return func(o *plan.Observed, now time.Time) {
			made(o, now)
			o.Owned[0].UnansweredDetach = now.Add(-ago)
		}
	}
	underWay := func(o *plan.Observed, now time.Time) {
		made(o, now)
		i := o.Owned[0]
		o.InFlight = []plan.Action{plan.Detach{Member: i.Member, InterfaceID: i.ID, AttachmentID: i.Attachment.ID}}
		o.Owned = o.Expected()
	}
	for name, tc := range map[string]struct {
		// leads is how long the process leads.
		leads   time.Duration
		listed  *plan.ListedNetwork
		report  *plan.PodNetwork
		happens func(o *plan.Observed, now time.Time)
		// none is set if the NodeENI has no network for pods.
		none bool
		// closed and drains are what the plan says of the network, and wait how long: 0 if no time ends it.
		closed, drains bool
		wait           time.Duration
	}{
		"an earlier leader can have drained it":      {leads: second, listed: draining, report: &drained, closed: true, drains: true, wait: window - second},
		"no agent reported it":                       {leads: second, listed: draining, closed: true, drains: true, wait: window - second},
		"its agent cannot write its checkpoint":      {leads: second, listed: &plan.ListedNetwork{Draining: true, Opened: true}, report: &idle, closed: true, drains: true, wait: window - second},
		"the calls of earlier leaders have ended":    {leads: window, listed: draining, report: &drained},
		"an earlier leader cleared that it drains":   {leads: second, listed: closed, report: &idle, closed: true, wait: window - second},
		"no agent has reported a new network":        {leads: second, listed: closed, closed: true},
		"it becomes a network for pods":              {leads: second, report: &idle, closed: true, wait: window - second},
		"it is no network for pods":                  {leads: second, none: true},
		"it was open all the time":                   {leads: second, listed: open, report: &idle},
		"pods use it":                                {leads: second, listed: draining, report: new(network(1))},
		"this process created it":                    {leads: second, listed: closed, report: &idle, happens: made},
		"a call of this process has no answer":       {leads: time.Hour, listed: draining, report: &drained, happens: unanswered(second), closed: true, drains: true, wait: window - second},
		"a call had no answer a window ago":          {leads: time.Hour, listed: draining, report: &drained, happens: unanswered(window)},
		"a call is under way":                        {leads: time.Hour, listed: draining, report: &drained, happens: underWay, closed: true, drains: true},
		"a call is under way before it ever drained": {leads: time.Hour, listed: closed, report: &idle, happens: underWay, closed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newMinimalEC2(limits(4))
			d := desired(claim("n3", desiredInterface(0, 1, "s1")))
			settled, ledger := w.drive(d, nil)
			d.Claims[0].PodPrefixes.Pods = !tc.none
			o := w.observe(ledger)
			o.Era.Since = w.now.Add(-tc.leads)
			store(&o, settled.Members[0].Interface.ID, func(s *plan.Stored) { s.Listed, s.Report = tc.listed, tc.report })
			if tc.happens != nil {
				tc.happens(&o, w.now)
			}
			p := compute(d, o, w.now)
			if m := p.Members[0]; m.KeepClosed != tc.closed || m.DrainPods != tc.drains {
				t.Errorf("stays closed %t and drains %t, want %t and %t", m.KeepClosed, m.DrainPods, tc.closed, tc.drains)
			}
			if tc.wait > 0 && !p.RequeueAt.Equal(w.now.Add(tc.wait)) {
				t.Errorf("planned again at %s, want %s", p.RequeueAt, w.now.Add(tc.wait))
			}
			// Once the read is too old, only another one shows that the interface is attached.
			o.Snapshot = nil
			if p = compute(d, o, w.now.Add(2*window)); p.NeedsDescribe != (tc.wait > 0) {
				t.Errorf("needs a read: %t", p.NeedsDescribe)
			}
		})
	}
}

// TestARemovalWaitsForNoLateCall removes an interface whose network an earlier leader can have drained.
func TestARemovalWaitsForNoLateCall(t *testing.T) {
	t.Parallel()
	w := newMinimalEC2(limits(4))
	d := desired(claim("n3", desiredInterface(0, 1, "s1")))
	settled, ledger := w.drive(d, nil)
	d.Claims[0].Mode, d.Claims[0].Interfaces = render.Release, nil
	o := w.observe(ledger)
	o.Era.Since = w.now
	store(&o, settled.Members[0].Interface.ID, func(s *plan.Stored) {
		s.Listed, s.Report = &plan.ListedNetwork{Draining: true}, &plan.PodNetwork{Drained: true}
	})
	p := compute(d, o, w.now)
	if len(p.Actions) != 1 || p.Actions[0].Interface() != settled.Members[0].Interface.ID {
		t.Errorf("actions %v, want a detach", p.Actions)
	}
}
