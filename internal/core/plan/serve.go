// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/message"
)

// create creates the interface of an object without one, once its slot is certain.
func (p *planner) create(s step) step {
	m := s.m
	failure := p.failure(m)
	switch {
	case failure.Class == eni.IdempotencyMismatch:
		return p.awaitCreated(s, failure)
	case m.awaited != nil:
		return s.wait(*m.awaited)
	case m.problem != nil && m.again == nil:
		return p.blockOn(s)
	case p.Snapshot != nil && !p.attachable(m):
		return s.wait(p.instanceNotReady())
	}
	if obstacle := p.creationDelay(m); obstacle != nil {
		return s.wait(*obstacle)
	}
	subnet, obstacle := p.subnetFor(m, failure)
	if obstacle != nil {
		return s.wait(*obstacle)
	}
	s.Phase = Creating
	return s.act(m.create(subnet))
}

// create returns the call that creates the interface of the object. EC2 answers a repetition with the same interface.
func (m *item) create(subnetID string) Create {
	return Create{Key: m.Key, SubnetID: subnetID, Slot: m.slot, Spec: m.Settings.Spec, Tags: m.Tags}
}

// subnetFor returns the subnet for the next attempt to create an interface, or why there is none. After a full subnet
// the planner tries the next one at once; after the last one, it waits for the backoff. A repetition has the subnet of
// the first attempt.
func (p *planner) subnetFor(m *item, failure Failure) (string, *wait) {
	tried := 0
	if IsFull(failure.Class) {
		tried = failure.Count % len(m.Settings.Subnets)
	}
	backoff := p.backoff(m)
	switch {
	case m.again != nil && backoff == nil:
		return m.again.SubnetID, nil
	case tried == 0 && backoff != nil:
		return "", backoff
	}
	subnet, freeAt := p.subnetWithCapacity(m, tried)
	if subnet == "" {
		return "", &wait{why: p.noRoom(m), until: freeAt}
	}
	return subnet, nil
}

// awaitCreated is the rule after EC2 refused the client token, because it was used with other parameters: an earlier
// attempt created an interface, for example before an edit of the NodeENI. The object is spent unless EC2 returns that
// interface. A booting node does not wait for one that an earlier attempt deleted.
func (p *planner) awaitCreated(s step, failure Failure) step {
	visible := failure.At.Add(inventory.VisibilityWindow)
	if s.Key.UID.IsNetwork() && !s.m.Settings.LowestFree {
		visible = failure.At
	}
	isRead := p.Snapshot != nil && !p.Snapshot.At.Before(visible)
	switch {
	case s.m.awaited != nil:
		return s.wait(*s.m.awaited)
	case isRead, s.Key.UID.IsNetwork() && visible.Equal(failure.At):
		s.spent = true
		return s.because(Problem{Retrying, message.NotReturned})
	}
	return s.wait(wait{
		why:       Problem{NotVisible, message.MayBeCreated(inventory.VisibilityWindow)},
		until:     earlier(p.now.Add(uncertainRecheck/5), later(visible, p.now.Add(time.Second))),
		needsRead: p.Snapshot == nil,
	})
}

// subnetWithCapacity returns the first of the allowed subnets that is not known to be full, starting at the given one.
// If all are full, it returns the time of the next attempt.
func (p *planner) subnetWithCapacity(m *item, from int) (subnet string, freeAt time.Time) {
	for n := range m.Settings.Subnets {
		id := m.Settings.Subnets[(from+n)%len(m.Settings.Subnets)]
		until := p.FullSubnets[DemandOf(m.Key.NodeENI, id, m.Settings.Spec)].Until
		if !p.now.Before(until) {
			return id, time.Time{}
		}
		freeAt = earlier(freeAt, until)
	}
	return "", freeAt
}

// failure returns the failure of the object's last call. It returns none if EC2 refused the call and the object needs a
// different one by now, for example because a user corrected the NodeENI.
func (p *planner) failure(m *item) Failure {
	failure := p.Attempts[m.Key.UID].Failure
	withoutPrefixes := failure.Class == eni.NoPrefixes && m.record == nil && !hasPrefixes(m.Settings.Spec)
	if withoutPrefixes || NeedsCorrection(failure.Class) && p.isCorrected(m, failure.Call) {
		return Failure{}
	}
	return failure
}

