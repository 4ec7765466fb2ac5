// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// TestWhatAnInstanceIsInNoStateFor has an instance in each state. The instance of a Node that has joined runs, although
// EC2 may still return it as pending.
func TestWhatAnInstanceIsInNoStateFor(t *testing.T) {
	cases := map[string]struct {
		state  eni.InstanceState
		joined bool
		acts   bool
	}{
		"running":                    {eni.InstanceRunning, true, true},
		"running, without a Node":    {eni.InstanceRunning, false, true},
		"stopped":                    {eni.InstanceStopped, true, true},
		"pending, and it has joined": {eni.InstancePending, true, true},
		"pending, without a Node":    {eni.InstancePending, false, false},
		"stopping":                   {eni.InstanceStopping, true, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newMinimalEC2(limits(4))
			ready := desired(claim("a", desiredInterface(0, 1, "s1")))
			made := compute(ready, w.observe(nil), w.now)
			w.instance.State = tc.state
			for _, step := range []string{"create", "attach"} {
				if step == "attach" {
					w.apply(made.Actions[0])
				}
				observed := w.observe(made.Ledger)
				observed.NodeRegistered = tc.joined
				p := compute(ready, observed, w.now)
				if acts := len(p.Actions) > 0; acts != tc.acts {
					t.Errorf("%s: %v, because %v", step, p.Actions, p.Members[0].Why)
				}
				if !tc.acts && (p.Members[0].Why.Reason != plan.InstanceNotReady || p.RequeueAt.IsZero()) {
					t.Errorf("%s: %v, and again at %s", step, p.Members[0].Why, p.RequeueAt)
				}
			}
		})
	}
}

// TestAnInstanceThatDoesNotRunAfterAll has EC2 refuse to attach to a pending instance: one that is started again has
// its Node from before. The planner retries soon.
func TestAnInstanceThatDoesNotRunAfterAll(t *testing.T) {
	w := newMinimalEC2(limits(4))
	ready := desired(claim("a", desiredInterface(0, 1, "s1")))
	made := compute(ready, w.observe(nil), w.now)
	w.apply(made.Actions[0])
	w.instance.State = eni.InstancePending
	observed := w.observe(made.Ledger)
	observed.NodeRegistered = true
	attach := compute(ready, observed, w.now).Actions[0]

	refused := &eni.APIError{Class: eni.WrongState, Message: "not running"}
	observed.Backoffs = map[identity.Key]plan.Backoff{attach.Of().Key: plan.Backoff{}.WithFailure(attach, refused, w.now)}
	p := compute(ready, observed, w.now)
	if len(p.Actions) > 0 || p.RequeueAt.Sub(w.now) != time.Second {
		t.Fatalf("%v, and again after %s", p.Actions, p.RequeueAt.Sub(w.now))
	}
	if again := compute(ready, observed, p.RequeueAt).Actions; len(again) == 0 || again[0] != attach {
		t.Errorf("then %v, want %v", again, attach)
	}
}
