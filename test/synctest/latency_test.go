// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package synctest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/test/synctest/bubble"
)

// callsTakeTime is a world in which calls take the time that operators measured.
func callsTakeTime() bubble.Latencies {
	return bubble.Latencies{EC2: ec2.CallLatencies(), Kubernetes: 10 * time.Millisecond}
}

// TestInterfacesOfANodeDoNotWaitForEachOther lets nodes join one by one. Each gets two interfaces that request the same
// device index. The test counts the nodes for which the calls for one interface waited for those for the other.
func TestInterfacesOfANodeDoNotWaitForEachOther(t *testing.T) {
	const nodes = 20
	synctest.Test(t, func(t *testing.T) {
		c := bubble.NewWithLatencies(t, bubble.World(), callsTakeTime())
		c.Declare("data", "a", "data")
		c.Declare("storage", "a", "storage")
		r := c.Start(c.Defaults())
		for range nodes {
			c.Join(1, "a")
			c.Converge(time.Minute)
		}
		calls := c.EC2.Calls()
		if failed := calls.Actions["AttachNetworkInterface"].Failed; failed > 0 || calls.Mutating.Count != 3*2*nodes {
			t.Errorf("%d calls for %d interfaces, want 3 each; %d attachments failed", calls.Mutating.Count, 2*nodes, failed)
		}
		created := map[string]time.Time{} // when the last interface of an instance was made
		early := map[string]bool{}        // instances one of whose interfaces was attached before
		for _, call := range r.Changes(time.Time{}) {
			if call.Action == "CreateNetworkInterface" && call.Answered.After(created[call.Instance]) {
				created[call.Instance] = call.Answered
			}
		}
		for _, call := range r.Changes(time.Time{}) {
			if call.Action == "AttachNetworkInterface" && call.At.Before(created[call.Instance]) {
				early[call.Instance] = true
			}
		}
		if len(early) < nodes*3/4 {
			t.Errorf("on %d of %d nodes an interface was attached before the other one was made", len(early), nodes)
		}
	})
}

// TestRemovalFollowsEC2sRate removes the interfaces of many nodes at once: calls that take several hundred milliseconds
// do not keep the fleet below EC2's rate.
func TestRemovalFollowsEC2sRate(t *testing.T) {
	const nodes = 100
	synctest.Test(t, func(t *testing.T) {
		c := bubble.NewWithLatencies(t, bubble.World(), callsTakeTime())
		n := c.Declare("data", "a", "data")
		r := c.Start(c.Defaults())
		c.Join(nodes, "a")
		c.Converge(10 * time.Minute)
		begun := time.Now()
		c.Must(c.User.Delete(c.Context(), n))
		c.Converge(10 * time.Minute)
		var last time.Time
		for _, call := range r.Changes(begun) {
			if call.Action == "DetachNetworkInterface" {
				last = call.At
			}
		}
		// The token bucket holds 50, and the controller uses 70 % of them at first. It refills 5 per second, and the
		// controller uses 70 % and then more.
		if took := last.Sub(begun); took > 22*time.Second {
			t.Errorf("%d interfaces were detached in %s", nodes, took)
		}
	})
}
