// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
)

// step decides the phase of a member and its actions.
func (p *planner) step(m *member) {
	switch {
	case m.launchInterface != nil:
		p.retainLaunchInterfaces(m)
	case m.record == nil:
		p.create(m)
	case m.record.ID == "":
		p.awaitAnswer(m)
	case m.record.Missing:
		m.Phase = phaseOf(m.record.Interface)
		m.Why = Problem{NotVisible, fmt.Sprintf("EC2's last answer does not show %s; it is looked for again before anything is concluded", m.record.ID)}
		p.requeueAt(p.now.Add(uncertainRecheck))
	case m.removeReason != "":
		p.remove(m)
	case m.withoutSubnet != "":
		m.Phase = phaseOf(m.record.Interface)
		m.Why = Problem{Drifted, fmt.Sprintf("%s in %s stays as it is, although %s, by which it goes", m.record.ID, m.record.SubnetID, m.withoutSubnet)}
		p.record(m)
	case m.desired == nil:
		m.Phase = phaseOf(m.record.Interface)
		m.Why = Problem{Retained, p.whyRetained(m)}
		if !m.Unverified {
			p.record(m)
		}
		switch {
		case m.needsFreshRead:
			p.requeueAt(p.now.Add(uncertainRecheck))
		case m.claim.Leaked && m.claim.Mode == Release && identity.PastMinLeakAge(m.record.Tags, p.now):
			m.Why.Reason = Orphaned
			p.requeueAt(minTime(m.claim.MissingSince.Add(m.claim.Grace), p.now.Add(identity.AttachedOrphanGrace)))
		}
	default:
		p.record(m)
		p.reconcileExisting(m)
		m.explainDrift(p)
	}
}

// phaseIn returns the phase of a member whose step may not have been computed yet.
func phaseIn(m *member) string {
	switch {
	case m.problem != nil:
		return fmt.Sprintf("%s: %s", Blocked, m.problem.Message)
	case m.record == nil:
		return string(Pending)
	default:
		return string(phaseOf(m.record.Interface))
	}
}

func (p *planner) whyRetained(m *member) string {
	if m.needsFreshRead {
		return fmt.Sprintf("%s is left as it is until EC2 has shown for certain which interface takes its place", m.record.ID)
	}
	if m.claim.Leaked && identity.PastMinLeakAge(m.record.Tags, p.now) {
		return fmt.Sprintf("NodeENI %s, which %s was made for, does not exist any more; it is left attached for %s after that was first found, since workloads may use it; create the NodeENI again, which takes it over, or set the annotation %s on the node",
			m.NodeENI, m.record.ID, m.claim.Grace, identity.Prefix+"paused")
	}
	if m.claim.Leaked {
		return fmt.Sprintf("%s is left as it is: its %s tag does not say that it is older than %s", m.record.ID, identity.TagCreatedAt, identity.MinLeakAge)
	}
	if m.claim.Why != "" {
		return fmt.Sprintf("%s is left as it is: %s", m.record.ID, m.claim.Why)
	}
	return fmt.Sprintf("%s is left as it is: not all selectors of its NodeENI could be resolved", m.record.ID)
}

// record adds an existing interface to the ledger, so that the ledger is complete again after a loss.
func (p *planner) record(m *member) {
	if p.plan.Ledger[m.Key] < m.Generation {
		p.plan.Ledger[m.Key] = m.Generation
	}
}

// create creates the interface of a member without one, once its slot is certain.
func (p *planner) create(m *member) {
	m.Phase = Pending
	if m.problem != nil {
		p.blockOn(m)
		return
	}
	if p.Snapshot != nil && !p.attachable() {
		p.waitForInstance(m)
		return
	}
	if p.isBackingOff(m) {
		return
	}
	setback := p.Backoffs[m.Key]
	failed := setback.Count > 0
	if failed && p.createMayBePending(m, setback) {
		return
	}
	tried := 0
	if failed && setback.Class == eni.NoAddresses {
		tried = setback.Count % len(m.desired.Subnets)
	}
	// After one full subnet the next one is tried at once; after the last one, the backoff comes first.
	if tried == 0 && p.mustWait(m) {
		return
	}
	subnet, ok := p.subnetWithCapacity(m, tried)
	if !ok {
		return
	}
	generation := p.generation(m, setback)
	if generation > identity.MaxGeneration {
		m.setReason(Problem{RefusedByEC2, fmt.Sprintf("its last interface had the highest generation that there is in its tag %s, which somebody else wrote; delete the NodeENIState of the node, and restart the controller", identity.TagGeneration)})
		p.requeueAt(p.now.Add(foreignSlotRecheck))
		return
	}
	m.Phase, m.Generation = Creating, generation
	p.plan.Ledger[m.Key] = m.Generation
	p.unattached++
	p.plan.Actions = append(p.plan.Actions, Create{Member: m.Member.Member, SubnetID: subnet, Slot: m.Slot, Spec: m.desired.Spec})
}