// isCorrected reports whether the object no longer needs the call that EC2 refused.
func (p *planner) isCorrected(m *item, refused Call) bool {
	if m.Goal != Serve {
		return false
	}
	switch refused := refused.(type) {
	case Create:
		return m.record != nil || !slices.ContainsFunc(m.Settings.Subnets, func(id string) bool {
			return requests(Create{SubnetID: id, Spec: m.Settings.Spec}, refused)
		})
	case Attach:
		return refused.ENAExpress != "" // the next attempt does without
	default:
		return false
	}
}

// noRoom says that EC2 can create no interface in any of the allowed subnets. The text does not depend on which node
// found out and when. A subnet without a block for a prefix takes precedence over one without addresses, because it
// explains more.
func (p *planner) noRoom(m *item) Problem {
	subnets := m.Settings.Subnets
	noPrefix := p.Attempts[m.Key.UID].Failure.Class == eni.NoPrefixes
	for _, id := range subnets {
		noPrefix = noPrefix || p.FullSubnets[DemandOf(m.Key.NodeENI, id, m.Settings.Spec)].Class == eni.NoPrefixes
	}
	if noPrefix {
		return Problem{NoFreePrefix, message.NoFreePrefix(subnets, SubnetFullBackoff)}
	}
	return Problem{SubnetFull, message.SubnetFull(subnets, m.Settings.AddressCounts, SubnetFullBackoff)}
}

// creationDelay returns why the creation of another interface has to wait, or nil. An attempt that may have created one
// is repeated at once.
func (p *planner) creationDelay(m *item) *wait {
	soon := p.now.Add(uncertainRecheck)
	switch {
	case m.again != nil:
		return nil
	case p.CreationBlocked != "":
		return &wait{until: soon, why: Problem{TooManyUnattached, p.CreationBlocked}}
	case p.unattached >= MaxUnattached: // each change of theirs is an event of the instance
		return &wait{until: p.now.Add(foreignSlotRecheck), why: Problem{InProgress, message.ManyUnattached(p.unattached)}}
	case len(m.Settings.Subnets) == 0:
		return &wait{until: soon, why: Problem{NoSubnetInZone, message.NoSubnet}}
	}
	return nil
}

// backoff returns the wait after the object's last failure, or nil.
func (p *planner) backoff(m *item) *wait {
	failure := p.failure(m)
	if failure.Count == 0 || !p.now.Before(failure.Retry()) {
		return nil
	}
	w := wait{why: failure.problem(), until: failure.Retry()}
	if IsFull(failure.Class) && m.record == nil {
		w.why = p.noRoom(m)
	}
	if failure.Class == eni.SlotTaken && m.Goal == Serve && !m.hasSlot() && !m.Settings.ExactSlot {
		// Only a fresh read shows whether a slot without a refusal is left.
		w.needsRead = p.Snapshot == nil
		if full := p.slots.wouldBeFull(m.Settings.Slot); full != nil {
			w.why = *full
		}
	}
	return &w
}

// attachable reports whether EC2 accepts an attach call for the instance. That depends on the true state of the
// instance, which reads may not show yet. EC2 answers a wrong guess with [eni.WrongState].
func (p *planner) attachable(m *item) bool {
	state := p.Snapshot.Instance.State
	return state.Attachable() || state == eni.InstancePending && m.Registered
}

func (p *planner) instanceNotReady() wait {
	why := message.InstanceNotReady(p.instanceID, p.Snapshot.Instance.State)
	return wait{why: Problem{InstanceNotReady, why}, until: p.now.Add(uncertainRecheck)}
}

// renew is the rule for a wanted interface that EC2 does not show. An object has one interface in its life, so that it
// is spent once that interface is certainly gone. The tag of the cluster is the permission to call EC2 for an
// interface, so one without it is gone as well.
func (p *planner) renew(s step) step {
	vanished, s := p.hasVanished(s)
	again := s.m.Since.Add(RecreateAfter)
	switch {
	case !vanished:
	case p.now.Before(again):
		s.Phase = Pending
		return s.wait(wait{until: again,
			why: Problem{RemovedExternally, message.RemovedExternally(s.m.ENIID, RecreateAfter)}})
	default:
		s.spent, s.gone = true, true
	}
	return s
}

// hasVanished reports whether the interface that an object records certainly does not exist any more. The inventory
// drops one that two reads omitted. A new process that does not know the interface waits until EC2 returns all that
// earlier leaders created.
func (p *planner) hasVanished(s step) (bool, step) {
	m := s.m
	s.Problem = Problem{NotVisible, message.NotVisible(m.interfaceID())}
	visible := p.Era.VisibleAt()
	switch {
	case m.record != nil:
	case p.Snapshot == nil:
		s.needsRead = !p.now.Before(visible)
	case !p.Snapshot.At.Before(visible) && !p.showsOwned(m.ENIID):
		return true, s
	}
	return false, s.requeue(p.now.Add(uncertainRecheck))
}

