// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package volatile_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/volatile"
)

func TestStaleInstancesBoundTheReadsOfOneInstance(t *testing.T) {
	const interval = volatile.StaleCheckInterval
	var s volatile.StaleInstances
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
		{"the instance stays stale until the interval is over", false, 2 * interval, true, 3 * interval},
		{"and is read a second time", false, 3 * interval, true, 0},
	}
	for _, step := range steps {
		if step.add {
			s.Add("i-1")
		}
		var want time.Time
		if step.requeue > 0 {
			want = start.Add(step.requeue)
		}
		if got, requeueAt := s.Take("i-1", start.Add(step.after)); got != step.want || !requeueAt.Equal(want) {
			t.Errorf("%s: got %v and requeue at %v, want %v and %v", step.name, got, requeueAt, step.want, want)
		}
	}
	s.Take("i-1", start.Add(4*interval))
	if left, none := fmt.Sprint(s), fmt.Sprint(volatile.StaleInstances{}); left != none {
		t.Errorf("after the interval an instance that was read is kept: %s", left)
	}
	s.Add("i-1")
	s.Forget("i-1")
	if stale, _ := s.Take("i-1", start.Add(time.Hour)); stale {
		t.Error("an instance without objects is stale")
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

func TestDeferredStatusesCountFromTheFirstChange(t *testing.T) {
	var o volatile.Objects
	o.Due("uid", 10*time.Second, start)
	later := start.Add(5 * time.Second)
	if due := o.Due("uid", 10*time.Second, later); !due.Equal(start.Add(10 * time.Second)) {
		t.Errorf("the second change moved the write to %v", due)
	}
	o.Written("uid")
	if due := o.Due("uid", 10*time.Second, later); !due.Equal(later.Add(10 * time.Second)) {
		t.Errorf("after a write the delay begins at %v", due)
	}
}

func TestObjectsOfTheFirstListAreInherited(t *testing.T) {
	var o volatile.Objects
	if o.Listed() {
		t.Error("there is a first list before it was recorded")
	}
	o.List([]identity.UID{"uid-1"})
	if !o.Listed() || !o.Inherited("uid-1") || o.Inherited("uid-2") {
		t.Error("want only what the first list has")
	}
	if o.Forget("uid-1"); o.Inherited("uid-1") {
		t.Error("an object that no longer exists is inherited")
	}
}

func TestDeletionsAreSeenInOrder(t *testing.T) {
	var o volatile.Objects
	first, second := o.SeeDeleting("uid-1"), o.SeeDeleting("uid-2")
	if again := o.SeeDeleting("uid-1"); first >= second || again != first || o.Seen() != second {
		t.Errorf("got %d, %d and %d again; the last is %d", first, second, again, o.Seen())
	}
	if o.SeeLive("uid-1"); o.SeeDeleting("uid-1") <= second {
		t.Error("the deletion of an object that a restored etcd returned counts as the first one")
	}
}

// TestARecordIsExpected: until the cache shows another version, the object has an interface that it does not name.
func TestARecordIsExpected(t *testing.T) {
	var o volatile.Objects
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	o.Record("uid-1", "7", false, now)
	switch {
	case !o.LacksRecord("uid-1", "7", now.Add(time.Second)):
		t.Error("the same version has the record")
	case o.LacksRecord("uid-1", "8", now), o.LacksRecord("uid-2", "7", now):
		t.Error("another version, or another object, lacks it")
	case o.LacksRecord("uid-1", "7", now.Add(time.Minute)):
		t.Error("a write that never arrived is awaited for ever")
	}
	o.Record("uid-1", "7", true, now)
	switch {
	case !o.LacksRecord("uid-1", "7", now.Add(5*time.Minute)):
		t.Error("a cache that is minutes behind has the record")
	case o.LacksRecord("uid-1", "7", now.Add(10*time.Minute)):
		t.Error("a write that a restored etcd lost is awaited for ever")
	}
	o.Forget("uid-1")
	if o.LacksRecord("uid-1", "7", now) {
		t.Error("an object that no longer exists is awaited")
	}
}
