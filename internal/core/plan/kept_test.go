// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	"github.com/multieni/multieni/internal/core/plan"
)

// TestAKeptObjectTakesOver says that an object reads EC2 again until it knows its interface, also if it makes none.
func TestAKeptObjectTakesOver(t *testing.T) {
	kept := object(plan.Keep, 0, 1, "")
	f := facts(on(instance, "eni-1", 1, kept))
	f.Era.Since, f.Snapshot = start, nil
	young := plan.Compute([]plan.Interface{kept}, f, start)
	if young.NeedsRead || !young.Next.Equal(f.Era.SettledAt()) {
		t.Errorf("before a read can be settled: read %t, next %v", young.NeedsRead, young.Next)
	}
	if later := plan.Compute([]plan.Interface{kept}, f, f.Era.SettledAt()); !later.NeedsRead {
		t.Error("no read although one is settled")
	}
	f.Interfaces[0].LastRead = f.Era.SettledAt()
	taken := plan.Compute([]plan.Interface{kept}, f, f.Era.SettledAt())
	if s := taken.Interfaces[0]; s.Evidence != plan.TakenOver || s.Interface == nil || s.Interface.ID != "eni-1" {
		t.Errorf("the object takes over %+v", s)
	}
}

// TestTwoInterfacesOfOneUIDWaitForAPerson says so, without a hot loop.
func TestTwoInterfacesOfOneUIDWaitForAPerson(t *testing.T) {
	served := object(plan.Serve, 0, 1, "")
	got := plan.Compute([]plan.Interface{served},
		facts(on(instance, "eni-1", 1, served), unattached("eni-2", served)), start)
	s := got.Interfaces[0]
	if s.Problem.Reason != plan.NotImported || len(got.Calls) > 0 || got.Next.Before(start.Add(time.Minute)) {
		t.Errorf("%+v, calls %v, next %v", s.Problem, got.Calls, got.Next.Sub(start))
	}
}
