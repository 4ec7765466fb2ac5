// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/test/bench/scenario"
	"github.com/multieni/multieni/test/synctest/bubble"
)

const (
	// idleNodes is how many nodes a cluster has before one joins.
	idleNodes = 20
	// probes is how many nodes join behind a queue.
	probes = 50
)

// joinIdle lets nodes join one after the other, each a while after the last one is ready.
func joinIdle(s *stage) {
	joins := s.Nodes
	s.Nodes = idleNodes
	s.fleet()
	random := rand.New(rand.NewPCG(1, 2))
	var whole, overhead []float64
	var joined atomic.Int64
	s.enter("nodes join one by one", func() float64 { return float64(joined.Load()) / float64(joins) })
	for range joins {
		// The random wait keeps the join out of step with the controller's periodic work.
		time.Sleep(30*time.Second + time.Duration(random.Int64N(int64(30*time.Second))))
		took, unavoidable := s.joinOne()
		whole = append(whole, took.Seconds())
		overhead = append(overhead, (took - unavoidable).Seconds())
		joined.Add(1)
	}
	time.Sleep(settle)
	slices.Sort(whole)
	slices.Sort(overhead)
	s.measured[scenario.ProbeP50] = percentile(whole, 0.5)
	s.measured[scenario.OverheadP50] = percentile(overhead, 0.5)
	s.measured[scenario.OverheadP99] = percentile(overhead, 0.99)
	s.measured[scenario.CallsPerENI] = float64(s.EC2.Calls().Mutating.Count) / float64(joins*scenario.MembersPerNode)
	s.compare(scenario.Strays)
}

// joinOne lets a node join. It returns how long the node took to become ready, and the part of that time that no
// controller can avoid: the calls and the attachment of its slowest interface.
func (s *stage) joinOne() (took, unavoidable time.Duration) {
	s.Helper()
	node := s.Launch(1, pool)[0]
	time.Sleep(bubble.Booting)
	s.Must(s.User.Create(s.Context(), node))
	begun := time.Now()
	shown := map[string]time.Time{} // by interface
	for ready := false; !ready; time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > 10*time.Minute {
			s.Fatalf("Node %s is not ready after 10 minutes in an idle cluster", node.Name)
		}
		ready = !s.readyAt(node.Name).IsZero()
		for _, call := range s.callsFor(node, "AttachNetworkInterface", begun) {
			if i := s.EC2.Shown(call.Interface); shown[call.Interface].IsZero() && i != nil && i.Attachment != nil &&
				i.Attachment.Status == ec2.Attached {
				shown[call.Interface] = time.Now()
			}
		}
	}
	return s.readyAt(node.Name).Sub(begun), s.unavoidable(node, begun, shown)
}

// unavoidable returns how long EC2 took for a node's slowest interface: the time of the create call, and the time from
// the attach call until EC2 returns the interface as attached, which shown has. No controller attaches an interface in
// less time.
func (s *stage) unavoidable(node *corev1.Node, begun time.Time, shown map[string]time.Time) (longest time.Duration) {
	for _, attach := range s.callsFor(node, "AttachNetworkInterface", begun) {
		for _, create := range s.callsFor(node, "CreateNetworkInterface", begun) {
			if create.Subnet == s.EC2.Shown(attach.Interface).SubnetID {
				longest = max(longest, create.Answered.Sub(create.At)+shown[attach.Interface].Sub(attach.At))
			}
		}
	}
	return longest
}

// callsFor returns the calls of an action for a node since a time.
func (s *stage) callsFor(node *corev1.Node, action string, since time.Time) (calls []bubble.Mutation) {
	for _, call := range s.controller.Changes(since.Add(-1)) {
		if call.Action == action && call.Instance == bubble.InstanceOf(node) {
			calls = append(calls, call)
		}
	}
	return calls
}

