// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package synctest_test

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/test/size"
	"github.com/multieni/multieni/test/synctest/bubble"
)

// slowestAttach is the slowest step of an interface without its wait in the queue: AttachNetworkInterface with the read
// that shows its end, the call that follows it and the reports.
const slowestAttach = 15 * time.Second

func TestColdStart(t *testing.T) {
	const members = 2
	nodes := size.Of(100, 200, 1000)
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.World())
		c.Declare("data", "a", "data")
		c.Declare("storage", "a", "storage")
		r := c.Start(c.Defaults())
		c.Join(nodes, "a")
		begun := time.Now()
		makespan := c.Converge(time.Hour)

		enis := nodes * members
		calls := c.EC2.Calls()
		limit := limitOf(enis)
		median := medianReady(c, begun)
		t.Logf("%d interfaces on %d nodes: %s; EC2's rates take %s (%.3f times); half of the nodes were ready after %s (%.2f of it); %.2f changing and %.2f reading calls per interface, %d throttled",
			enis, nodes, makespan, limit, makespan.Seconds()/limit.Seconds(), median, median.Seconds()/makespan.Seconds(),
			perENI(calls.Mutating, enis), perENI(calls.NonMutating, enis), calls.Mutating.Throttled)
		if most := limit*105/100 + slowestAttach; makespan > most {
			t.Errorf("it took %s, more than %s", makespan, most)
		}
		if most := limit*105/200 + slowestAttach; median > most {
			t.Errorf("half of the nodes were ready after %s, want at most %s: nodes are not finished one by one", median, most)
		}
		if calls.Mutating.Count != 3*enis || calls.Mutating.Throttled > 0 {
			t.Errorf("%d changing calls for %d interfaces, want 3 each; %d throttled", calls.Mutating.Count, enis, calls.Mutating.Throttled)
		}
		if late := r.Changes(begun.Add(makespan)); len(late) > 0 {
			t.Errorf("%d changing calls after all was well", len(late))
		}
		if observed := r.Metric("multieni_attach_duration_seconds"); observed != float64(enis) {
			t.Errorf("the metric of the time to attach has seen %g interfaces of %d", observed, enis)
		}
	})
}

// limitOf is the least time to attach that many interfaces at EC2's rates: each step has its own token bucket, and the
// slowest decides.
func limitOf(enis int) time.Duration {
	var longest float64
	for _, action := range []string{"CreateNetworkInterface", "AttachNetworkInterface", "ModifyNetworkInterfaceAttribute"} {
		bucket := awssim.DocumentedLimits()[action]
		longest = max(longest, (float64(enis)-float64(bucket.Capacity))/bucket.Refill)
	}
	return time.Duration(longest * float64(time.Second))
}

// medianReady returns how long after a time half of the nodes had all their interfaces.
func medianReady(c *bubble.Cluster, begun time.Time) time.Duration {
	c.Helper()
	var all v1alpha1.NetworkInterfaceList
	c.Must(c.User.List(c.Context(), &all))
	last := map[string]time.Duration{}
	for _, n := range all.Items {
		ready := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionReady).LastTransitionTime.Sub(begun)
		last[n.Spec.InstanceID] = max(last[n.Spec.InstanceID], ready)
	}
	took := slices.Collect(maps.Values(last))
	slices.Sort(took)
	return took[len(took)/2]
}

func perENI(calls awssim.Tally, enis int) float64 { return float64(calls.Count) / float64(enis) }

// A pod can use an interface before DeleteOnTermination is set.
func TestReadinessDoesNotWaitForDeleteOnTermination(t *testing.T) {
	const nodes = 10
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.World())
		c.Declare("data", "a", "data")
		c.Declare("storage", "a", "storage")
		c.Start(c.Defaults())
		_, err := c.EC2.AddFault(fault.Fault{Kind: fault.Throttle, Action: "ModifyNetworkInterfaceAttribute"})
		c.Must(err)
		c.Join(nodes, "a")
		time.Sleep(slowestAttach)

		var all v1alpha1.NetworkInterfaceList
		c.Must(c.User.List(c.Context(), &all))
		ready := 0
		for _, n := range all.Items {
			if meta.IsStatusConditionTrue(n.Status.Conditions, v1alpha1.ConditionReady) {
				ready++
			}
		}
		if ready != 2*nodes {
			t.Errorf("after %s %d interfaces are ready, want %d", slowestAttach, ready, 2*nodes)
		}
		c.EC2.ClearFaults()
		c.Converge(10 * time.Minute)
	})
}
