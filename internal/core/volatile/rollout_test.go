// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package volatile_test

import (
	"slices"
	"testing"

	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/volatile"
)

func TestInFlightCreates(t *testing.T) {
	var c volatile.InFlightCreates
	two := []plan.Action{createIn("subnet-1"), plan.Attach{}, createIn("subnet-2")}
	if creates, before := c.Begin(two); creates != 2 || before != 0 {
		t.Errorf("first: got %d creates after %d, want 2 after 0", creates, before)
	}
	if creates, before := c.Begin(two[:1]); creates != 1 || before != 2 {
		t.Errorf("second: got %d creates after %d, want 1 after 2", creates, before)
	}
	c.End(2)
	if c.Count() != 1 {
		t.Errorf("got %d in flight, want 1", c.Count())
	}
}

func TestReplacements(t *testing.T) {
	type step struct {
		name, id    string
		limit       int
		unavailable []string
		want        bool
	}
	cases := map[string][]step{
		"an instance keeps its permission, also while it is unavailable itself": {
			{"the first instance may", "i-1", 1, nil, true},
			{"it may still", "i-1", 1, []string{"i-1"}, true},
			{"the second waits", "i-2", 1, []string{"i-1"}, false},
		},
		"unavailable instances count": {
			{"another instance is unavailable", "i-1", 1, []string{"i-2"}, false},
			{"two may be", "i-1", 2, []string{"i-2"}, true},
		},
		"a lower limit ends the permission of one instance": {
			{"two may, and the first is one", "i-1", 2, nil, true},
			{"so is the second", "i-2", 2, nil, true},
			{"one may, and the first loses its permission", "i-1", 1, nil, false},
			{"the second keeps its own", "i-2", 1, nil, true},
			{"the first waits", "i-1", 1, nil, false},
		},
	}
	for name, steps := range cases {
		t.Run(name, func(t *testing.T) {
			var r volatile.Replacements
			for _, s := range steps {
				if got := r.Acquire("uid", s.id, s.limit, s.unavailable); got != s.want {
					t.Errorf("%s: got %v, want %v", s.name, got, s.want)
				}
			}
		})
	}
}

func TestReleaseLetsTheNextInstanceReplace(t *testing.T) {
	var r volatile.Replacements
	r.Acquire("uid-a", "i-1", 1, nil)
	r.Acquire("uid-b", "i-1", 1, nil)
	r.Release("i-1")
	for _, uid := range []string{"uid-a", "uid-b"} {
		if !r.Acquire(uid, "i-2", 1, nil) {
			t.Errorf("NodeENI %s: the next instance may not replace", uid)
		}
	}
}

func TestReleaseKeepsThePermissionsOfRolloutsThatGoOn(t *testing.T) {
	var r volatile.Replacements
	r.Acquire("uid-a", "i-1", 1, nil)
	r.Acquire("uid-b", "i-1", 1, nil)
	r.Release("i-1", "uid-b")
	for uid, want := range map[string]bool{"uid-a": true, "uid-b": false} {
		if got := r.Acquire(uid, "i-2", 1, nil); got != want {
			t.Errorf("NodeENI %s: the next instance may replace: %t, want %t", uid, got, want)
		}
	}
}

// TestForgottenInstancesReplaceNothing forgets one of two replacing instances.
func TestForgottenInstancesReplaceNothing(t *testing.T) {
	var s volatile.State
	s.Replacements.Acquire("uid", "i-1", 2, nil)
	s.Replacements.Acquire("uid", "i-2", 2, nil)
	s.ForgetInstance("i-1")
	if got := s.Replacements.Of("uid"); !slices.Equal(got, []string{"i-2"}) {
		t.Errorf("got %v, want i-2", got)
	}
}