// createMayBePending reports whether an earlier attempt created the interface, and EC2 does not return it yet. EC2
// reports a token as spent if it was used with other parameters, for example before an edit of the NodeENI. The
// controller of that attempt may have attached the interface and ended; a ledger with the next generation would be no
// evidence for it. An interface of a network needs no evidence, and a booting node does not wait for one that an
// earlier attempt deleted.
func (p *planner) createMayBePending(m *member, setback Backoff) bool {
	shown := setback.At.Add(inventory.VisibilityWindow)
	mayBeLost := m.desired.Spec.LowestFree || !identity.IsNetworkOwner(m.NodeENIUID)
	if setback.Class != eni.IdempotencyMismatch || !mayBeLost || !p.now.Before(shown) {
		return false
	}
	m.setReason(Problem{NotVisible, "an earlier attempt has made the interface, and EC2 does not show it yet; it is looked for before another is made"})
	m.needsFreshRead = p.Snapshot == nil
	p.requeueAt(minTime(p.now.Add(uncertainRecheck/5), shown))
	return true
}

// minTime returns the earlier of two times.
func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// subnetWithCapacity returns the first of the member's subnets that is not known to be full, from the given one on. If
// all are full, it sets the member's reason.
func (p *planner) subnetWithCapacity(m *member, from int) (subnet string, ok bool) {
	var soonest time.Time
	for n := range m.desired.Subnets {
		id := m.desired.Subnets[(from+n)%len(m.desired.Subnets)]
		until := p.SubnetFullUntil[SubnetDemand{m.NodeENIUID, id}]
		if !p.now.Before(until) {
			return id, true
		}
		if soonest.IsZero() || until.Before(soonest) {
			soonest = until
		}
	}
	m.setReason(noRoom(m.desired.Subnets))
	p.requeueAt(soonest)
	return "", false
}

// noRoom says that EC2 can create no interface in any of the subnets. The text does not depend on who found it and
// when.
func noRoom(subnets []string) Problem {
	return Problem{SubnetFull, fmt.Sprintf("EC2 has no free address in %s; free some, or add a subnet; whether there are some again is tried every %s, by one node at a time",
		strings.Join(subnets, ", "), minutes(SubnetFullBackoff))}
}

// isBackingOff reports whether the creation of another interface has to wait, and sets the member's reason.
func (p *planner) isBackingOff(m *member) bool {
	lost, wasLost := p.RemovedExternally[m.Key]
	made := time.Unix(p.UsedGenerations[m.Key], 0)
	if made.After(lost) {
		made = lost // a number from another source, and no time
	}
	switch orphan := p.orphanMatching(m); {
	case orphan != "":
		m.setReason(Problem{InProgress, fmt.Sprintf("%s was made for an earlier NodeENI of this name; it is taken over once it is certain that that one does not exist any more", orphan)})
		p.requeueAt(p.now.Add(uncertainRecheck))
	case p.CreationBlocked != "":
		m.setReason(Problem{TooManyUnattached, p.CreationBlocked})
		p.requeueAt(p.now.Add(uncertainRecheck))
	case wasLost && lost.Sub(made) < RecreateAfter && p.now.Before(made.Add(RecreateAfter)):
		m.setReason(Problem{RemovedExternally, fmt.Sprintf(
			"somebody else removed its interface or edited its tags shortly after it was made; the next is made %s after that one", RecreateAfter)})
		p.requeueAt(made.Add(RecreateAfter))
	case p.unattached >= MaxUnattached:
		m.setReason(Problem{InProgress, fmt.Sprintf("%d interfaces of the node exist and are not attached yet; they come first", p.unattached)})
		p.requeueAt(p.now.Add(uncertainRecheck))
	default:
		return false
	}
	return true
}

