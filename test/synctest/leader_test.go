// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package synctest_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestLeaderIsLost loses the leader in the midst of its work, while another replica stands by.
func TestLeaderIsLost(t *testing.T) {
	cases := map[string]struct {
		lose func(*controller)
		// ends is whether the replica ends without an error.
		ends bool
		// takeover is how soon and how late the other may begin, counted in leases since the last renewal. It asks for
		// the lease every eighth of one, give or take.
		soonest, latest float64
	}{
		"killed": {
			lose: func(r *controller) { r.ec2.cut(); r.kubernetes.cut(); r.stop() }, ends: true, soonest: 1, latest: 1.5,
		},
		"cut off from the API server": {
			lose: func(r *controller) { r.kubernetes.cut() }, soonest: 1, latest: 1.5,
		},
		"stopped in good order": {
			lose: func(r *controller) { r.stop() }, ends: true, latest: 1,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, world())
				c.declare("data", "a", "data")
				c.declare("storage", "a", "storage")
				o := c.defaults()
				first := c.start(o)
				time.Sleep(time.Minute)
				second := c.start(o)
				c.join(60, "a")
				time.Sleep(7 * time.Second)
				if there := len(c.owned()); there == 0 || there == len(c.wanted()) {
					t.Fatal("the leader is not in the midst of its work")
				}

				lost := time.Now()
				tc.lose(first)
				t.Logf("all is well %s later", c.converge(10*time.Minute))
				if <-first.ended; (first.err == nil) != tc.ends {
					t.Errorf("the leader that was lost ended with %v", first.err)
				}
				took := second.changes(time.Time{})[0].at
				renewed := first.lastRenewal()
				leases := took.Sub(renewed).Seconds() / o.LeaseDuration.Seconds()
				t.Logf("the other replica made its first change %s after the loss, %.2f leases after the last renewal", took.Sub(lost), leases)
				if leases < tc.soonest || leases > tc.latest {
					t.Errorf("the other replica made its first change %.2f leases after the last renewal, want %.2f to %.2f", leases, tc.soonest, tc.latest)
				}
				if late := first.changes(renewed.Add(o.LeaseDuration)); len(late) > 0 {
					t.Errorf("%d changes by the replica that was lost, after its lease", len(late))
				}
				if late := first.changes(took); len(late) > 0 {
					t.Errorf("%d changes by the replica that was lost, after the other took over", len(late))
				}
			})
		})
	}
}
