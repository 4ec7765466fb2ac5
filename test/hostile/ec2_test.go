// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"testing"
	"time"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/internal/core/ratelimit"
	"github.com/multieni/multieni/test/size"
)

// speed is how many times faster than EC2 the simulated one runs in tests in which the controller's own periods do not
// matter.
const speed = 10

// afterwards is how long a test waits at most for an expected state. It only keeps a test from hanging on a busy
// machine: the controller repeats failed calls after half a minute at the latest, and the visibility window is two
// minutes. The tests judge superfluous work by the number of calls; test/synctest, where time does not depend on the
// machine, judges how long it takes.
const afterwards = 10 * time.Minute

// The least number of calls for one interface.
const (
	callsToAttach = 3 // create, attach, delete on termination
	callsToRemove = 2 // detach, delete
)

// TestLostResponses loses the answer to every third call of each action that changes something, although EC2 executes
// it.
func TestLostResponses(t *testing.T) {
	size.NeedsAll(t, "faults of a minute, with an API server of its own")
	t.Parallel()
	s := setStage(t, simulate(t, fleet("node"), speed, nil), speed)
	s.join(0)
	s.strike(fault.Fault{Kind: fault.LoseReply, Every: 3}, mutating()...)
	s.apply(both())
	s.label(names("node", 0, 8)...)
	s.run()
	s.holds(afterwards, wanted(names("node", 0, 8)))
	s.unlabel(names("node", 5, 8)...)
	s.holds(afterwards, wanted(names("node", 0, 5)))
	strikes := s.heal()

	s.rests()
	s.holds(time.Second, wanted(names("node", 0, 5)))
	s.reports(afterwards, "both", 10)
	s.onlyRemoved(names("node", 5, 8)...)
	s.madeOnce(16)
	s.atMost(16*callsToAttach + 6*callsToRemove + 4*strikes)
}

// TestLostRequests loses a third of all calls, reads too, before they reach EC2, and delays the answers to a fifth of
// the others.
func TestLostRequests(t *testing.T) {
	size.NeedsAll(t, "faults of a minute, with an API server of its own")
	t.Parallel()
	s := setStage(t, simulate(t, fleet("node"), speed, nil), speed)
	s.join(0)
	s.strike(fault.Fault{Kind: fault.LoseRequest, Probability: 1.0 / 3})
	s.strike(fault.Fault{Kind: fault.Delay, Probability: 0.2, Delay: 20 * time.Second})
	s.apply(both())
	s.label(names("node", 0, 8)...)
	s.run()
	s.holds(afterwards, wanted(names("node", 0, 8)))
	strikes := s.heal()

	s.rests()
	s.onlyRemoved()
	s.madeOnce(16)
	s.atMost(16*callsToAttach + 4*strikes)
}

// TestThrottling refuses every call to EC2 while nodes get and lose interfaces: at first those that change something,
// then reads too.
func TestThrottling(t *testing.T) {
	size.NeedsAll(t, "faults of a minute, with an API server of its own")
	t.Parallel()
	s := setStage(t, simulate(t, fleet("node"), speed, nil), speed)
	s.join(0)
	s.apply(both())
	s.label(names("node", 0, 4)...)
	r := s.run()
	s.holds(afterwards, wanted(names("node", 0, 4)))
	before := len(s.calls())

	s.strike(fault.Fault{Kind: fault.Throttle}, mutating()...)
	s.label(names("node", 4, 8)...)
	s.unlabel(names("node", 0, 2)...)
	s.endure(promised/2, r)
	s.strike(fault.Fault{Kind: fault.Throttle})
	s.endure(promised/2, r)
	s.heal()
	during := len(s.calls()) - before
	// The rate limiter probes with creates and detaches at its lowest rate; no other action begins before one succeeds.
	const members, actions = 8 + 4, 2
	refill := awssim.DocumentedLimits()["CreateNetworkInterface"].Refill
	if most := actions*int(ratelimit.MinShare*refill*promised.Seconds()*speed) + 2*members; during == 0 || during > most {
		t.Errorf("%d attempts to change something while every call is refused, want some and at most %d", during, most)
	}

	s.holds(afterwards, wanted(names("node", 2, 8)))
	s.reports(afterwards, "both", 12)
	s.rests()
	s.onlyRemoved(names("node", 0, 2)...)
	s.madeOnce(16)
	s.atMost(16*callsToAttach + 4*callsToRemove + during)
}

