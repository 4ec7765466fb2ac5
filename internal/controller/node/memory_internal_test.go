// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// TestMemoryShrinks with what it is about: a controller lives longer than any node, instance and NodeENI.
func TestMemoryShrinks(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	cases := map[string]func() int{
		"the shortage of a NodeENI that is gone": func() int {
			var s fullSubnets
			create := plan.Create{Member: identity.Member{Key: identity.Key{NodeENIUID: "uid"}}, SubnetID: "subnet-1"}
			s.note(create, &eni.APIError{Class: eni.NoAddresses}, now)
			if len(s.known(now)) != 1 {
				t.Error("the shortage is not known")
			}
			return len(s.known(now.Add(time.Hour)))
		},
		"the wait of an instance that nobody plans for": func() int {
			var w attachLatency
			w.note("node-1", "i-1", []plan.Member{{Desired: true, Phase: plan.Pending}}, now)
			w.keep("node-1", nil)
			return len(w.since)
		},
		"the doubt about a node that is gone": func() int {
			var d staleNodes
			d.add("node-1")
			d.forget("node-1")
			return len(d.nodes)
		},
		"the doubt that was settled": func() int {
			var d staleNodes
			d.add("node-1")
			for _, at := range []time.Time{now, now.Add(staleCheckInterval)} {
				d.take("node-1", at)
			}
			return len(d.nodes)
		},
		"what was said of a Node that is gone": func() int {
			var s skippedNodes
			s.isNew("node-1", skip{})
			s.forget("node-1")
			return len(s.said)
		},
		"a write that was put off": func() int {
			var d statusDeferrals
			d.due("node-1", attachStatusDelay, now)
			d.end("node-1")
			return len(d.since)
		},
	}
	for name, left := range cases {
		t.Run(name, func(t *testing.T) {
			if n := left(); n != 0 {
				t.Errorf("%d are remembered", n)
			}
		})
	}
}

// TestALowerLimitEndsTurns has two nodes with a turn to replace, neither of which has begun, when maxUnavailable falls to one.
func TestALowerLimitEndsTurns(t *testing.T) {
	var r replacements
	steps := []struct {
		name, node string
		limit      int
		want       bool
	}{
		{"two may, and the first gets a turn", "node-1", 2, true},
		{"so does the second", "node-2", 2, true},
		{"one may, and the first loses its turn", "node-1", 1, false},
		{"the second keeps its own", "node-2", 1, true},
		{"the first waits", "node-1", 1, false},
	}
	for _, step := range steps {
		if got := r.acquire("uid", step.node, step.limit, nil); got != step.want {
			t.Errorf("%s: got %v, want %v", step.name, got, step.want)
		}
	}
	r.release("node-2")
	if !r.acquire("uid", "node-1", 1, nil) {
		t.Error("the first gets no turn after the second has ended its own")
	}
}