// interfaceID returns the ID of the object's interface; empty without one.
func (m *item) interfaceID() string {
	if m.record != nil {
		return m.record.ID
	}
	return m.ENIID
}

// showsOwned reports whether the read has an interface of the cluster with the ID.
func (p *planner) showsOwned(id string) bool {
	return slices.ContainsFunc(p.Snapshot.Interfaces, func(i eni.Interface) bool {
		_, verdict := identity.Read(p.cluster, i.Tags)
		return i.ID == id && verdict != identity.Foreign
	})
}

// attach attaches an interface, once the instance and the slot allow it.
func (p *planner) attach(s step) step {
	m := s.m
	switch {
	case m.record.Status == eni.Pending:
		return p.progress(s)
	case p.Snapshot != nil && !p.attachable(m):
		return s.wait(p.instanceNotReady())
	case p.now.Before(m.attachAfter()):
		return s.wait(wait{why: p.stuck(m), until: m.attachAfter()})
	case p.isRefusedUpdate(m): // for example, an interface needs its security groups before it serves
		return p.updateInPlace(s)
	}
	return p.updateInPlace(s).act(Attach{Key: m.Key, InterfaceID: m.record.ID, Slot: m.slot,
		ENAExpress: p.expressOfAttach(m)})
}

// awaitAttach waits for EC2 to attach an interface. One that EC2 does not attach is given up with its object: only the
// interface of a final object is detached.
func (p *planner) awaitAttach(s step) step {
	if !p.overdue(s.m) {
		return p.progress(p.updateInPlace(s))
	}
	s = s.because(p.stuck(s.m))
	return p.giveUp(s)
}

// awaitDetach waits for EC2 to detach an interface that another program detaches, and gives up one that EC2 does not
// detach.
func (p *planner) awaitDetach(s step) step {
	s = p.progress(s)
	if since := s.m.record.DetachingSince; since.IsZero() || p.lastRead(s.m).Sub(since) < ForcedDetachAfter {
		return s
	}
	return p.giveUp(s)
}

// giveUp gives up an object whose interface EC2 does not complete, once the object is old enough. Pods and programs
// that use it end first: the object takes no further ones, and the interface stays until then. An instance without a
// Node waits for its interfaces.
func (p *planner) giveUp(s step) step {
	at := s.m.Since.Add(RecreateAfter)
	switch {
	case p.Snapshot == nil:
		s.needsRead = true
		return s.requeue(p.now.Add(uncertainRecheck))
	case p.now.Before(at) && !s.Key.UID.IsNetwork():
		return s.requeue(at)
	}
	s.spent = true
	return s
}

// blockElsewhere says that an interface serves another instance.
func (p *planner) blockElsewhere(s step) step {
	i := s.m.record.Interface
	s.Phase = Blocked
	s.Problem = Problem{AttachedElsewhere, message.AttachedElsewhere(i.ID, i.Attachment.InstanceID)}
	return s.requeue(p.now.Add(ForcedDetachAfter))
}

// overdue reports whether an attach takes too long.
func (p *planner) overdue(m *item) bool {
	since := m.record.AttachingSince
	return m.record.Attachment != nil && !since.IsZero() && p.lastRead(m).Sub(since) >= AttachTimeout
}

// lastRead returns the time of the state that the plan has of an interface. Without a snapshot it is now, so that the
// plan requests one; with one it is the time of the last read that was not stale.
func (p *planner) lastRead(m *item) time.Time {
	if p.Snapshot != nil {
		return m.record.LastRead
	}
	return p.now
}

// attachAfter returns the time of the next attempt to attach an interface after several that EC2 did not complete.
func (m *item) attachAfter() time.Time {
	if m.record.FailedAttaches < maxAttachRetries {
		return time.Time{}
	}
	wait := foreignSlotRecheck << min(m.record.FailedAttaches-maxAttachRetries, 3)
	return m.record.LastFailedAttach.Add(min(wait, maxBackoff))
}

// stuck says that EC2 does not complete the attach.
func (p *planner) stuck(m *item) Problem {
	if m.record.Attachment == nil {
		return Problem{AttachStuck, message.AttachFailed(m.record.ID, p.instanceID, m.record.FailedAttaches)}
	}
	return Problem{AttachStuck, message.AttachOverdue(m.record.ID, p.instanceID, AttachTimeout, RecreateAfter)}
}
