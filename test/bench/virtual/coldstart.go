// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/test/bench/scenario"
	"github.com/multieni/multieni/test/synctest/bubble"
)

// coldStart lets all nodes join at the same moment.
func coldStart(s *stage) {
	s.open()
	s.rollOut(nil)
}

// coldStartBesideTenant does that while the VPC CNI of others in the account uses half of the refill of each token
// bucket.
func coldStartBesideTenant(s *stage) {
	s.open()
	other := newTenant(s.Cluster, 0.5)
	ctx, stop := context.WithCancel(s.Context())
	other.stop = stop
	go other.work(ctx)
	time.Sleep(5 * time.Minute)
	other.reset()
	s.rollOut(other)
	s.measured[scenario.TenantThrottle] = other.throttledPart()
}

// rollOut is the common part of all cold starts. It does not count the calls of another tenant, which it stops in the
// end.
func (s *stage) rollOut(other *tenant) {
	s.Helper()
	writes := s.controller.Writes()
	s.arrive(s.Nodes)
	s.enter("nodes get their interfaces", s.readyPart)
	s.awaitReady(s.Nodes)
	s.measureReadiness()
	if other != nil {
		s.measured[scenario.Makespan+scenario.LimitSuffix] = other.attaching(s.Nodes * scenario.MembersPerNode).Seconds()
		other.stop()
	}
	time.Sleep(settle)
	calls, enis := s.EC2.Calls().Mutating, float64(s.Nodes*scenario.MembersPerNode)
	if other != nil {
		theirs := other.all()
		calls.Count, calls.Throttled = calls.Count-theirs.sent, calls.Throttled-theirs.throttled
	}
	s.measured[scenario.CallsPerENI] = float64(calls.Count) / enis
	s.measured[scenario.TakenPerENI] = float64(calls.Count-calls.Throttled) / enis
	s.measured[scenario.Throttled] = part(calls.Throttled, calls.Count)
	s.measured[scenario.APIWritesENI] = float64(s.controller.Writes()-writes) / enis
	s.compare(scenario.Strays)
}

func part(some, all int) float64 {
	if all == 0 {
		return 0
	}
	return float64(some) / float64(all)
}

// measureReadiness measures when the nodes became ready.
func (s *stage) measureReadiness() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var seconds []float64
	for _, at := range s.ready {
		seconds = append(seconds, at.Sub(s.begun).Seconds())
	}
	slices.Sort(seconds)
	last := seconds[len(seconds)-1]
	s.measured[scenario.Makespan] = last
	s.measured[scenario.MedianReady] = percentile(seconds, 0.5) / last
}

// percentile returns the smallest of the sorted values such that at least that part of them does not exceed it.
func percentile(sorted []float64, part float64) float64 {
	rank := int(part * float64(len(sorted)))
	return sorted[min(rank, len(sorted)-1)]
}

// leakyCluster is the name of a cluster whose leaks exist before it does.
const leakyCluster = "leaky"

// coldStartWithLeaks begins with five leaks for each node.
func coldStartWithLeaks(s *stage) {
	leaks := 5 * s.Nodes
	s.Declare("data", pool, "data")
	s.Declare("storage", pool, "storage")
	o := s.Defaults()
	o.ClusterName = leakyCluster
	s.controller = s.Start(o)
	gone := make(chan time.Duration, 1)
	s.arrive(s.Nodes)
	go func() { gone <- s.awaitNoLeaks() }()
	s.enter("nodes get their interfaces, leaks go", s.readyPart)
	s.awaitReady(s.Nodes)
	s.measureReadiness()
	s.enter(fmt.Sprintf("the rest of %d leaks go", leaks), func() float64 { return 0.5 })
	s.measured[scenario.OrphansGone] = (<-gone).Seconds()
	time.Sleep(settle)
	s.compareAs(leakyCluster, scenario.Strays)
}

// awaitNoLeaks returns how long after the nodes joined the last leak was deleted.
func (s *stage) awaitNoLeaks() time.Duration {
	s.await(3*time.Hour, "an end of the leaks", func() bool {
		time.Sleep(4 * time.Second)
		return !slices.ContainsFunc(s.EC2.State().NetworkInterfaces, func(i *ec2.NetworkInterface) bool {
			return i.Description == "leak"
		})
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.begun)
}

// worldOf is the account at the beginning of a scenario.
func worldOf(s scenario.Scenario) awssim.World {
	w := bubble.World()
	if s.ID != "g" {
		return w
	}
	for n := range 5 * s.Nodes {
		m := identity.Interface{
			Cluster: leakyCluster, NodeENI: "gone", Node: fmt.Sprintf("gone-%d", n/2), InstanceID: fmt.Sprintf("i-%017x", n/2),
			UID: identity.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", 0xdead0000+n)), Ordinal: n % 2,
		}
		m.Name = identity.ObjectName(m.NodeENI, m.InstanceID, m.Ordinal)
		w.NetworkInterfaces = append(w.NetworkInterfaces, ec2.WorldInterface{
			SubnetID: bubble.SubnetIDs("data")[0], Description: "leak",
			Tags: ec2.Tags(m.Tags(time.Now().Add(-24*time.Hour), nil)),
		})
	}
	return w
}