// generation returns the generation for the member's create call: the stored one, unless it is known to be used. A new
// generation is the time in seconds, so that it is new even after a loss of the ledger.
func (p *planner) generation(m *member, setback Backoff) int64 {
	stored, spent := p.plan.Ledger[m.Key], p.UsedGenerations[m.Key]
	if stored > max(spent, adoptedGeneration) && setback.Class != eni.IdempotencyMismatch {
		return stored
	}
	return max(p.now.Unix(), stored+1, spent+1)
}

// mustWait reports whether the member's backoff has not ended, and sets its reason.
func (p *planner) mustWait(m *member) bool {
	setback := p.Backoffs[m.Key]
	failed := setback.Count > 0
	if !failed || !p.now.Before(setback.Retry()) {
		return false
	}
	m.setReason(setback.problem())
	if setback.Class == eni.NoAddresses && m.record == nil {
		m.setReason(noRoom(m.desired.Subnets))
	}
	if setback.Class == eni.SlotTaken && m.desired != nil && !m.hasSlot() && !m.claim.ExactSlot {
		// Only a fresh read shows whether a slot without a refusal is left.
		m.needsFreshRead = p.Snapshot == nil
		if full := p.slots.wouldBeFull(m.desired.Slot); full != nil {
			m.setReason(*full)
		}
	}
	p.requeueAt(setback.Retry())
	return true
}

// attachable reports whether EC2 accepts an attach call for the instance. That depends on the true state of the
// instance, which its reads may not show yet; EC2 answers a wrong guess with [eni.WrongState].
func (p *planner) attachable() bool {
	state := p.Snapshot.Instance.State
	return state.Attachable() || state == eni.InstancePending && p.NodeRegistered
}

func (p *planner) waitForInstance(m *member) {
	m.setReason(Problem{InstanceNotReady, fmt.Sprintf("instance %s is %s; interfaces are attached once it runs", p.InstanceID, p.Snapshot.Instance.State)})
	p.requeueAt(p.now.Add(uncertainRecheck))
}

// reconcileExisting brings an existing interface to its desired slot and attributes.
func (p *planner) reconcileExisting(m *member) {
	i := m.record.Interface
	if m.Phase = phaseOf(i); m.Phase == Pending {
		m.Phase = Attaching // it is desired, so an attach call follows
	}
	switch {
	case i.Attachment != nil && !i.AttachedTo(p.InstanceID):
		m.block(Problem{AttachedElsewhere, fmt.Sprintf("%s was attached to %s by somebody else; detach it there", i.ID, i.Attachment.InstanceID)})
		p.requeueAt(p.now.Add(ForcedDetachAfter))
	case m.Phase == Detaching:
		p.progress(m)
		p.forceIfStuck(m)
	case i.Status == eni.Pending:
		p.progress(m)
	case m.problem != nil:
		p.blockOn(m)
	case p.mustWait(m):
	case m.Phase == Attaching && p.overdue(m):
		p.reattach(m)
	case i.Attachment != nil:
		p.updateInPlace(m)
		if m.Phase == Attaching {
			p.progress(m)
		}
	case p.Snapshot != nil && !p.attachable():
		p.waitForInstance(m)
	case p.now.Before(p.attachAfter(m)):
		m.setReason(p.stuck(m))
		p.requeueAt(p.attachAfter(m))
	default:
		p.updateInPlace(m)
		p.plan.Actions = append(p.plan.Actions, Attach{Member: m.Member.Member, InterfaceID: i.ID, Slot: m.Slot})
	}
}

// overdue reports whether an attach takes too long.
func (p *planner) overdue(m *member) bool {
	since := m.record.AttachingSince
	return m.record.Attachment != nil && !since.IsZero() && p.lastRead(m).Sub(since) >= AttachTimeout
}

// lastRead is the time of the state that the plan has of an interface. Without a snapshot it is now, so that the plan
// requests one; with one it is the time of EC2's last read that was not stale.
func (p *planner) lastRead(m *member) time.Time {
	if p.Snapshot != nil {
		return m.record.LastRead
	}
	return p.now
}

