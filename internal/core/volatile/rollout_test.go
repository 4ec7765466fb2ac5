// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package volatile_test

import (
	"fmt"
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
		name, node  string
		limit       int
		unavailable []string
		want        bool
	}
	cases := map[string][]step{
		"a node keeps its permission, also while it is unavailable itself": {
			{"the first node may", "node-1", 1, nil, true},
			{"it may still", "node-1", 1, []string{"node-1"}, true},
			{"the second waits", "node-2", 1, []string{"node-1"}, false},
		},
		"unavailable nodes count": {
			{"another node is unavailable", "node-1", 1, []string{"node-2"}, false},
			{"two may be", "node-1", 2, []string{"node-2"}, true},
		},
		"a lower limit ends the permission of one node": {
			{"two may, and the first is one", "node-1", 2, nil, true},
			{"so is the second", "node-2", 2, nil, true},
			{"one may, and the first loses its permission", "node-1", 1, nil, false},
			{"the second keeps its own", "node-2", 1, nil, true},
			{"the first waits", "node-1", 1, nil, false},
		},
	}
	for name, steps := range cases {
		t.Run(name, func(t *testing.T) {
			var r volatile.Replacements
			for _, s := range steps {
				if got := r.Acquire("uid", s.node, s.limit, s.unavailable); got != s.want {
					t.Errorf("%s: got %v, want %v", s.name, got, s.want)
				}
			}
		})
	}
}

func TestReleaseLetsTheNextNodeReplace(t *testing.T) {
	var r volatile.Replacements
	r.Acquire("uid-a", "node-1", 1, nil)
	r.Acquire("uid-b", "node-1", 1, nil)
	r.Release("node-1")
	for _, uid := range []string{"uid-a", "uid-b"} {
		if !r.Acquire(uid, "node-2", 1, nil) {
			t.Errorf("NodeENI %s: the next node may not replace", uid)
		}
	}
}

func TestTransferKeepsTheNextNodeWaiting(t *testing.T) {
	var r volatile.Replacements
	r.Acquire("uid", "node-1", 1, nil)
	r.Transfer("node-1", "renamed")
	r.Release("node-1")
	if r.Acquire("uid", "node-2", 1, nil) {
		t.Error("the next node may replace while the renamed one does")
	}
	r.Release("renamed")
	if !r.Acquire("uid", "node-2", 1, nil) {
		t.Error("the next node may not replace after the renamed one")
	}
}

func TestRampAdmissionsCountServedAndAdmittedNodes(t *testing.T) {
	var a volatile.RampAdmissions
	if a.Admit("uid", "node-1", 10) {
		t.Error("a ramp that has not begun admits a node")
	}
	a.Begin("uid", 1, []string{"node-1", "node-2"})
	for _, step := range []struct {
		node string
		want bool
	}{{"node-1", true}, {"node-3", true}, {"node-4", false}, {"node-3", true}} {
		if got := a.Admit("uid", step.node, 3); got != step.want {
			t.Errorf("%s: got %v, want %v", step.node, got, step.want)
		}
	}
}

// TestAnEarlierGenerationDoesNotEndARamp has a reconciliation that began before the change of the NodeENI between all
// admissions: it has the NodeENI without its ramp.
func TestAnEarlierGenerationDoesNotEndARamp(t *testing.T) {
	const uid, before, after, limit = "uid-a", 1, 2, 50
	var a volatile.RampAdmissions
	a.Begin(uid, after, nil)
	admitted := 0
	for n := range 2 * limit {
		if a.Admit(uid, fmt.Sprintf("node-%d", n), limit) {
			admitted++
		}
		if a.End(uid, before); !a.Begun(uid) {
			a.Begin(uid, after, nil)
		}
	}
	if admitted != limit {
		t.Errorf("%d nodes were admitted, want %d", admitted, limit)
	}
	if a.End(uid, after); a.Begun(uid) {
		t.Error("it does not end with its own generation")
	}
}
