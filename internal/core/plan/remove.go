// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
)

// removing returns the rule for an interface that is being removed. A refused earlier removal delays it.
func removing(rule rule) rule {
	return func(p *planner, s step) step {
		s = p.beginRemoval(s)
		if backoff := p.backoff(s.m); p.Backoffs[s.m.Key].Removal && backoff != nil {
			return s.wait(*backoff)
		}
		return rule(p, s)
	}
}

// beginRemoval returns the step of an interface that is being removed.
func (p *planner) beginRemoval(s step) step {
	s.Desired = s.m.Settings != nil
	s.Why = Problem{Removing, fmt.Sprintf("%s is being removed: %s", s.m.Record.ID, s.m.Why.Message)}
	_, s.DrainPods = p.podsDraining(s.m)
	return s
}

// awaitReturn waits for a person to detach an interface from another instance.
func (p *planner) awaitReturn(s step) step {
	i := s.m.Record.Interface
	s = p.beginRemoval(s)
	s.Why.Message = fmt.Sprintf("%s must be removed, but another program attached it to %s; detach it there", i.ID,
		i.Attachment.InstanceID)
	return s.requeue(p.now.Add(ForcedDetachAfter))
}

// delete deletes an unattached interface, once EC2 allows it.
func (p *planner) delete(s step) step {
	if s.m.Record.Status != eni.Available {
		return p.progress(s)
	}
	s.Phase = Deleting
	return s.act(Delete{Member: s.m.Member.Member, InterfaceID: s.m.Record.ID, Why: s.m.Why.Message})
}

// cancelAttach waits for EC2 to attach an interface that is being removed, and detaches it if that takes too long.
func (p *planner) cancelAttach(s step) step {
	if !p.ended && p.overdue(s.m) {
		return p.detach(s)
	}
	return p.awaitTermination(p.progress(s))
}

// detach detaches an interface, once pods and programs on the node have released it. A forced detach is the last
// resort. EC2 detaches the interfaces of an instance that has ended.
func (p *planner) detach(s step) step {
	m := s.m
	switch {
	case p.ended:
		return p.awaitTermination(p.progress(s))
	case p.keptForPods(m):
		return p.waitForPods(s)
	case p.Stored[m.Record.ID].DeviceInUse:
		return p.waitForRelease(s)
	}
	s.Phase = Detaching
	return s.announceForce().act(Detach{
		Member: m.Member.Member, InterfaceID: m.Record.ID, AttachmentID: m.Record.Attachment.ID, Why: m.Why.Message,
	})
}

// finishDetach waits for EC2 to detach an interface that is being removed, and forces a detach that takes too long.
func (p *planner) finishDetach(s step) step {
	switch {
	case s.m.Record.Attachment == nil:
		return p.progress(s)
	case p.ended:
		return p.awaitTermination(p.progress(s))
	default:
		return p.awaitDetach(s.announceForce())
	}
}

// awaitTermination plans again soon if the instance has ended: no event says that EC2 deleted an interface with it.
func (p *planner) awaitTermination(s step) step {
	if !p.ended {
		return s
	}
	return s.requeue(p.now.Add(terminationRecheck))
}

// waitForRelease waits until the node has released the device of an interface.
func (p *planner) waitForRelease(s step) step {
	s.Phase = Detaching // makes the node release the device
	s.Why = Problem{WaitingForDeviceRelease,
		fmt.Sprintf("%s will be removed (%s), and is detached when the node has released it: %s",
			s.m.Record.ID, s.m.Why.Message, cmp.Or(p.Stored[s.m.Record.ID].DeviceMessage, "a program in user space drives it"))}
	s.needsFreshRead = p.Snapshot == nil // release the device only for a detach that EC2's own state allows
	return s.requeue(p.now.Add(foreignSlotRecheck))
}

// announceForce announces a forced detach while a person can still act.
func (s step) announceForce() step {
	s.Why.Message += fmt.Sprintf("; if EC2 has not detached it %s after the request, multieni forces the detach",
		ForcedDetachAfter)
	return s
}

// forceIfStuck forces the detach of an interface that EC2 does not detach otherwise.
func (p *planner) forceIfStuck(s step) step {
	m, since := s.m, s.m.Record.DetachingSince
	if m.Record.Attachment == nil || since.IsZero() || p.lastRead(m).Sub(since) < ForcedDetachAfter {
		return s
	}
	return s.act(Detach{
		Member: m.Member.Member, InterfaceID: m.Record.ID, AttachmentID: m.Record.Attachment.ID, Force: true,
		Why: fmt.Sprintf("%s, and a plain detach has not completed since %s",
			cmp.Or(m.Why.Message, "it must be attached again"), since.UTC().Format(time.RFC3339)),
	})
}