// joinQueue lets nodes join while a fleet waits for its interfaces.
func joinQueue(s *stage) {
	s.open()
	s.arrive(s.Nodes)
	probe := s.Launch(probes, pool)
	time.Sleep(bubble.Booting)
	joined := map[string]time.Time{}
	// They have all joined when at best half of the queue is done.
	during, begun := scenario.Documented().Attaching(s.Nodes*scenario.MembersPerNode)/2, time.Now()
	s.enter("nodes join behind the queue", func() float64 {
		return min(0.9, time.Since(begun).Seconds()/during.Seconds())
	})
	for _, node := range probe {
		time.Sleep(during / probes)
		s.Must(s.User.Create(s.Context(), node))
		joined[node.Name] = time.Now()
	}
	if ready, _ := s.readyNow(); ready >= s.Nodes {
		s.Fatal("the queue ended before the last node joined")
	}
	var took []float64
	for _, node := range probe {
		s.await(2*time.Hour, "a ready node "+node.Name, func() bool { return !s.readyAt(node.Name).IsZero() })
		took = append(took, s.readyAt(node.Name).Sub(joined[node.Name]).Seconds())
	}
	slices.Sort(took)
	s.measured[scenario.ProbeP50] = percentile(took, 0.5)
	s.measured[scenario.ProbeP90] = percentile(took, 0.9)
}

// idle measures a day in which nothing happens.
func idle(s *stage) {
	const day, step = 24 * time.Hour, 10 * time.Minute
	s.fleet()
	time.Sleep(time.Hour)
	s.EC2.ResetCalls()
	writes, begun := s.controller.Writes(), time.Now()
	s.enter("nothing happens for a day", func() float64 { return time.Since(begun).Seconds() / day.Seconds() })
	for time.Since(begun) < day {
		time.Sleep(step)
	}
	calls := s.EC2.Calls()
	s.measured[scenario.Mutating] = float64(calls.Mutating.Count)
	s.measured[scenario.ReadsPerHour] = float64(calls.NonMutating.Count) / day.Hours()
	s.measured[scenario.APIWrites] = float64(s.controller.Writes() - writes)
	s.compare(scenario.Strays)
}

// restart stops the controller and starts another, while one node joins.
func restart(s *stage) {
	s.fleet()
	s.controller.Halt()
	probe := s.Launch(1, pool)[0]
	time.Sleep(bubble.Booting)
	s.Must(s.User.Create(s.Context(), probe))
	time.Sleep(settle)
	s.EC2.ResetCalls()
	begun := time.Now()
	s.controller = s.Start(s.Defaults())
	s.enter("the next controller finds its way", func() float64 { return 0.9 })
	s.await(30*time.Minute, "a ready node that joined meanwhile", func() bool { return !s.readyAt(probe.Name).IsZero() })
	s.measured[scenario.CaughtUp] = s.readyAt(probe.Name).Sub(begun).Seconds()
	time.Sleep(time.Minute)
	s.measured[scenario.FirstAction] = s.controller.Changes(begun.Add(-1))[0].At.Sub(begun).Seconds()
	forProbe := scenario.ReadsFor(bubble.InstanceOf(probe), s.EC2.State().NetworkInterfaces, s.EC2.RecentCalls(), begun)
	s.measured[scenario.ReadsForNode] = float64(forProbe)
	s.measured[scenario.Reads] = float64(s.EC2.Calls().NonMutating.Count)
	s.measured[scenario.Mutating] = float64(s.changesOfOthers(probe))
	s.compare(scenario.Strays)
}

// changesOfOthers counts the changing calls that were not for a node. A call that names only an interface is for the
// node if the interface is.
func (s *stage) changesOfOthers(node *corev1.Node) (others int) {
	own := map[string]bool{}
	for _, i := range s.EC2.State().NetworkInterfaces {
		if i.Attachment != nil && i.Attachment.InstanceID == bubble.InstanceOf(node) {
			own[i.NetworkInterfaceID] = true
		}
	}
	for _, call := range s.controller.Changes(time.Time{}) {
		if call.Instance != bubble.InstanceOf(node) && !own[call.Interface] {
			others++
		}
	}
	return others
}
