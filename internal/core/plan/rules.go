// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	"github.com/multieni/multieni/internal/core/eni"
)

// situation is what is known of the interface of a member.
type situation int

const (
	// absent: no interface exists, and no call to create one is in flight.
	absent situation = iota
	// creating: EC2 has not answered the call to create it.
	creating
	// pending: EC2 is creating it.
	pending
	// missing: EC2's last answer omits it.
	missing
	// elsewhere: it is attached to another instance.
	elsewhere
	free
	attaching
	attached
	detaching
	// launched: a launch interface serves instead.
	launched
	situations
)

// rule is what the planner does about a member in a situation. It returns the given step with what it adds.
type rule func(*planner, step) step

// rules has the rule for each goal and situation. They alone choose it, and it decides whether its time has come.
// A member to retain or release exists, and only one to ensure has a launch interface.
var rules = [goals][situations]rule{
	Ensure: {
		absent:    (*planner).create,
		creating:  (*planner).awaitAnswer,
		pending:   serving((*planner).progress),
		missing:   (*planner).awaitRead,
		elsewhere: serving((*planner).blockElsewhere),
		free:      serving(unlessBlocked((*planner).attach)),
		attaching: serving(unlessBlocked((*planner).awaitAttach)),
		attached:  serving(unlessBlocked((*planner).updateInPlace)),
		detaching: serving((*planner).awaitDetach),
		launched:  (*planner).retainLaunchInterface,
	},
	Release: {
		creating:  (*planner).awaitAnswer,
		pending:   removing((*planner).progress),
		missing:   (*planner).awaitRead,
		elsewhere: (*planner).awaitReturn,
		free:      removing((*planner).delete),
		attaching: removing((*planner).cancelAttach),
		attached:  removing((*planner).detach),
		detaching: removing((*planner).finishDetach),
	},
	Retain: {
		creating:  (*planner).awaitAnswer,
		pending:   (*planner).retain,
		missing:   (*planner).awaitRead,
		elsewhere: (*planner).retain,
		free:      (*planner).retain,
		attaching: (*planner).retain,
		attached:  (*planner).retain,
		detaching: (*planner).retain,
	},
}

// next returns the step of a member.
func (p *planner) next(m *Interface) step {
	return rules[m.Goal][p.situationOf(m)](p, m.begin(phase(m)))
}

// situationOf returns the situation of a member.
func (p *planner) situationOf(m *Interface) situation {
	switch {
	case m.Launched != nil:
		return launched
	case m.Record == nil:
		return absent
	case m.Record.ID == "":
		return creating
	case m.Record.Missing:
		return missing
	case m.Record.Attachment != nil && !m.Record.AttachedTo(p.InstanceID):
		return elsewhere
	case phaseOf(m.Record.Interface) == Detaching:
		return detaching
	case m.Record.Status == eni.Pending:
		return pending
	case m.Record.Attachment == nil:
		return free
	case m.Record.Attachment.Status == eni.AttachmentAttached:
		return attached
	default:
		return attaching
	}
}

// phase returns the phase of a member before its rule.
func phase(m *Interface) Phase {
	switch {
	case m.Launched != nil:
		return phaseOf(*m.Launched)
	case m.Record == nil:
		return Pending
	default:
		return phaseOf(m.Record.Interface)
	}
}

// serving returns the rule for an existing interface that is desired: the ledger names it, and an attach call follows.
func serving(rule rule) rule {
	return func(p *planner, s step) step {
		if s.Phase == Pending {
			s.Phase = Attaching
		}
		return rule(p, s.record())
	}
}

// unlessBlocked returns the rule for an existing interface without an obstacle, and whose last call did not just fail.
func unlessBlocked(rule rule) rule {
	return func(p *planner, s step) step {
		if s.m.Problem != nil {
			return p.blockOn(s)
		}
		if backoff := p.changeBackoff(s.m); backoff != nil {
			return s.wait(*backoff)
		}
		return rule(p, s)
	}
}

// retain leaves an interface as it is.
func (p *planner) retain(s step) step {
	s.recorded, s.requeueAt = !s.m.Unverified, s.m.RequeueAt
	return s
}

// awaitRead waits for another read of the instance.
func (p *planner) awaitRead(s step) step {
	s.Why = Problem{NotVisible, fmt.Sprintf(
		"EC2's last answer omits %s; multieni reads it again before it treats it as deleted", s.m.Record.ID)}
	return s.requeue(p.now.Add(uncertainRecheck))
}

// awaitAnswer says that EC2 has not answered a create call yet.
func (p *planner) awaitAnswer(s step) step {
	s.Phase, s.Interface = Creating, nil
	s.Why = Problem{InProgress, "EC2 was asked to make the interface and has not answered yet"}
	return s
}
