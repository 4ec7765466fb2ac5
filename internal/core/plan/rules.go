// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/message"
)

// situation is what is known of the interface of an object.
type situation int

const (
	// absent: the object has no interface, and no call to create one is in flight.
	absent situation = iota
	// creating: EC2 has not answered the call to create it.
	creating
	// missing: EC2's last answer omits it.
	missing
	// elsewhere: it is attached to another instance.
	elsewhere
	free
	attaching
	attached
	detaching
	// launched: it is a launch interface.
	launched
	situations
)

// rule is what the planner does about an object in a situation. It returns the given step with what it adds.
type rule func(*planner, step) step

// rules has the rule for each goal and situation. They alone choose it, and it decides whether its time has come.
var rules = [goals][situations]rule{
	Serve: {
		absent:    (*planner).create,
		creating:  (*planner).awaitAnswer,
		missing:   (*planner).renew,
		elsewhere: (*planner).blockElsewhere,
		free:      unlessBlocked((*planner).attach),
		attaching: unlessBlocked((*planner).awaitAttach),
		attached:  unlessBlocked((*planner).updateInPlace),
		detaching: (*planner).awaitDetach,
		launched:  (*planner).updateLaunched,
	},
	Release: {
		absent:    (*planner).forget,
		creating:  (*planner).awaitAnswer,
		missing:   (*planner).forgetMissing,
		elsewhere: removing((*planner).awaitReturn),
		free:      removing((*planner).delete),
		attaching: removing((*planner).cancelAttach),
		attached:  removing((*planner).detach),
		detaching: removing((*planner).finishDetach),
		launched:  (*planner).forgetLaunched,
	},
	Keep: {
		absent:    (*planner).keep,
		creating:  (*planner).awaitAnswer,
		missing:   (*planner).keep,
		elsewhere: (*planner).keepElsewhere,
		free:      (*planner).keep,
		attaching: (*planner).keep,
		attached:  (*planner).keep,
		detaching: (*planner).keep,
		launched:  (*planner).keep,
	},
}

// next returns the step of an object.
func (p *planner) next(m *item) step {
	s := m.begin()
	switch {
	case m.record == nil || m.evidence == Unknown:
	case m.evidence == Created && m.Goal == Serve: // EC2 binds it to the client token, so that no record is necessary
	default:
		return s.wait(p.untilRecorded(m))
	}
	return rules[m.Goal][p.situationOf(m)](p, s)
}

// untilRecorded waits until the object records the interface that it takes over.
func (p *planner) untilRecorded(m *item) wait {
	return wait{until: p.now.Add(uncertainRecheck), why: Problem{InProgress, message.RecordedFirst(m.record.ID)}}
}

// situationOf returns the situation of an object.
func (p *planner) situationOf(m *item) situation {
	r := m.record
	switch {
	case r == nil && m.ENIID != "":
		return missing
	case r == nil && p.creating(m.Key.UID) != nil:
		return creating
	case r == nil:
		return absent
	case m.isLaunched:
		return launched
	case r.Missing:
		return missing
	case r.Attachment != nil && !r.AttachedTo(p.instanceID) && r.Attachment.Status != eni.AttachmentDetached:
		return elsewhere
	}
	switch phaseOf(r.Interface) {
	case Detaching:
		return detaching
	case Attaching:
		return attaching
	case Attached:
		return attached
	default:
		return free
	}
}

// unlessBlocked returns the rule for an existing interface without an obstacle, and whose last call did not just fail.
func unlessBlocked(rule rule) rule {
	return func(p *planner, s step) step {
		if s.Phase == Pending {
			s.Phase = Attaching
		}
		if s.m.problem != nil {
			return p.blockOn(s)
		}
		if backoff := p.backoff(s.m); backoff != nil && !p.Attempts[s.Key.UID].Failure.isRemoval() {
			return s.wait(*backoff)
		}
		return rule(p, s)
	}
}

// keep leaves an interface as it is. An object that records none still takes one over.
func (p *planner) keep(s step) step {
	if awaited := s.m.awaited; awaited != nil {
		s.needsRead = s.needsRead || awaited.needsRead
		s = s.requeue(awaited.until)
	}
	if s.m.Interface.Problem != nil {
		s.Problem = *s.m.Interface.Problem
	}
	return s
}

// keepElsewhere leaves an interface to another instance. A paused object stays ready only while the instance has its
// interface.
func (p *planner) keepElsewhere(s step) step {
	s.Phase = Blocked
	return p.keep(s)
}

// awaitAnswer says that EC2 has not answered a create call yet.
func (p *planner) awaitAnswer(s step) step {
	s.Phase = Creating
	s.Problem = Problem{InProgress, message.NoAnswer}
	return s
}

// progress says that EC2 is changing the interface, and that the observer polls it.
func (p *planner) progress(s step) step {
	switch {
	case s.Problem.Reason != "":
	case s.m.record.FailedAttaches >= maxAttachRetries:
		s.Problem = p.stuck(s.m)
	default:
		s.Problem = Problem{InProgress, message.InProgress(s.m.record.Interface)}
	}
	return s.requeue(p.now.Add(pollRecheck))
}

// blockOn names the obstacle of an object, and requeues: no event reports that a foreign interface was removed, or that
// an instance without the interface ended.
func (p *planner) blockOn(s step) step {
	s = s.because(*s.m.problem)
	switch reason := s.Problem.Reason; {
	case reason == InProgress:
		return s.requeue(p.now.Add(uncertainRecheck))
	case s.m.record != nil, slices.Contains([]Reason{SlotTaken, InstanceFull, NotImported, InstanceOutsideCluster},
		reason):
		return s.requeue(p.now.Add(foreignSlotRecheck))
	}
	return s
}
