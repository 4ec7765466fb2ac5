// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/message"
)

// removing returns the rule for an interface that is being removed. A refused earlier removal delays it.
func removing(rule rule) rule {
	return func(p *planner, s step) step {
		s.Problem = Problem{Removing, message.Removing(s.m.record.ID, p.ended)}
		if backoff := p.backoff(s.m); p.Attempts[s.Key.UID].Failure.isRemoval() && backoff != nil {
			return s.wait(*backoff)
		}
		return rule(p, s)
	}
}

// forget is the rule for an object without an interface that is being deleted. The object stays while EC2 may have an
// interface that was created for it.
func (p *planner) forget(s step) step {
	switch backoff := p.backoff(s.m); {
	case s.m.awaited != nil:
		return s.wait(*s.m.awaited)
	case s.m.again != nil && backoff != nil:
		return s.wait(*backoff)
	case s.m.again != nil: // EC2's answer is the proof that no pod uses it, so that its removal waits for no agent
		return s.act(s.m.create(s.m.again.SubnetID))
	}
	visible := p.Attempts[s.Key.UID].Asked
	if !visible.IsZero() {
		visible = visible.Add(inventory.VisibilityWindow)
	}
	if s.m.Inherited || p.isOlder(s.m) {
		visible = later(visible, p.Era.VisibleAt())
	}
	switch {
	case visible.IsZero(), p.Snapshot != nil && !p.Snapshot.At.Before(visible):
		s.gone = true
		return s
	case p.now.Before(visible):
		return s.wait(wait{until: visible, why: Problem{NotVisible, message.MayExist(inventory.VisibilityWindow)}})
	default:
		s.needsRead = p.Snapshot == nil
		return s.requeue(p.now.Add(uncertainRecheck))
	}
}

// isOlder reports whether an object is older than this leader: a restored etcd returns objects after the first list.
// The times of the API server are whole seconds.
func (p *planner) isOlder(m *item) bool { return m.Since.Before(p.Era.Since.Truncate(time.Second)) }

// forgetMissing is the rule for an interface that is being removed and that EC2 does not show. A controller with an old
// cache may have created another one for the object after it vanished. It is not attached, since no object records it.
func (p *planner) forgetMissing(s step) step {
	again := slices.IndexFunc(p.Interfaces, func(r inventory.Record) bool {
		return r.CreatedFor == s.Key.UID && r.ID != s.m.ENIID && !r.Missing
	})
	if again >= 0 {
		return s.act(Delete{Key: s.Key, InterfaceID: p.Interfaces[again].ID, Why: message.WhyRemoved(p.ended)})
	}
	if s.m.ENIID != "" && p.Attempts[s.Key.UID].Deleted == s.m.ENIID {
		s.gone = true // by EC2's answer
		return s
	}
	vanished, s := p.hasVanished(s)
	s.gone = vanished
	return s
}

// forgetLaunched is the rule for a launch interface whose object is being deleted. It stays with its instance.
func (p *planner) forgetLaunched(s step) step {
	if p.isHeld(s.m) {
		return p.waitForRelease(s)
	}
	s.gone = true
	return s
}

// isHeld reports whether pods or programs may use the interface. None runs on an instance that has ended.
func (p *planner) isHeld(m *item) bool { return m.Held && !p.ended }

// waitForRelease waits until no pod and no program can use an interface whose object is being deleted.
func (p *planner) waitForRelease(s step) step {
	s.Problem = Problem{InUseByPods, message.InUseByPods(s.m.record.ID, s.m.isLaunched)}
	return s
}

// awaitReturn waits for a person to detach an interface from another instance.
func (p *planner) awaitReturn(s step) step {
	i := s.m.record.Interface
	s.Problem.Message = message.RemovedElsewhere(i.ID, i.Attachment.InstanceID)
	return s.requeue(p.now.Add(ForcedDetachAfter))
}

// delete deletes an unattached interface, once EC2 allows it. One that is held may have left an instance that has
// ended, which only a read of the instance shows.
func (p *planner) delete(s step) step {
	switch {
	case p.isHeld(s.m):
		s.needsRead = p.Snapshot == nil
		return p.waitForRelease(s)
	case s.m.record.Status != eni.Available:
		return p.progress(s)
	}
	s.Phase = Deleting
	return s.act(Delete{Key: s.Key, InterfaceID: s.m.record.ID, Why: message.WhyRemoved(p.ended)})
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
	switch {
	case p.ended:
		return p.awaitTermination(p.progress(s))
	case p.isHeld(s.m):
		return p.waitForRelease(s)
	}
	s.Phase = Detaching
	return s.announceForce().act(Detach{Key: s.Key, InterfaceID: s.m.record.ID,
		AttachmentID: s.m.record.Attachment.ID, Why: message.WhyRemoved(p.ended)})
}

// finishDetach waits for EC2 to detach an interface that is being removed, and forces a detach that takes too long.
func (p *planner) finishDetach(s step) step {
	switch {
	case s.m.record.Attachment == nil:
		return p.progress(s)
	case p.ended:
		return p.awaitTermination(p.progress(s))
	case p.isHeld(s.m):
		return p.waitForRelease(s)
	default:
		return p.forceIfStuck(p.progress(s.announceForce()))
	}
}

// awaitTermination plans again soon if the instance has ended: no event says that EC2 deleted an interface with it.
func (p *planner) awaitTermination(s step) step {
	if !p.ended {
		return s
	}
	return s.requeue(p.now.Add(terminationRecheck))
}

// announceForce announces a forced detach while a person can still act.
func (s step) announceForce() step {
	s.Problem.Message = message.Detaching(s.m.record.ID, ForcedDetachAfter)
	return s
}

// forceIfStuck forces the detach of an interface that EC2 does not detach otherwise.
func (p *planner) forceIfStuck(s step) step {
	since := s.m.record.DetachingSince
	if since.IsZero() || p.lastRead(s.m).Sub(since) < ForcedDetachAfter {
		return s
	}
	return s.act(Detach{Key: s.Key, InterfaceID: s.m.record.ID, AttachmentID: s.m.record.Attachment.ID, Force: true,
		Why: message.WhyForced(since)})
}
