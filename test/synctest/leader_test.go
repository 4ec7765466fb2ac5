// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package synctest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/multieni/multieni/test/synctest/bubble"
)

// TestLeaderIsLost loses the leader during its work, while another replica waits for the lease.
func TestLeaderIsLost(t *testing.T) {
	cases := map[string]struct {
		lose func(*bubble.Replica)
		// ends is whether the replica ends without an error.
		ends bool
		// soonest and latest bound when the other may begin, counted in lease durations since the last renewal. It
		// tries to get the lease every eighth of one to 2.2 eighths (the jitter of client-go), so that it sees the last
		// renewal up to 0.28 late and takes the lease up to 0.28 late.
		soonest, latest float64
	}{
		"killed": {
			lose: func(r *bubble.Replica) { r.EC2.Cut(); r.Kubernetes.Cut(); r.Stop() }, ends: true, soonest: 1, latest: 1.7,
		},
		"cut off from the API server": {
			lose: func(r *bubble.Replica) { r.Kubernetes.Cut() }, soonest: 1, latest: 1.7,
		},
		"stopped in good order": {
			lose: func(r *bubble.Replica) { r.Stop() }, ends: true, latest: 1,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := bubble.New(t, bubble.World())
				c.Declare("data", "a", "data")
				c.Declare("storage", "a", "storage")
				o := c.Defaults()
				o.LeaseDuration = time.Minute // the other replica takes over in the midst of the work
				first := c.Start(o)
				time.Sleep(time.Minute)
				second := c.Start(o)
				c.Join(60, "a")
				time.Sleep(7 * time.Second)
				if there := len(c.Owned()); there == 0 || there == len(c.Wanted()) {
					t.Fatal("the leader is not in the midst of its work")
				}

				lost := time.Now()
				tc.lose(first)
				c.Join(1, "a") // leaves work to the other, in every case
				t.Logf("all is well %s later", c.Converge(10*time.Minute))
				if <-first.Ended; (first.Err == nil) != tc.ends {
					t.Errorf("the leader that was lost ended with %v", first.Err)
				}
				took := second.Changes(time.Time{})[0].At
				renewed := first.LastRenewal()
				leases := took.Sub(renewed).Seconds() / o.LeaseDuration.Seconds()
				t.Logf("the other replica made its first change %s after the loss, %.2f leases after the last renewal", took.Sub(lost), leases)
				if leases < tc.soonest || leases > tc.latest {
					t.Errorf("the other replica made its first change %.2f leases after the last renewal, want %.2f to %.2f", leases, tc.soonest, tc.latest)
				}
				if late := first.Changes(renewed.Add(o.LeaseDuration)); len(late) > 0 {
					t.Errorf("%d changes by the replica that was lost, after its lease", len(late))
				}
				if late := first.Changes(took); len(late) > 0 {
					t.Errorf("%d changes by the replica that was lost, after the other took over", len(late))
				}
			})
		})
	}
}
