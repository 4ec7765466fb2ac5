// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
)

// TestWhatAnotherNodeHas releases an instance, and expects a ledger with only the members that may become visible.
func TestWhatAnotherNodeHas(t *testing.T) {
	key, now := identity.Key{Owner: "uid-a"}, start
	generation := identity.GenerationAt(now)
	made := func(generation identity.Generation) []inventory.Record {
		return []inventory.Record{{Member: identity.Member{Key: key, Generation: generation}}}
	}
	cases := map[string]struct {
		o     plan.Observed
		after time.Duration
		stays bool
	}{
		"nothing is known of it":           {stays: true},
		"nothing was heard of it for long": {after: inventory.VisibilityWindow},
		"it was started anew a minute ago": {o: plan.Observed{ObservedSince: now.Add(time.Hour)}, after: time.Hour + time.Minute, stays: true},
		"it exists, attached to nothing":   {o: plan.Observed{Owned: made(generation)}, stays: true},
		"it exists in the other ledger":    {o: plan.Observed{Owned: made(generation), OtherLedgers: identity.Generations{key: generation}}},
		"the one before it exists":         {o: plan.Observed{Owned: made(generation - 1)}, stays: true},
		"it is gone":                       {o: plan.Observed{UsedGenerations: identity.Generations{key: generation}}},
		"its creation failed a minute ago": {o: plan.Observed{Backoffs: map[identity.Key]plan.Backoff{key: {At: now.Add(time.Hour)}}}, after: time.Hour + time.Minute, stays: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.o.Ledger = identity.Generations{key: generation}
			p := plan.ReleaseInstance(tc.o, now.Add(tc.after))
			if _, stays := p.Ledger[key]; stays != tc.stays || p.RequeueAt.IsZero() == stays {
				t.Errorf("the ledger is %v, and is looked at again at %s", p.Ledger, p.RequeueAt)
			}
			if len(p.Actions) > 0 || len(tc.o.Ledger) != 1 {
				t.Errorf("actions %v; what was given is %v now", p.Actions, tc.o.Ledger)
			}
		})
	}
}
