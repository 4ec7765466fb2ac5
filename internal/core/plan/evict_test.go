// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// TestPodsAreEvictedBeforeARemoval removes an interface that pods use, of a NodeENI that evicts them.
func TestPodsAreEvictedBeforeARemoval(t *testing.T) {
	t.Parallel()
	attempt := func(ago time.Duration, refusals int) plan.EvictionAttempt {
		a := plan.EvictionAttempt{}
		for range refusals {
			a = a.Next("a PodDisruptionBudget refuses it", time.Time{})
		}
		a.At = newMinimalEC2(limits(4)).now.Add(-ago)
		return a
	}
	for name, tc := range map[string]struct {
		wait     bool
		denied   bool
		nameless bool
		last     plan.EvictionAttempt
		pods     []string
		message  string
		// next is the time to the next attempt; 0 if none is planned.
		next time.Duration
	}{
		"the NodeENI waits for pods":                {wait: true, message: "or set pods.onRemoval: Evict"},
		"the first attempt":                         {pods: []string{"upf/a"}, message: "multieni evicts them (pods.onRemoval: Evict)"},
		"as many nodes as may evict pods already":   {denied: true, message: "after those of other interfaces: no more than 1 node"},
		"the last attempt was 9 seconds ago":        {last: attempt(9*time.Second, 0), next: time.Second, message: "multieni evicts them"},
		"the last attempt was 10 seconds ago":       {last: attempt(10*time.Second, 0), pods: []string{"upf/a"}, message: "multieni evicts them"},
		"a budget refused once":                     {last: attempt(time.Second, 1), next: 9 * time.Second, message: "at least every 2 minutes: a PodDisruptionBudget refuses it"},
		"a budget refused three times":              {last: attempt(30*time.Second, 3), next: 10 * time.Second, message: "a PodDisruptionBudget refuses it"},
		"a budget refused often":                    {last: attempt(time.Minute, 50), next: time.Minute, message: "a PodDisruptionBudget refuses it"},
		"a budget refused often, and it is tried":   {last: attempt(2*time.Minute, 50), pods: []string{"upf/a"}, message: "a PodDisruptionBudget refuses it"},
		"an address without the name of its pod is": {nameless: true, message: "multieni evicts them"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newMinimalEC2(limits(4))
			d := desired(claim("n3", desiredInterface(0, 1, "s1")))
			settled, ledger := w.drive(d, nil)
			id := settled.Members[0].Interface.ID
			d.Claims[0].Mode, d.Claims[0].Interfaces, d.Claims[0].EvictPods = render.Release, nil, !tc.wait
			tc.last.At = tc.last.At.Add(w.now.Sub(newMinimalEC2(limits(4)).now))
			o, used := w.observe(ledger), network(1)
			if tc.nameless {
				used.Pods = nil
			}
			o.PodNetworks = map[string]plan.PodNetwork{id: used}
			if o.EvictAllowed = !tc.denied; tc.denied {
				o.EvictDenied = "no more than 1 node at a time"
			}
			if tc.last.Refusals > 0 || tc.next > 0 || strings.HasPrefix(name, "the last attempt") {
				o.Evictions = map[string]plan.EvictionAttempt{id: tc.last}
			}
			p := compute(d, o, w.now)
			var pods []string
			for _, e := range p.Evictions {
				pods = append(pods, e.Pods...)
			}
			if diff := cmp.Diff(tc.pods, pods); diff != "" {
				t.Errorf("evicted pods (-want +got):\n%s", diff)
			}
			reason := plan.InUseByPods
			if tc.last.Refusals > 0 {
				reason = plan.EvictionRefused
			}
			if m := p.Members[0]; len(p.Actions) > 0 || m.Why.Reason != reason || !strings.Contains(m.Why.Message, tc.message) {
				t.Errorf("actions %v, %+v; want none, %s and %q", p.Actions, m.Why, reason, tc.message)
			}
			if at := w.now.Add(tc.next); tc.next > 0 && !p.RequeueAt.Equal(at) {
				t.Errorf("the next plan is at %s, want %s", p.RequeueAt, at)
			}
			if wait := tc.wait == (p.EvictCandidate == ""); !wait {
				t.Errorf("the candidate is %q", p.EvictCandidate)
			}
		})
	}
}

// TestAnEvictionFollowsAFreshRead checks that a plan without a read of the instance evicts no pod and detaches no
// interface.
func TestAnEvictionFollowsAFreshRead(t *testing.T) {
	t.Parallel()
	w := newMinimalEC2(limits(4))
	d := desired(claim("n3", desiredInterface(0, 1, "s1")))
	settled, ledger := w.drive(d, nil)
	d.Claims[0].Mode, d.Claims[0].Interfaces, d.Claims[0].EvictPods = render.Release, nil, true
	o := w.observe(ledger)
	o.PodNetworks, o.EvictAllowed = map[string]plan.PodNetwork{settled.Members[0].Interface.ID: network(1)}, true
	o.Snapshot = nil
	if p := compute(d, o, w.now); len(p.Evictions) > 0 || !p.NeedsDescribe {
		t.Errorf("evictions %v, a read is needed: %t; want none and a read", p.Evictions, p.NeedsDescribe)
	}
}

// TestAReplacementEvictsWithItsOwnPermission checks that pods of an interface in the wrong subnet are evicted only once
// the rollout has reached the node.
func TestAReplacementEvictsWithItsOwnPermission(t *testing.T) {
	t.Parallel()
	w := newMinimalEC2(limits(4))
	settled, ledger := w.drive(desired(claim("n3", desiredInterface(0, 1, "s1"))), nil)
	d := desired(claim("n3", desiredInterface(0, 1, "s2")))
	d.Claims[0].EvictPods, d.Claims[0].ReplaceAllowed = true, true
	o := w.observe(ledger)
	o.PodNetworks = map[string]plan.PodNetwork{settled.Members[0].Interface.ID: network(1)}
	for _, allowed := range []bool{false, true} {
		o.ReplaceAllowed = allowed
		p := compute(d, o, w.now)
		if evicts := len(p.Evictions) == 1; evicts != allowed || len(p.Actions) > 0 || p.EvictCandidate != "" {
			t.Errorf("allowed %t: evictions %v, actions %v, candidate %q", allowed, p.Evictions, p.Actions, p.EvictCandidate)
		}
	}
}
