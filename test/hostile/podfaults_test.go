// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/test/podhost"
	"github.com/multieni/multieni/test/size"
)

// The least number of calls for the pods of these tests.
const (
	callsToReserve = 3 // three blocks, one call for each
	callsToMove    = 1
	callsToGrow    = 1
)

// TestKilledUnderPods kills the controller at its calls for pods, for an address that follows them, and for
// reservations: alternately before the call reaches EC2 and before the answer reaches the controller. The next one
// takes nothing from a pod, and EC2 has in the end what is declared, once. A new process assigns no prefix in its first
// minute, so only the full size grows a network.
func TestKilledUnderPods(t *testing.T) {
	t.Parallel()
	s := setPodStage(t, 3)
	k := &killer{s, s.run(), 0}

	both := reserving()
	k.killAt("CreateSubnetCidrReservation", func() { s.create(both[1]) })
	k.killAt("CreateSubnetCidrReservation", func() { s.create(both[0]) })
	s.reserves(declared())
	s.apply(forPods())
	s.label(names("node", 0, 3)...)
	for node := range s.hosts {
		s.start(node, 0, 2)
	}
	s.holds(afterwards, wantedFor(0, 1, 2))

	k.killAt("AssignPrivateIpAddresses", func() { s.hosts[0].BringUp(podName(0, 0), virtual) })
	s.deliversTo(0)
	k.killAt("AssignPrivateIpAddresses", func() { s.hosts[2].BringUp(podName(2, 0), virtual) })
	s.deliversTo(2)
	if size.All() {
		k.killAt("AssignPrivateIpAddresses", func() { s.start(0, 2, 12) })
		s.prefixesOf(0, 2)
	}
	s.unlabel(nodeName("node", 1))
	s.closes(1)
	s.end(1, 0, 1)
	k.killAt("DetachNetworkInterface", func() { s.end(1, 1, 2) })
	s.holds(afterwards, wantedFor(0, 2))
	k.killAt("DeleteSubnetCidrReservation", func() { s.unreserve("prefixes") })
	s.reservationsGone("prefixes")
	s.reserves(declared()[:1])

	s.rests()
	s.deliversTo(2)
	s.onlyRemoved(nodeName("node", 1))
	s.madeOnce(3)
	const lost = 4 // a kill loses the answers to few calls
	s.atMost(3*callsToAttach + callsToRemove + callsToReserve + 2 + 2*callsToMove + callsToGrow + k.kills*lost)
}

// killer kills one controller after the other.
type killer struct {
	*podStage
	running *replica
	kills   int
}

// killAt runs an action of users, and kills the controller at the call that follows.
func (k *killer) killAt(action string, act func()) {
	k.Helper()
	killed, arrives := k.running, k.kills%2 == 0
	k.kills++
	killed.cloud.atNext(action, func() bool {
		if err := killed.Kill(); err != nil {
			k.Error(err)
		}
		return arrives
	})
	act()
	k.until("the controller is killed at "+action, func() string { return runs(killed) })
	k.running = k.run()
}

// TestLostAnswersUnderPods loses the answer to every third change, and throttles a fifth of all calls, while pods start
// and end, an address moves over three nodes, and reservations come and go.
func TestLostAnswersUnderPods(t *testing.T) {
	size.NeedsAll(t, "faults of a minute, with an API server of its own")
	t.Parallel()
	s := setPodStage(t, 5)
	s.strike(fault.Fault{Kind: fault.LoseReply, Every: 3}, mutating()...)
	s.strike(fault.Fault{Kind: fault.Throttle, Probability: 0.2})
	s.run()
	both := reserving()
	s.create(both[1])
	s.reserves(declared()[:1])
	s.create(both[0])
	s.reserves(declared())
	s.apply(forPods())
	s.label(names("node", 0, 5)...)
	for node := range s.hosts {
		s.start(node, 0, 10)
	}
	for _, node := range []int{0, 2, 4} {
		s.hosts[node].BringUp(podName(node, 0), virtual)
		s.deliversTo(node)
	}
	s.hosts[0].Drop(podName(0, 0), virtual)
	s.hosts[2].Drop(podName(2, 0), virtual)
	for node := range s.hosts {
		s.prefixesOf(node, 2)
	}
	s.hosts[4].Drop(podName(4, 0), virtual)
	s.unlabel(names("node", 1, 2)...)
	s.closes(1)
	s.end(1, 0, 10)
	s.holds(afterwards, wantedFor(0, 2, 3, 4))
	s.unreserve("prefixes")
	s.unreserve("virtual")
	s.reservationsGone("prefixes", "virtual")
	s.reserves(nil)
	s.deliversTo(-1)
	strikes := s.heal()

	s.rests()
	s.until("no pod is harmed", func() string { return "" })
	s.onlyRemoved(nodeName("node", 1))
	s.madeOnce(5)
	s.atMost(5*callsToAttach + callsToRemove + 2*callsToReserve + 5*callsToGrow + 4*callsToMove + 4*strikes)
}

