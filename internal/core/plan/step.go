// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"
)

// step is the part of a plan that concerns one object. The functions that compute it change neither the planner nor the
// item; [planner.apply] adds it to the plan.
type step struct {
	m *item
	State
	calls []Call
	// gone and spent are set if the object has no interface any more, and can have no further one.
	gone, spent bool
	// needsRead is set if only a fresh read shows whether the step is right.
	needsRead bool
	// next is the earliest time at which the step needs another plan; zero for none.
	next time.Time
}

// wait is a reason to do nothing about an object until some time.
type wait struct {
	why   Problem
	until time.Time
	// needsRead is set if only a fresh read shows whether the reason still holds.
	needsRead bool
}

// begin returns a step that does nothing.
func (m *item) begin() step {
	s := step{m: m, needsRead: m.needsRead, State: State{
		Key: m.Key, Goal: m.Goal, Phase: Pending, Evidence: m.evidence, Slot: m.slot,
	}}
	if m.record != nil {
		i := m.record.Interface
		s.Interface, s.Phase = &i, phaseOf(i)
	}
	return s
}

// act returns the step with further calls.
func (s step) act(calls ...Call) step {
	s.calls = append(s.calls, calls...)
	return s
}

// requeue returns the step with another plan at the given time, unless it needs an earlier one already.
func (s step) requeue(at time.Time) step {
	s.next = earlier(s.next, at)
	return s
}

// because returns the step with a reason. If a person has to act, it blocks an interface that is not attached.
func (s step) because(why Problem) step {
	if !why.Reason.Transient() && s.Phase != Attached {
		s.Phase = Blocked
	}
	s.Problem = why
	return s
}

// wait returns the step that waits.
func (s step) wait(w wait) step {
	s.needsRead = s.needsRead || w.needsRead
	return s.because(w.why).requeue(w.until)
}

// apply adds a step to the plan.
func (p *planner) apply(s step) {
	if s.m == nil {
		return
	}
	p.steps = append(p.steps, s)
	for _, call := range s.calls {
		if _, creates := call.(Create); creates && s.m.again == nil { // a repetition makes no further one
			p.unattached++
		}
	}
	p.plan.Calls = append(p.plan.Calls, s.calls...)
	if s.gone {
		p.plan.Gone = append(p.plan.Gone, s.Key.UID)
	}
	if s.spent {
		p.plan.Spent = append(p.plan.Spent, s.Key.UID)
	}
	if !s.next.IsZero() {
		p.plan.Next = earlier(p.plan.Next, s.next)
	}
}

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