// reattach cancels an overdue attach, so that it can be tried again.
func (p *planner) reattach(m *member) {
	m.Why = p.stuck(m)
	p.plan.Actions = append(p.plan.Actions, Detach{
		Member: m.Member.Member, InterfaceID: m.record.ID, AttachmentID: m.record.Attachment.ID,
		Why: fmt.Sprintf("EC2 has not attached it within %s", AttachTimeout),
	})
}

// attachAfter is the time of the next attempt to attach an interface after several that EC2 did not complete.
func (p *planner) attachAfter(m *member) time.Time {
	if m.record.FailedAttaches < maxAttachRetries {
		return time.Time{}
	}
	wait := foreignSlotRecheck << min(m.record.FailedAttaches-maxAttachRetries, 3)
	return m.record.LastFailedAttach.Add(min(wait, maxBackoff))
}

// stuck says that EC2 does not complete the attach. After several attempts the reason is one that needs a person.
func (p *planner) stuck(m *member) Problem {
	if m.record.FailedAttaches < maxAttachRetries {
		return Problem{Retrying, fmt.Sprintf("EC2 has not attached %s within %s; it is detached and attached again", m.record.ID, AttachTimeout)}
	}
	return Problem{AttachStuck, fmt.Sprintf("%d times EC2 has not got done with attaching %s; it is tried again ever more seldom. See whether instance %s is healthy; stopping and starting it can help",
		m.record.FailedAttaches, m.record.ID, p.InstanceID)}
}

func (p *planner) updateInPlace(m *member) {
	todo := changes(*m.desired, m.Member.Member.DesiredTags(m.desired.Spec.Tags), m.record.Interface, p.demandFor(m, m.record.Interface))
	if m.record.Tags[identity.TagNodeENIUID] != m.NodeENIUID {
		// It was adopted. A process that identifies it by its tags would undo other changes, so the tags come first.
		all := len(todo)
		todo = slices.DeleteFunc(todo, func(a Attribute) bool { return !isTags(a) })
		m.inUseWithoutTags = len(todo) == all
	}
	m.explainGroups(m.record.Interface)
	p.plan.Actions = append(p.plan.Actions, p.withoutReverted(m, m.record.Interface, m.record.LastRead, p.withoutThrottledTags(m, todo))...)
	m.explainAddresses(p.demandFor(m, m.record.Interface))
}

// withoutThrottledTags removes tags from changes if EC2 refused to write them shortly before. They delay nothing else.
func (p *planner) withoutThrottledTags(m *member, changes []Attribute) []Attribute {
	setback := p.Backoffs[m.Key].Tags
	if setback == nil || !p.now.Before(setback.Retry()) || !slices.ContainsFunc(changes, isTags) {
		return changes
	}
	p.requeueAt(setback.Retry())
	why := setback.problem()
	if m.inUseWithoutTags {
		why = Problem{Retrying, fmt.Sprintf("%s serves the NodeENI as it is, only its tags do not say so yet: %s", m.record.ID, why.Message)}
	}
	m.setReason(why)
	return slices.DeleteFunc(changes, isTags)
}

func isTags(a Attribute) bool {
	_, is := a.(Tags)
	return is
}

