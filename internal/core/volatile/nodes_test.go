// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package volatile_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/volatile"
)

func TestStaleNodesBoundTheReadsOfOneInstance(t *testing.T) {
	const interval = volatile.StaleCheckInterval
	var s volatile.StaleNodes
	steps := []struct {
		name    string
		add     bool
		after   time.Duration
		want    bool
		requeue time.Duration // 0 for none
	}{
		{"no agent misses a link", false, 0, false, 0},
		{"an agent misses one", true, 0, true, interval},
		{"the first read may have been stale", false, time.Second, false, interval},
		{"the second one follows", false, interval, true, 0},
		{"both were made", false, interval + time.Second, false, 0},
		{"the agent misses it again at once", true, interval + 2*time.Second, false, 2 * interval},
		{"the node stays stale until the interval is over", false, 2 * interval, true, 3 * interval},
		{"and is read a second time", false, 3 * interval, true, 0},
	}
	for _, step := range steps {
		if step.add {
			s.Add("node-1")
		}
		var want time.Time
		if step.requeue > 0 {
			want = start.Add(step.requeue)
		}
		if got, requeueAt := s.Take("node-1", start.Add(step.after)); got != step.want || !requeueAt.Equal(want) {
			t.Errorf("%s: got %v and requeue at %v, want %v and %v", step.name, got, requeueAt, step.want, want)
		}
	}
	s.Take("node-1", start.Add(4*interval))
	if left, none := fmt.Sprint(s), fmt.Sprint(volatile.StaleNodes{}); left != none {
		t.Errorf("after the interval a node that was read is kept: %s", left)
	}
	s.Add("node-1")
	s.Forget("node-1")
	if stale, _ := s.Take("node-1", start.Add(time.Hour)); stale {
		t.Error("a node that no longer exists is stale")
	}
}

func TestInstanceLocks(t *testing.T) {
	var l volatile.InstanceLocks
	steps := []struct {
		name, node string
		want       bool
	}{
		{"the instance is free", "node-1", true},
		{"another node cannot lock it", "node-2", false},
		{"the node that has it can", "node-1", true},
	}
	for _, step := range steps {
		if got := l.TryLock("i-1", step.node); got != step.want {
			t.Errorf("%s: got %v, want %v", step.name, got, step.want)
		}
	}
	if l.Unlock("i-1"); !l.TryLock("i-1", "node-2") {
		t.Error("an unlocked instance cannot be locked")
	}
}

func TestSkippedNodesReportAReasonOnce(t *testing.T) {
	var s volatile.SkippedNodes
	reason := volatile.Skip{NodeUID: "uid-node", NodeENIUID: "uid", Why: "it is no instance"}
	other := volatile.Skip{NodeUID: "uid-node-again", NodeENIUID: "uid", Why: "it is no instance"}
	if !s.Report("node-1", reason) || s.Report("node-1", reason) || !s.Report("node-1", other) {
		t.Error("want each reason to be new once")
	}
	if s.Forget("node-1"); !s.Report("node-1", reason) {
		t.Error("after the node was served the reason is not new")
	}
}

func TestDeferralsCountFromTheFirstChange(t *testing.T) {
	var d volatile.Deferrals
	d.Due("node-1", 10*time.Second, start)
	later := start.Add(5 * time.Second)
	if due := d.Due("node-1", 10*time.Second, later); !due.Equal(start.Add(10 * time.Second)) {
		t.Errorf("the second change moved the write to %v", due)
	}
	d.End("node-1")
	if due := d.Due("node-1", 10*time.Second, later); !due.Equal(later.Add(10 * time.Second)) {
		t.Errorf("after a write the delay begins at %v", due)
	}
}

// TestAttachLatency plays plans of one instance, five seconds apart.
func TestAttachLatency(t *testing.T) {
	member := func(phase plan.Phase, reason plan.Reason) plan.Member {
		return plan.Member{Member: identity.Member{Key: key}, Desired: true, Phase: phase, Why: plan.Problem{Reason: reason}}
	}
	pending, attached, blocked := member(plan.Pending, ""), member(plan.Attached, ""), member(plan.Blocked, plan.Unauthorized)
	unwanted := attached
	unwanted.Desired = false
	cases := map[string]struct {
		plans []plan.Member
		want  []time.Duration
	}{
		"from the first plan that lacks it":           {[]plan.Member{pending, pending, attached}, []time.Duration{10 * time.Second}},
		"once":                                        {[]plan.Member{pending, attached, attached}, []time.Duration{5 * time.Second}},
		"not what the first plan finds attached":      {[]plan.Member{attached}, nil},
		"from the time at which the person has acted": {[]plan.Member{pending, blocked, pending, attached}, []time.Duration{5 * time.Second}},
		"not what is attached and no longer declared": {[]plan.Member{pending, unwanted}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var l volatile.AttachLatency
			var got []time.Duration
			for n, m := range tc.plans {
				got = append(got, l.Record("node-1", "i-1", []plan.Member{m}, start.Add(time.Duration(n)*5*time.Second))...)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("latencies (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("not of an instance that the node no longer has", func(t *testing.T) {
		var l volatile.AttachLatency
		l.Record("node-1", "i-1", []plan.Member{pending}, start)
		l.Keep("node-1", []string{"i-2"})
		if got := l.Record("node-1", "i-1", []plan.Member{attached}, start.Add(time.Minute)); len(got) != 0 {
			t.Errorf("got %v", got)
		}
	})
}

// TestStateShrinks fills the state for one node, instance and NodeENI, and then ends all of them, because a controller
// outlives them.
func TestStateShrinks(t *testing.T) {
	var s volatile.State
	s.Attempts.Record("i-1", createIn("subnet-1"), &eni.APIError{Class: eni.Transient}, start)
	s.FullSubnets.Record(createIn("subnet-1"), full, start)
	creates, _ := s.Creates.Begin([]plan.Action{createIn("subnet-1")})
	s.Replacements.Acquire("uid", "node-1", 1, nil)
	s.StaleNodes.Add("node-1")
	s.InstanceLocks.TryLock("i-1", "node-1")
	s.AttachLatency.Record("node-1", "i-1", []plan.Member{{Desired: true, Phase: plan.Pending}}, start)
	s.SkippedNodes.Report("node-1", volatile.Skip{})
	s.StatusWrites.Due("node-1", time.Minute, start)
	s.LedgerWrites.Due("node-1", time.Minute, start)

	s.ForgetInstance("i-1")
	s.FullSubnets.Known(start.Add(time.Hour))
	s.Creates.End(creates)
	s.Replacements.Release("node-1")
	s.StaleNodes.Forget("node-1")
	s.InstanceLocks.Unlock("i-1")
	s.AttachLatency.Keep("node-1", nil)
	s.SkippedNodes.Forget("node-1")
	s.StatusWrites.End("node-1")
	s.LedgerWrites.End("node-1")
	if left := fmt.Sprint(s); left != fmt.Sprint(volatile.State{}) {
		t.Errorf("left: %s", left)
	}
}