// TestReadsLag answers every read with a state that is up to a minute old, of a different age each time, and hides new
// interfaces for a while. The controller is killed in between, and starts again with stale reads.
func TestReadsLag(t *testing.T) {
	size.NeedsAll(t, "faults of a minute, with an API server of its own")
	t.Parallel()
	s := setStage(t, simulate(t, fleet("node"), 1, nil), 1)
	s.join(0)
	s.apply(both())
	s.label(names("node", 0, 3)...)
	r := s.run()
	s.holds(afterwards, wanted(names("node", 0, 3)))

	s.strike(fault.Fault{Kind: fault.StaleRead, Age: promised, Jitter: true})
	s.strike(fault.Fault{Kind: fault.HideNew, Age: promised / 4})
	s.label(names("node", 3, 8)...)
	s.endure(promised/2, r)
	s.must(r.Kill())
	s.endure(promised/2+5*time.Second, s.run())
	strikes := s.heal()

	s.holds(afterwards, wanted(names("node", 0, 8)))
	s.reports(afterwards, "both", 16)
	s.rests()
	s.onlyRemoved()
	s.madeOnce(16)
	s.atMost(16*callsToAttach + 4*strikes)
}

// TestStuckDetaches never ends every third detach. The controller removes the other interfaces; it does not force a
// stuck detach before its time, and the interface leaves with its instance. The long form instead waits the ten minutes
// until the forced detach.
func TestStuckDetaches(t *testing.T) {
	size.NeedsAll(t, "faults of a minute, with an API server of its own")
	t.Parallel()
	s := setStage(t, simulate(t, fleet("node"), speed, nil), speed)
	s.join(0)
	s.apply(both())
	s.label(names("node", 0, 8)...)
	r := s.run()
	s.holds(afterwards, wanted(names("node", 0, 8)))

	s.strike(fault.Fault{Kind: fault.StuckDetaching, Every: 3})
	s.unlabel(names("node", 3, 8)...)
	const stuck = 3 // of ten
	s.eventually(afterwards, "what is not stuck is gone", func() string {
		if n := len(held(s.cloud.State(), s.name)); n != 6+stuck {
			return "there are others"
		}
		return ""
	})
	s.heal()
	s.endure(promised, r)
	forced := 0
	if size.Long() {
		s.holds(11*time.Minute, wanted(names("node", 0, 3)))
		forced = stuck
	} else {
		s.terminateWhatIsStuck()
		s.holds(afterwards, wanted(names("node", 0, 3)))
	}
	for _, c := range s.calls() {
		if c.form.Get("Force") == "true" {
			forced--
		}
	}
	if forced != 0 {
		t.Errorf("%d forced detaches less than interfaces that were stuck long enough", forced)
	}
	s.rests()
	s.onlyRemoved(names("node", 3, 8)...)
	s.madeOnce(16)
	s.atMost(16*callsToAttach + 10*callsToRemove + stuck)
}

// terminateWhatIsStuck terminates the instances with interfaces that are being detached.
func (s *stage) terminateWhatIsStuck() {
	s.Helper()
	gone := map[string]bool{}
	for _, eni := range s.cloud.State().NetworkInterfaces {
		if a := eni.Attachment; a != nil && a.Status == ec2.Detaching && !gone[a.InstanceID] {
			gone[a.InstanceID] = true
			s.must(s.cloud.Terminate(a.InstanceID))
		}
	}
}
