// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/test/size"
)

// TestStatusWritesFail fails all status writes while nodes get and lose interfaces, a NodeENI is added, and the
// controller is killed: the controller can learn only from EC2 what exists already.
func TestStatusWritesFail(t *testing.T) {
	size.NeedsAll(t, "faults of a minute, with an API server of its own")
	t.Parallel()
	s := setStage(t, simulate(t, fleet("node"), speed, nil), speed)
	s.join(0)
	s.apply(both())
	s.label(names("node", 0, 4)...)
	r := s.run()
	s.holds(afterwards, wanted(names("node", 0, 4)))
	s.reports(afterwards, "both", 8)

	s.gate.set(failingStatusWrites())
	s.label(names("node", 4, 8)...)
	s.unlabel(nodeName("node", 0))
	s.apply(third())
	s.endure(promised/2, r)
	s.must(r.Kill())
	s.endure(promised/2, s.run())
	s.gate.set(nil)

	s.holds(afterwards, wanted(names("node", 1, 8), both(), third()))
	s.reports(afterwards, "both", 14)
	s.reports(afterwards, "third", 7)
	s.rests()
	s.onlyRemoved(nodeName("node", 0))
	s.madeOnce(16 + 7)
	// The second controller asks EC2 by the client token of each of the 8 + 7 objects that could not record its interface.
	s.atMost((16+7)*callsToAttach + 2*callsToRemove + 8 + 7)
}

// TestConflicts answers a third of the writes of our kinds with a conflict, and loses the answers to others.
func TestConflicts(t *testing.T) {
	size.NeedsAll(t, "faults of a minute, with an API server of its own")
	t.Parallel()
	s := setStage(t, simulate(t, fleet("node"), speed, nil), speed)
	s.join(0)
	s.gate.set(s.gate.conflicts())
	s.apply(both())
	s.label(names("node", 0, 8)...)
	s.run()
	s.holds(afterwards, wanted(names("node", 0, 8)))
	s.unlabel(names("node", 6, 8)...)
	s.holds(afterwards, wanted(names("node", 0, 6)))
	s.gate.set(nil)

	s.reports(afterwards, "both", 12)
	s.rests()
	s.onlyRemoved(names("node", 6, 8)...)
	s.madeOnce(16)
	s.atMost(16*callsToAttach + 4*callsToRemove)
}

// TestAPIOutage cuts the controller off from the API server for a while, twice: once by the network, and once by a kill
// and restart of the server. Labels change meanwhile.
func TestAPIOutage(t *testing.T) {
	size.NeedsAll(t, "faults of a minute, with an API server of its own")
	t.Parallel()
	s := setStage(t, simulate(t, fleet("node"), speed, nil), speed)
	s.join(0)
	s.apply(both())
	s.label(names("node", 0, 3)...)
	r := s.run()
	s.holds(afterwards, wanted(names("node", 0, 3)))

	s.gate.outage()
	s.label(names("node", 3, 5)...)
	s.unlabel(nodeName("node", 0))
	s.endure(promised, r)
	s.onlyRemoved()
	s.gate.set(nil)
	s.holds(afterwards, wanted(names("node", 1, 5)))

	s.label(names("node", 5, 8)...)
	s.restartAPIServer(5 * time.Second)
	s.holds(afterwards, wanted(names("node", 1, 8)))
	s.reports(afterwards, "both", 14)
	s.rests()
	s.onlyRemoved(nodeName("node", 0))
	s.madeOnce(16)
	s.atMost(16*callsToAttach + 2*callsToRemove)
}

// restartAPIServer kills the API server of the stage and starts it again after a pause, with the same data.
func (s *stage) restartAPIServer(pause time.Duration) {
	s.Helper()
	pid, command := s.apiServer()
	s.must(syscall.Kill(pid, syscall.SIGKILL))
	s.endure(pause)
	again := exec.CommandContext(s.Context(), command[0], command[1:]...)
	s.must(again.Start())
	s.Cleanup(func() {
		// Its error is that of the signal.
		_ = again.Process.Kill()
		_ = again.Wait()
	})
	s.eventually(afterwards, "the API server is back", func() string {
		var nodes corev1.NodeList
		return problem(s.kube.List(s.Context(), &nodes))
	})
}

