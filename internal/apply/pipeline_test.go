// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package apply_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/eni"
	"github.com/multieni/multieni/internal/apply"
	"github.com/multieni/multieni/ownership"
	"github.com/multieni/multieni/plan"
)

func slot(device int) eni.Slot { return eni.Slot{Device: device} }

func attach(ordinal, device int) plan.Action {
	return plan.Attach{Member: member(ordinal), InterfaceID: fmt.Sprintf("eni-%d", ordinal), Slot: slot(device)}
}

func create(ordinal, device int) plan.Action {
	return plan.Create{Member: member(ordinal), SubnetID: "subnet-1", Slot: slot(device)}
}

// TestOneInterfaceDoesNotWaitForAnother has the calls for one interface take a minute, and those for another a second.
func TestOneInterfaceDoesNotWaitForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := cloud(func(_ context.Context, call string) error {
			time.Sleep(map[bool]time.Duration{true: time.Minute, false: time.Second}[strings.Contains(call, "eni-1")])
			return nil
		})
		p := apply.New(slow, silent{}, apply.Options{Members: 4, Removals: 1, Now: time.Now}).Pipeline()
		begun, ended := time.Now(), 0
		p.Start(t.Context(), []plan.Action{attach(1, 1), attach(2, 2)}, func() { ended++ })
		first := p.Next()
		if len(first) != 1 || first[0].Action.Of().Ordinal != 2 || time.Since(begun) != time.Second {
			t.Errorf("after %s ended %v, want the second one after 1s", time.Since(begun), first)
		}
		p.Start(t.Context(), []plan.Action{describe(2, "next")}, func() { ended++ })
		second := p.Next()
		if len(second) != 1 || time.Since(begun) != 2*time.Second || !p.Busy() {
			t.Errorf("what follows it ended after %s: %v", time.Since(begun), second)
		}
		if last := p.Drain(); len(last) != 1 || time.Since(begun) != time.Minute || p.Busy() || ended != 2 {
			t.Errorf("after %s ended %v, and %d of 2 starts", time.Since(begun), last, ended)
		}
	})
}

// TestWhatWaitsForCallsUnderWay has an interface being made for member 1 and one of member 2 being attached to slot 2.
func TestWhatWaitsForCallsUnderWay(t *testing.T) {
	cases := map[string]struct {
		action plan.Action
		ready  bool
	}{
		"the same create":                     {create(1, 1), false},
		"a call for what is being made":       {attach(1, 1), false},
		"the same attach":                     {attach(2, 2), false},
		"a change of what is being attached":  {describe(2, "a"), false},
		"another interface of that member":    {plan.Delete{Member: member(2), InterfaceID: "eni-9"}, true},
		"another member to the same slot":     {attach(3, 2), false},
		"another member to another slot":      {attach(3, 3), true},
		"the making of another interface":     {create(3, 3), true},
		"a change of an interface that waits": {describe(3, "a"), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answer := make(chan struct{})
				hangs := cloud(func(context.Context, string) error { <-answer; return nil })
				p := apply.New(hangs, silent{}, apply.Options{Members: 4, Removals: 1, Now: time.Now}).Pipeline()
				p.Start(t.Context(), []plan.Action{create(1, 1), attach(2, 2)}, func() {})
				if diff := cmp.Diff(map[ownership.Key]eni.Slot{member(1).Key: slot(1), member(2).Key: slot(2)}, p.Slots()); diff != "" {
					t.Errorf("slots of calls under way (-want +got):\n%s", diff)
				}
				if ready := p.Ready([]plan.Action{tc.action}); (len(ready) == 1) != tc.ready {
					t.Errorf("it may begin: %t, want %t", len(ready) == 1, tc.ready)
				}
				close(answer)
				p.Drain()
				if ready := p.Ready([]plan.Action{tc.action}); len(ready) != 1 || len(p.Slots()) != 0 {
					t.Errorf("it still waits when nothing is under way; slots %v", p.Slots())
				}
			})
		})
	}
}
