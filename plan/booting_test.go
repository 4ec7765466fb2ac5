// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	"github.com/multieni/multieni/eni"
	"github.com/multieni/multieni/plan"
)

// A Node that has just joined is on an instance that runs, whatever EC2 still shows; one that is stopped may stay so.
func TestWhenAnInstanceIsLookedAtAgain(t *testing.T) {
	cases := map[eni.InstanceState]time.Duration{
		eni.InstancePending:  400 * time.Millisecond,
		eni.InstanceStopping: 15 * time.Second,
	}
	for state, after := range cases {
		t.Run(string(state), func(t *testing.T) {
			w := newWorld(limits(4))
			w.instance.State = state
			p := plan.Compute(desired(claim("a", wish(0, 1, "s1"))), w.observe(nil), w.now)
			if len(p.Actions) > 0 || p.Members[0].Why.Reason != plan.InstanceNotReady {
				t.Fatalf("%v: %v", p.Members[0].Why, p.Actions)
			}
			if got := p.LookAgain.Sub(w.now); got != after {
				t.Errorf("after %s, want %s", got, after)
			}
		})
	}
}