// apiServer returns the process of the stage's API server, a child of this one, and its command line.
func (s *stage) apiServer() (pid int, command []string) {
	s.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	s.must(err)
	address, err := url.Parse(s.Config.Host)
	s.must(err)
	for _, path := range processes {
		content, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		command := strings.Split(strings.TrimRight(string(content), "\x00"), "\x00")
		if !strings.HasSuffix(command[0], "kube-apiserver") || !strings.Contains(string(content), "--secure-port="+address.Port()) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		s.must(err)
		return pid, command
	}
	s.Skip("the process of the API server is found in /proc, which this machine does not have")
	return 0, nil
}

// TestKilledAgainAndAgain kills the controller eight times during its work: at the first call for a node, the second
// and so on, alternately before the call reaches EC2 and before the answer reaches the controller. Nodes have agents: a
// controller can be killed before it recorded an interface, and the next one, which finds it for an object that is
// being deleted, removes it only after an agent has answered.
func TestKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	const kills = 8
	s := setPodStage(t, kills)
	s.apply(both())
	r := s.run()
	for n := range kills {
		killed := r
		r.cloud.at(1+n%(2*callsToAttach), func() bool {
			if err := killed.Kill(); err != nil {
				t.Error(err)
			}
			return n%2 == 0
		})
		s.label(nodeName("node", n))
		if n >= 2 {
			s.unlabel(nodeName("node", n-2))
		}
		select {
		case <-r.Exited():
		case <-time.After(afterwards):
			t.Fatal("the controller did not get as far as the call to be killed at")
		}
		r = s.run()
	}
	s.holds(afterwards, wanted(names("node", 6, 8)))
	s.reports(afterwards, "both", 4)
	s.rests()
	s.onlyRemoved(names("node", 0, 6)...)
	const lost = 8 // a kill loses the answers to calls for up to four nodes
	s.atMost(16*(callsToAttach+callsToRemove) + kills*lost)
}

// TestStoppedLongerThanTheLease stops the leader with calls in flight for longer than its lease, lets the other replica
// become the leader, and continues the first one: it must not change anything any more, and must end.
func TestStoppedLongerThanTheLease(t *testing.T) {
	size.NeedsAll(t, "faults of a minute, with an API server of its own")
	t.Parallel()
	s := setStage(t, simulate(t, fleet("node"), speed, nil), speed)
	s.join(0)
	s.apply(both())
	flags := []string{"--leader-elect", "--leader-election-namespace=default", "--leader-election-lease-duration=4s"}
	old := s.run(flags...)
	s.label(names("node", 0, 2)...)
	s.holds(afterwards, wanted(names("node", 0, 2)))
	other := s.run(flags...)

	// The answers to the calls that begin now arrive after the leader was stopped.
	s.strike(fault.Fault{Kind: fault.Delay, Delay: speed * 10 * time.Second}, "CreateNetworkInterface", "DetachNetworkInterface")
	s.label(names("node", 2, 8)...)
	s.unlabel(nodeName("node", 0))
	// An object that comes while a call of its instance is under way waits for the answer, so not all fourteen begin at once.
	s.eventually(afterwards, "the leader has calls under way", func() string {
		if strikes := s.struck(); strikes < 7 {
			return fmt.Sprintf("%d", strikes)
		}
		return ""
	})
	s.must(old.send(syscall.SIGSTOP))
	s.heal()
	s.holds(afterwards, wanted(names("node", 1, 8)))
	if len(other.cloud.recorded()) == 0 {
		t.Error("the other replica did nothing")
	}

	asked := len(old.cloud.recorded())
	s.unlabel(nodeName("node", 1)) // work for a replica that still acts as the leader
	s.must(old.send(syscall.SIGCONT))
	select {
	case <-old.Exited():
	case <-time.After(afterwards):
		t.Error("the old leader has not ended")
	}
	for _, c := range old.cloud.recorded()[asked:] {
		t.Errorf("the old leader called %s after it had lost its lease", c.action)
	}
	s.holds(afterwards, wanted(names("node", 2, 8)))
	s.reports(afterwards, "both", 12)
	s.rests()
	s.onlyRemoved(names("node", 0, 2)...)
	s.madeOnce(16)
}
