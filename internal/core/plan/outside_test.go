// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// A Node names its instance in providerID, which the creator of the Node writes. These tests have instances outside the
// cluster.

// known are the tags that a cluster's instances have in these tests.
func known() []eni.InstanceTag {
	return []eni.InstanceTag{{Key: "kubernetes.io/cluster/blue", AnyValue: true}, {Key: "eks:cluster-name", Value: "blue"}}
}

func TestOnlyInstancesOfTheClusterGetInterfaces(t *testing.T) {
	cases := map[string]struct {
		tags    map[string]string
		refused bool
	}{
		"none":                             {nil, true},
		"another cluster's":                {map[string]string{"kubernetes.io/cluster/green": "owned", "eks:cluster-name": "green"}, true},
		"a key with any value":             {map[string]string{"kubernetes.io/cluster/blue": "shared"}, false},
		"a key with its value, as another": {map[string]string{"eks:cluster-name": "blue"}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newMinimalEC2(limits(4))
			w.instance.Tags = tc.tags
			d := desired(claim("a", desiredInterface(0, 1, "s1")))
			d.InstanceTags = known()
			p := compute(d, w.observe(nil), w.now)
			if got := p.Members[0].Why.Reason == plan.InstanceOutsideCluster; got != tc.refused {
				t.Errorf("refused: %t, want %t:\n%s", got, tc.refused, p.Explain())
			}
			if made := len(p.Actions) > 0; made == tc.refused {
				t.Errorf("the plan makes calls: %t, want %t:\n%s", made, !tc.refused, p.Explain())
			}
		})
	}
}

// TestAnInstanceWithoutTheTagKeepsWhatItHas requires a tag only after the instance has its interfaces, as after an
// upgrade.
func TestAnInstanceWithoutTheTagKeepsWhatItHas(t *testing.T) {
	cases := map[string]struct {
		then func(*render.Claim)
		// want is the reason of the attached interface.
		want plan.Reason
	}{
		"nothing else changes": {func(*render.Claim) {}, ""},
		"one more is wanted":   {func(c *render.Claim) { c.Interfaces = append(c.Interfaces, desiredInterface(1, 2, "s2")) }, ""},
		"it is to be replaced": {func(c *render.Claim) {
			c.ReplaceAllowed, c.ExactSlot = true, true
			c.Interfaces[0].Slot = eni.Slot{Device: 3}
		}, plan.InstanceOutsideCluster},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newMinimalEC2(limits(6))
			c := claim("a", desiredInterface(0, 1, "s1"))
			_, ledger := w.drive(desired(c), nil)
			before := w.ours()
			tc.then(&c)
			d := desired(c)
			d.InstanceTags = known()
			p := w.follow(d, ledger, 5, time.Minute)
			after := w.ours()
			if len(after) != 1 || after[0].ID != before[0].ID || !after[0].AttachedTo(instance) {
				t.Fatalf("interfaces %v became %v:\n%s", before, after, p.Explain())
			}
			if got := p.Members[0].Why.Reason; got != tc.want {
				t.Errorf("the reason is %q, want %q:\n%s", got, tc.want, p.Explain())
			}
		})
	}
}

// TestWhatWasMadeIsNotAttachedToAnInstanceOutside removes the tag between the calls that create and attach an
// interface. A deletion of the NodeENI still removes the interface.
func TestWhatWasMadeIsNotAttachedToAnInstanceOutside(t *testing.T) {
	w := newMinimalEC2(limits(4))
	w.instance.Tags = map[string]string{"eks:cluster-name": "blue"}
	d := desired(claim("a", desiredInterface(0, 1, "s1")))
	d.InstanceTags = known()
	made := compute(d, w.observe(nil), w.now)
	for _, action := range made.Actions {
		w.apply(action)
	}
	w.instance.Tags = nil
	if p := compute(d, w.observe(made.Ledger), w.now); len(p.Actions) > 0 || p.Members[0].Phase != plan.Blocked {
		t.Fatalf("want it blocked, and no calls:\n%s", p.Explain())
	}
	released := render.Claim{NodeENI: "a", Owner: "uid-a", Mode: render.Release, Why: "its NodeENI is being deleted"}
	d.Claims = []render.Claim{released}
	if w.follow(d, identity.Generations{}, 5, time.Minute); len(w.ours()) > 0 {
		t.Errorf("%v is left", w.ours())
	}
}