// TestLateCallsOfAStoppedLeader stops a leader while three of its calls are on the way to EC2: the move of an address,
// the detachment of an interface whose object is being deleted, and a reservation. A user wants the interface back,
// another leader carries out the deletion, which stands, and makes a successor, the address moves on, and a user deletes
// the SubnetReservation. Then the calls reach EC2. The address returns to its holder, no reservation is left, and the late
// detachment takes the successor from no pod.
func TestLateCallsOfAStoppedLeader(t *testing.T) {
	size.NeedsAll(t, "faults of a minute, with an API server of its own")
	t.Parallel()
	s := setPodStage(t, 3)
	s.apply(forPods())
	s.label(names("node", 0, 3)...)
	flags := []string{"--leader-elect", "--leader-election-namespace=default", "--leader-election-lease-duration=12s"}
	old := s.run(flags...)
	for node := range s.hosts {
		s.start(node, 0, 1)
	}
	arrive := s.holdCalls(old, "AssignPrivateIpAddresses", "DetachNetworkInterface", "CreateSubnetCidrReservation")
	s.hosts[0].BringUp(podName(0, 0), virtual)
	s.unlabel(nodeName("node", 1))
	s.end(1, 0, 1)
	s.create(reserving()[1])
	s.until("three calls are on the way", func() string {
		if n := len(arrive.onTheWay); n < cap(arrive.onTheWay) {
			return fmt.Sprintf("%d are", n)
		}
		return ""
	})
	s.must(old.send(syscall.SIGSTOP))
	s.label(nodeName("node", 1))
	other := s.run(flags...)
	s.hosts[2].BringUp(podName(2, 0), virtual)
	s.hosts[0].Drop(podName(0, 0), virtual)
	s.deliversTo(2)
	s.unreserve("virtual")
	s.start(1, 1, 2)

	arrive.now()
	s.until("the late call takes the address back", func() string {
		if s.isOn(0) {
			return ""
		}
		return "it did not"
	})
	s.reservationsGone("virtual")
	s.reserves(nil)
	s.deliversTo(2)
	s.start(1, 2, 3)
	s.holds(afterwards, wantedFor(0, 1, 2))
	if len(other.cloud.recorded()) == 0 {
		t.Error("the other replica did nothing")
	}
	asked := len(old.cloud.recorded())
	s.must(old.send(syscall.SIGCONT))
	s.until("the old leader has ended", func() string { return runs(old) })
	for _, c := range old.cloud.recorded()[asked:] {
		t.Errorf("the old leader called %s after it had lost its lease", c.action)
	}
	s.rests()
	s.deliversTo(2)
	s.madeOnce(4)
}

// isOn reports whether EC2 delivers the virtual address to the interface of a node.
func (s *podStage) isOn(node int) bool {
	state := s.cloud.State()
	holders := podhost.HoldersOf(state, virtual)
	return slices.ContainsFunc(state.NetworkInterfaces, func(i *ec2.NetworkInterface) bool {
		return i.Tags[identity.TagNode] == nodeName("node", node) && slices.Contains(holders, i.NetworkInterfaceID)
	})
}

// heldCalls are calls on the way to EC2.
type heldCalls struct {
	onTheWay chan string
	now      func()
}

// holdCalls lets the next call of each action reach EC2 only when that is asked for.
func (s *podStage) holdCalls(r *replica, actions ...string) heldCalls {
	late := make(chan struct{})
	h := heldCalls{make(chan string, len(actions)), sync.OnceFunc(func() { close(late) })}
	for _, action := range actions {
		r.cloud.atNext(action, func() bool {
			h.onTheWay <- action
			<-late
			return true
		})
	}
	s.Cleanup(h.now)
	return h
}

// runs returns "" if a controller has ended.
func runs(r *replica) string {
	select {
	case <-r.Exited():
		return ""
	default:
		return "it runs"
	}
}
