// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/fleet"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// TestAPlanNamesThePodsToEvict removes or replaces an interface that pods use.
func TestAPlanNamesThePodsToEvict(t *testing.T) {
	t.Parallel()
	released := func(c *render.Claim) { c.Mode, c.Interfaces, c.EvictPods = render.Release, nil, true }
	for name, tc := range map[string]struct {
		change  func(*render.Claim)
		replace fleet.Permission
		want    []bool // one for each eviction: whether the interface is replaced
		reason  plan.Reason
	}{
		"the NodeENI waits for pods": {func(c *render.Claim) { released(c); c.EvictPods = false }, granted, nil, plan.InUseByPods},
		"it evicts them":             {released, granted, []bool{false}, plan.InUseByPods},
		"a replacement": {func(c *render.Claim) {
			c.EvictPods, c.ReplaceAllowed, c.Interfaces[0].Subnets = true, true, []string{"s2"}
		}, granted, []bool{true}, plan.InUseByPods},
		"a replacement that waits": {func(c *render.Claim) {
			c.EvictPods, c.ReplaceAllowed, c.Interfaces[0].Subnets = true, true, []string{"s2"}
		}, fleet.Permission{}, nil, plan.Replacing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newMinimalEC2(limits(4))
			d := desired(claim("n3", desiredInterface(0, 1, "s1")))
			settled, ledger := w.drive(d, nil)
			tc.change(&d.Claims[0])
			o := w.observe(ledger)
			store(&o, settled.Members[0].Interface.ID, func(s *plan.Stored) { s.Report = new(network(1)) })
			p := computeWith(d, o, tc.replace, w.now)
			var got []bool
			for _, e := range p.Evictions {
				got = append(got, e.Replaces)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("evictions (-want +got):\n%s", diff)
			}
			if why := p.Members[0].Why; len(p.Actions) > 0 || why.Reason != tc.reason {
				t.Errorf("actions %v, %+v; want none and %s", p.Actions, why, tc.reason)
			}
			if says := strings.Contains(p.Members[0].Why.Message, "or set pods.onRemoval: Evict"); says != (name == "the NodeENI waits for pods") {
				t.Errorf("the message is %q", p.Members[0].Why.Message)
			}
		})
	}
}

// TestOnlyPodsThatAnAgentNamesCanBeEvicted removes an interface with attachment Observed: its agent reports addresses and
// names no pods, and the schema refuses Evict.
func TestOnlyPodsThatAnAgentNamesCanBeEvicted(t *testing.T) {
	t.Parallel()
	const evict, look = "set pods.onRemoval: Evict", "kubectl get floatingaddresses -o wide"
	for name, tc := range map[string]struct {
		pods            []string
		advised, absent string
	}{
		"the agent names pods":      {[]string{"upf/a"}, evict, look},
		"the agent names addresses": {nil, look, evict},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newMinimalEC2(limits(4))
			d := desired(claim("n3", desiredInterface(0, 1, "s1")))
			settled, ledger := w.drive(d, nil)
			d.Claims[0].Mode, d.Claims[0].Interfaces = render.Release, nil
			o := w.observe(ledger)
			store(&o, settled.Members[0].Interface.ID, func(s *plan.Stored) {
				s.Report = new(network(1))
				s.Report.Pods = tc.pods
			})
			why := computeWith(d, o, granted, w.now).Members[0].Why
			if !strings.Contains(why.Message, tc.advised) || strings.Contains(why.Message, tc.absent) {
				t.Errorf("%s: %q, want the advice %q and not %q", why.Reason, why.Message, tc.advised, tc.absent)
			}
		})
	}
}
