// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"
)

// step is the part of a plan that concerns one member. The functions that compute it change neither the planner nor the
// member; [planner.apply] adds it to the plan.
type step struct {
	// m is the member as rendered; Member is the member as the plan reports it.
	m *Interface
	Member
	// recorded is set if the ledger of the plan must name the member's generation.
	recorded bool
	actions  []Action
	// evictions are the pods to evict.
	evictions []Eviction
	// needsFreshRead is set if only a fresh read shows whether the step is right.
	needsFreshRead bool
	// requeueAt is the earliest time at which the step needs another plan; zero for none.
	requeueAt time.Time
}

// wait is a reason to do nothing about a member until some time.
type wait struct {
	why   Problem
	until time.Time
	// needsFreshRead is set if only a fresh read shows whether the reason still holds.
	needsFreshRead bool
}

// begin returns a step that does nothing.
func (m *Interface) begin(phase Phase) step {
	s := step{m: m, Member: m.Member, recorded: m.EntersLedger, needsFreshRead: m.NeedsFreshRead}
	s.Phase = phase
	return s
}

// act returns the step with further actions.
func (s step) act(actions ...Action) step {
	s.actions = append(s.actions, actions...)
	return s
}

// requeue returns the step with another plan at the given time, unless it needs an earlier one already.
func (s step) requeue(at time.Time) step {
	s.requeueAt = earlier(s.requeueAt, at)
	return s
}

// record returns the step with the member's generation in the ledger, so that the ledger is complete again after a
// loss.
func (s step) record() step {
	s.recorded = true
	return s
}

// because returns the step with a reason. If a person has to act, it blocks a member that is not attached.
func (s step) because(why Problem) step {
	if !why.Reason.Transient() && s.Phase != Attached {
		s.Phase = Blocked
	}
	s.Why = why
	return s
}

// wait returns the step that waits.
func (s step) wait(w wait) step {
	s.needsFreshRead = s.needsFreshRead || w.needsFreshRead
	return s.because(w.why).requeue(w.until)
}

// apply adds a step to the plan.
func (p *planner) apply(s step) {
	if s.recorded {
		p.record(s.Member)
	}
	for _, action := range s.actions {
		if _, creates := action.(Create); creates {
			p.unattached++
		}
	}
	p.plan.Actions = append(p.plan.Actions, s.actions...)
	p.plan.Evictions = append(p.plan.Evictions, s.evictions...)
	if !s.requeueAt.IsZero() {
		p.requeueAt(s.requeueAt)
	}
}

// record adds the generation of an existing interface to the ledger.
func (p *planner) record(m Member) {
	if p.plan.Ledger[m.Key] < m.Generation {
		p.plan.Ledger[m.Key] = m.Generation
	}
}

// requeueAt requests another plan at the given time, unless an earlier one is requested already.
func (p *planner) requeueAt(at time.Time) { p.plan.RequeueAt = earlier(p.plan.RequeueAt, at) }

// earlier returns the earlier of two times; the first one may be zero for none.
func earlier(at, other time.Time) time.Time {
	if at.IsZero() || other.Before(at) {
		return other
	}
	return at
}

// later returns the later of two times.
func later(at, other time.Time) time.Time {
	if other.After(at) {
		return other
	}
	return at
}
