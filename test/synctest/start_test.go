// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package synctest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/test/synctest/bubble"
)

// The slowest step of an interface that is not the wait for its turn: what AttachNetworkInterface may take, with the
// reading that notices, the call that follows it and the reports.
const slowestAttach = 15 * time.Second

func TestColdStart(t *testing.T) {
	const members = 2
	nodes := scaled(200, 1000)
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.World())
		c.Declare("data", "a", "data")
		c.Declare("storage", "a", "storage")
		o := c.Defaults()
		r := c.Start(o)
		c.Join(nodes, "a")
		begun := time.Now()
		makespan := c.Converge(time.Hour)

		enis := nodes * members
		calls := c.EC2.Calls()
		limit := limitOf(enis, o.EC2Share)
		t.Logf("%d interfaces on %d nodes: %s; at a share of %g of EC2's rates it cannot be less than %s (%.2f times); %.2f changing and %.2f reading calls per interface, %d throttled",
			enis, nodes, makespan, o.EC2Share, limit.Round(time.Second), makespan.Seconds()/limit.Seconds(),
			perENI(calls.Mutating, enis), perENI(calls.NonMutating, enis), calls.Mutating.Throttled)
		if most := limit*11/10 + slowestAttach; makespan > most {
			t.Errorf("it took %s, more than %s", makespan, most)
		}
		if calls.Mutating.Count != 3*enis {
			t.Errorf("%d changing calls for %d interfaces, want 3 each", calls.Mutating.Count, enis)
		}
		if late := r.Changes(begun.Add(makespan)); len(late) > 0 {
			t.Errorf("%d changing calls after all was well", len(late))
		}
	})
}

// limitOf is how long EC2's own rates make it take to attach so many interfaces: each step has its bucket, and the
// slowest decides.
func limitOf(enis int, share float64) time.Duration {
	var longest float64
	for _, action := range []string{"CreateNetworkInterface", "AttachNetworkInterface", "ModifyNetworkInterfaceAttribute"} {
		bucket := awssim.DocumentedLimits()[action]
		longest = max(longest, (float64(enis)-share*float64(bucket.Capacity))/(share*bucket.Refill))
	}
	return time.Duration(longest * float64(time.Second))
}

func perENI(calls awssim.Tally, enis int) float64 { return float64(calls.Count) / float64(enis) }
