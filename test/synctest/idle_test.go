// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package synctest_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/test/size"
	"github.com/multieni/multieni/test/synctest/bubble"
)

// TestIdleDay is a day on which nothing happens.
func TestIdleDay(t *testing.T) {
	const (
		members = 2
		day     = 24 * time.Hour
		// pageSize is the largest number of interfaces in one answer of EC2.
		pageSize = 1000
		// slack is how many reads an hour may have in addition to resyncs: each NodeENI resolves its subnets and groups
		// every half hour.
		slack = 12
	)
	nodes := size.Of(5, 20, 1000)
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.World())
		c.Declare("data", "a", "data")
		c.Declare("storage", "a", "storage")
		o := c.Defaults()
		r := c.Start(o)
		c.Join(nodes, "a")
		c.Converge(time.Hour)
		time.Sleep(time.Hour)
		synctest.Wait()

		c.EC2.ResetCalls()
		before, goroutines := versions(c), runtime.NumGoroutine()
		time.Sleep(day)
		synctest.Wait()

		calls := c.EC2.Calls()
		pages := (nodes*members + pageSize - 1) / pageSize
		perHour := float64(calls.NonMutating.Count) / day.Hours()
		most := float64(pages)*(time.Hour.Seconds()/o.ResyncPeriod.Seconds()) + slack
		t.Logf("a day with %d interfaces: %d changing calls, %.1f reading ones per hour (at most %.0f), %d goroutines before and %d after",
			nodes*members, calls.Mutating.Count, perHour, most, goroutines, runtime.NumGoroutine())
		if calls.Mutating.Count > 0 {
			t.Errorf("%d changing calls: %v", calls.Mutating.Count, r.Changes(calls.Since))
		}
		if perHour > most {
			t.Errorf("%.1f reading calls per hour, want at most %.0f: %v", perHour, most, calls.Actions)
		}
		if diff := gocmp.Diff(before, versions(c)); diff != "" {
			t.Errorf("objects were written to (-before +after):\n%s", diff)
		}
		if more := runtime.NumGoroutine() - goroutines; more > 2 {
			t.Errorf("%d goroutines more than before", more)
		}
	})
}

// versions returns the resource versions of all objects that a controller writes, except its lease.
func versions(c *bubble.Cluster) map[string]string {
	c.Helper()
	versions := map[string]string{}
	note := func(kind string, object client.Object) {
		versions[kind+" "+object.GetNamespace()+"/"+object.GetName()] = object.GetResourceVersion()
	}
	var nodes corev1.NodeList
	c.Must(c.User.List(c.Context(), &nodes))
	for n := range nodes.Items {
		note("Node", &nodes.Items[n])
	}
	var nodeENIs v1alpha1.NodeENIList
	c.Must(c.User.List(c.Context(), &nodeENIs))
	for n := range nodeENIs.Items {
		note("NodeENI", &nodeENIs.Items[n])
	}
	var interfaces v1alpha1.NetworkInterfaceList
	c.Must(c.User.List(c.Context(), &interfaces))
	for n := range interfaces.Items {
		note("NetworkInterface", &interfaces.Items[n])
	}
	return versions
}