// remove removes an interface: plain detach, wait, delete. A forced detach is the last resort.
func (p *planner) remove(m *member) {
	i := m.record.Interface
	m.Phase = phaseOf(i)
	m.Desired = m.desired != nil
	m.Why = Problem{Removing, fmt.Sprintf("%s is being removed: %s", i.ID, m.removeReason)}
	switch {
	case i.Attachment != nil && !i.AttachedTo(p.InstanceID):
		m.Why.Message = fmt.Sprintf("%s is to be removed, but was attached to %s by somebody else; detach it there", i.ID, i.Attachment.InstanceID)
		p.requeueAt(p.now.Add(ForcedDetachAfter))
	case p.Backoffs[m.Key].Removal && p.mustWait(m):
	case i.Attachment == nil && i.Status == eni.Available:
		m.Phase = Deleting
		p.plan.Actions = append(p.plan.Actions, Delete{Member: m.Member.Member, InterfaceID: i.ID, Why: m.removeReason})
	case p.ended && i.Attachment != nil:
		p.progress(m)
		p.requeueAt(p.now.Add(terminationRecheck))
	case i.Attachment == nil, i.Attachment.Status == eni.AttachmentAttaching && !p.overdue(m):
		p.progress(m)
	case i.Attachment.Status == eni.AttachmentDetaching:
		m.announceForce()
		p.progress(m)
		p.forceIfStuck(m)
	case p.waitsForPods(m):
	case !p.ended && p.isHeld(i.ID):
		m.Phase = Detaching // this tells the node that it has to release the device
		m.Why = Problem{WaitingForDeviceRelease, fmt.Sprintf("%s is to be removed (%s), and is not detached before the node lets go of it: %s",
			i.ID, m.removeReason, cmp.Or(p.DetachBlocked[i.ID], "a program in user space drives it"))}
		m.needsFreshRead = p.Snapshot == nil // a program gives its device up only for a detach that EC2's own state allows
		p.requeueAt(p.now.Add(foreignSlotRecheck))
	default:
		m.Phase = Detaching
		m.announceForce()
		p.plan.Actions = append(p.plan.Actions, Detach{
			Member: m.Member.Member, InterfaceID: i.ID, AttachmentID: i.Attachment.ID, Why: m.removeReason,
		})
	}
}

// announceForce says when a forced detach will follow, while a person can still act.
func (m *member) announceForce() {
	m.Why.Message += fmt.Sprintf("; if EC2 has not detached it %s after it was asked, it is cut off by force", ForcedDetachAfter)
}

// forceIfStuck forces the detach of an interface that EC2 does not detach otherwise.
func (p *planner) forceIfStuck(m *member) {
	since := m.record.DetachingSince
	if m.record.Attachment == nil || since.IsZero() || p.lastRead(m).Sub(since) < ForcedDetachAfter {
		return
	}
	p.plan.Actions = append(p.plan.Actions, Detach{
		Member: m.Member.Member, InterfaceID: m.record.ID, AttachmentID: m.record.Attachment.ID, Force: true,
		Why: fmt.Sprintf("%s, and a plain detach has not ended since %s",
			cmp.Or(m.removeReason, "it is to be attached anew"), since.UTC().Format(time.RFC3339)),
	})
}

// progress says that EC2 is changing the interface, and that the observer polls it.
func (p *planner) progress(m *member) {
	switch {
	case m.Why.Reason != "":
	case m.record.FailedAttaches >= maxAttachRetries:
		m.Why = p.stuck(m)
	default:
		m.Why = Problem{InProgress, fmt.Sprintf("EC2 reports %s as %s", m.record.ID, inWords(m.record))}
	}
	p.requeueAt(p.now.Add(pollRecheck))
}

func inWords(r *inventory.Record) string {
	if r.Attachment != nil {
		return string(r.Attachment.Status)
	}
	return string(r.Status)
}

// blockOn sets the obstacle of a member, and requeues: no event says that a foreign interface left, or that an instance
// without the interface ended.
func (p *planner) blockOn(m *member) {
	m.setReason(*m.problem)
	switch reason := m.problem.Reason; {
	case reason == InProgress:
		p.requeueAt(p.now.Add(uncertainRecheck))
	case m.record != nil, slices.Contains([]Reason{SlotTaken, InstanceFull, NotImported, InstanceOutsideCluster}, reason):
		p.requeueAt(p.now.Add(foreignSlotRecheck))
	}
}

// block marks a member without an attached interface as blocked.
func (m *member) block(why Problem) {
	m.Phase, m.Why = Blocked, why
}

// setReason sets the reason of a member; it blocks a member that is not attached if a person has to act.
func (m *member) setReason(why Problem) {
	if !why.Reason.Transient() && m.Phase != Attached {
		m.Phase = Blocked
	}
	m.Why = why
}

// phaseOf returns the phase of an interface, as EC2 shows it.
func phaseOf(i eni.Interface) Phase {
	switch {
	case i.Attachment == nil && (i.Status == eni.Detaching):
		return Detaching
	case i.Attachment == nil && i.Status != eni.Attaching:
		return Pending
	case i.Attachment == nil:
		return Attaching
	case i.Attachment.Status == eni.AttachmentAttached:
		return Attached
	case i.Attachment.Status == eni.AttachmentDetaching:
		return Detaching
	default:
		return Attaching
	}
}
