// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
)

// remove removes an interface: plain detach, wait, delete. A forced detach is the last resort.
func (p *planner) remove(s step) step {
	m, i := s.m, s.m.Record.Interface
	s.Desired = m.Settings != nil
	s.Why = Problem{Removing, fmt.Sprintf("%s is being removed: %s", i.ID, m.Why.Message)}
	_, s.DrainPods = p.podsDraining(m)
	if i.Attachment != nil && !i.AttachedTo(p.InstanceID) {
		s.Why.Message = fmt.Sprintf("%s must be removed, but another program attached it to %s; detach it there", i.ID,
			i.Attachment.InstanceID)
		return s.requeue(p.now.Add(ForcedDetachAfter))
	}
	if backoff := p.backoff(m); p.Backoffs[m.Key].Removal && backoff != nil {
		return s.wait(*backoff)
	}
	switch {
	case i.Attachment == nil && i.Status == eni.Available:
		s.Phase = Deleting
		return s.act(Delete{Member: m.Member.Member, InterfaceID: i.ID, Why: m.Why.Message})
	case p.ended && i.Attachment != nil:
		return p.progress(s).requeue(p.now.Add(terminationRecheck))
	case i.Attachment == nil, i.Attachment.Status == eni.AttachmentAttaching && !p.overdue(m):
		return p.progress(s)
	case i.Attachment.Status == eni.AttachmentDetaching:
		return p.forceIfStuck(p.progress(s.announceForce()))
	case p.keptForPods(m):
		return p.waitForPods(s)
	case !p.ended && p.Stored[i.ID].DeviceInUse:
		return p.waitForRelease(s)
	}
	s.Phase = Detaching
	return s.announceForce().act(Detach{
		Member: m.Member.Member, InterfaceID: i.ID, AttachmentID: i.Attachment.ID, Why: m.Why.Message,
	})
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
