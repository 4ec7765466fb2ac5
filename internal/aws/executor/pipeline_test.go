// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package executor_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
)

func slot(device int) eni.Slot { return eni.Slot{Device: device} }

func attach(ordinal, device int) plan.Call {
	return plan.Attach{Key: member(ordinal), InterfaceID: fmt.Sprintf("eni-%d", ordinal), Slot: slot(device)}
}

// TestOneInterfaceDoesNotWaitForAnother has calls for one interface that take a minute, and calls for another that take
// a second.
func TestOneInterfaceDoesNotWaitForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := cloud(func(_ context.Context, call string) error {
			time.Sleep(map[bool]time.Duration{true: time.Minute, false: time.Second}[strings.Contains(call, "eni-1")])
			return nil
		})
		p := executor.New(slow, silent{}, executor.Options{Members: 4, Removals: 1, Now: time.Now}).Pipeline()
		begun := time.Now()
		var ended atomic.Int32
		p.Start(t.Context(), []plan.Call{attach(1, 1), attach(2, 2)}, func() { ended.Add(1) })
		if len(p.InFlight()) != 2 {
			t.Errorf("under way are %v, want both", p.InFlight())
		}
		first := p.Next()
		if len(first) != 1 || first[0].Call.Of().Ordinal != 2 || time.Since(begun) != time.Second {
			t.Errorf("after %s ended %v, want the second one after 1s", time.Since(begun), first)
		}
		p.Start(t.Context(), []plan.Call{describe(2, "next")}, func() { ended.Add(1) })
		if left := p.InFlight(); len(left) != 2 || left[0].Of().Ordinal != 1 {
			t.Errorf("under way are %v, want the slow one and the next of the other", left)
		}
		second := p.Next()
		if len(second) != 1 || time.Since(begun) != 2*time.Second || !p.Busy() {
			t.Errorf("what follows it ended after %s: %v", time.Since(begun), second)
		}
		if last := p.Drain(); len(last) != 1 || time.Since(begun) != time.Minute || p.Busy() || ended.Load() != 2 {
			t.Errorf("after %s ended %v, and %d of 2 starts", time.Since(begun), last, ended.Load())
		}
	})
}
