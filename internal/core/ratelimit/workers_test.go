// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ratelimit_test

import (
	"slices"
	"testing"

	"github.com/multieni/multieni/internal/core/ratelimit"
)

func TestWorkersBoundEachClassByItself(t *testing.T) {
	w := ratelimit.NewWorkers(4)
	if w.Width() != 4+2+2+1 {
		t.Errorf("got a width of %d, want 4 joining, 2 moves, 2 removals and 1 update", w.Width())
	}
	w = ratelimit.NewWorkers(1)
	join, joinToo, removal := ratelimit.Rank{Class: ratelimit.Attach, Name: "a"}, ratelimit.Rank{Class: ratelimit.Attach, Name: "b"}, ratelimit.Rank{Class: ratelimit.Removal, Name: "c"}
	for _, step := range []struct {
		name string
		rank ratelimit.Rank
		want bool
	}{
		{"the first node joins", join, true},
		{"the second waits", joinToo, false},
		{"a removal does not wait for them", removal, true},
		{"the first node keeps its worker", join, true},
	} {
		if got := w.TryAcquire(step.rank); got != step.want {
			t.Errorf("%s: got %v, want %v", step.name, got, step.want)
		}
	}
	if got := w.Release("a"); !slices.Equal(got, []string{"b"}) || !w.Holds("b") || w.Holds("a") {
		t.Errorf("after the first node: got %v, want b to have its worker", got)
	}
}

// TestDeferredWork has a node ask for more while its deferred work runs, and another one wait.
func TestDeferredWork(t *testing.T) {
	w := ratelimit.NewWorkers(1)
	a, b := ratelimit.Rank{Name: "a"}, ratelimit.Rank{Name: "b"}
	if !w.BeginDeferred(a) || w.BeginDeferred(a) || w.BeginDeferred(b) {
		t.Fatal("want the deferred work of one node, once")
	}
	if got := w.Release("a"); len(got) != 0 || !w.Holds("a") {
		t.Errorf("the end of the reconciliation admitted %v, want the deferred work to go on", got)
	}
	again, admitted := w.EndDeferred("a")
	if !again || !slices.Equal(admitted, []string{"b"}) {
		t.Errorf("got again %v and %v admitted, want true and b", again, admitted)
	}
	if !w.BeginDeferred(b) {
		t.Error("the admitted node cannot begin")
	}
	if again, _ := w.EndDeferred("b"); again {
		t.Error("a node that asked for nothing more is to be reconciled again")
	}
}
