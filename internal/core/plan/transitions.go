// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
)

// phaseIn returns the phase of a member whose step may not have been computed yet.
func phaseIn(m *Interface) string {
	switch {
	case m.Problem != nil:
		return fmt.Sprintf("%s: %s", Blocked, m.Problem.Message)
	case m.Record == nil:
		return string(Pending)
	default:
		return string(phaseOf(m.Record.Interface))
	}
}

// create creates the interface of a member without one, once its slot is certain.
func (p *planner) create(s step) step {
	m := s.m
	if m.Problem != nil {
		return p.blockOn(s)
	}
	if p.Snapshot != nil && !p.attachable() {
		return s.wait(p.instanceNotReady())
	}
	if obstacle := p.creationDelay(m); obstacle != nil {
		return s.wait(*obstacle)
	}
	failure := p.failure(m)
	if p.createMayBePending(m, failure) {
		return s.wait(p.untilVisible(failure))
	}
	tried := 0
	if IsFull(failure.Class) {
		tried = failure.Count % len(m.Settings.Subnets)
	}
	// After a full subnet the planner tries the next one at once; after the last one, it waits for the backoff.
	if backoff := p.backoff(m); tried == 0 && backoff != nil {
		return s.wait(*backoff)
	}
	subnet, freeAt := p.subnetWithCapacity(m, tried)
	if subnet == "" {
		return s.wait(wait{why: p.noRoom(m), until: freeAt})
	}
	generation := p.generation(m, failure)
	if generation > identity.MaxGeneration {
		return s.wait(wait{until: p.now.Add(foreignSlotRecheck), why: Problem{RefusedByEC2, fmt.Sprintf(
			"its last interface had the highest possible generation in its tag %s, which another program wrote; "+
				"delete the NodeENIState of the node, and restart the controller", identity.TagGeneration)}})
	}
	s.Phase, s.Generation = Creating, generation
	return s.record().act(Create{Member: s.Member.Member, SubnetID: subnet, Slot: m.Slot, Spec: m.Settings.Spec,
		Repeats: p.Ledger[m.Key] == generation})
}

// createMayBePending reports whether an earlier attempt may have created the interface without EC2 returning it yet.
// EC2 reports a token as spent if it was used with other parameters, for example before an edit of the NodeENI. The
// controller of that attempt may have attached the interface and ended; a ledger with the next generation would be no
// evidence for it. An interface of a network needs no evidence, and a booting node does not wait for one that an
// earlier attempt deleted.
func (p *planner) createMayBePending(m *Interface, failure Backoff) bool {
	mayBeLost := m.Settings.Spec.LowestFree || !m.Owner.IsNetwork()
	return failure.Class == eni.IdempotencyMismatch && mayBeLost && p.now.Before(failure.visibleAt())
}

// visibleAt returns the time from which EC2 returns the interface of the failed call, if it created one.
func (s Backoff) visibleAt() time.Time { return s.At.Add(inventory.VisibilityWindow) }

// untilVisible waits for the interface of an earlier attempt.
func (p *planner) untilVisible(failure Backoff) wait {
	return wait{
		why: Problem{NotVisible, fmt.Sprintf(
			"an earlier attempt created the interface, and EC2 does not return it: it is too new, or deleted; multieni "+
				"creates another one if EC2 does not return it within %s", minutes(inventory.VisibilityWindow))},
		until:          earlier(p.now.Add(uncertainRecheck/5), failure.visibleAt()),
		needsFreshRead: p.Snapshot == nil,
	}
}

// subnetWithCapacity returns the first of the member's subnets that is not known to be full, starting at the given one.
// If all are full, it returns the time of the next attempt.
func (p *planner) subnetWithCapacity(m *Interface, from int) (subnet string, freeAt time.Time) {
	for n := range m.Settings.Subnets {
		id := m.Settings.Subnets[(from+n)%len(m.Settings.Subnets)]
		until := p.FullSubnets[DemandOf(m.Owner, id, m.Settings.Spec)].Until
		if !p.now.Before(until) {
			return id, time.Time{}
		}
		freeAt = earlier(freeAt, until)
	}
	return "", freeAt
}

// failure returns the failure of the member's last call. It returns none if EC2 refused the call and the member needs a
// different one by now, for example because a user corrected the NodeENI.
func (p *planner) failure(m *Interface) Backoff {
	failure := p.Backoffs[m.Key]
	if m.withoutPrefixes(failure) || NeedsCorrection(failure.Class) && p.isCorrected(m, failure.Action) {
		return Backoff{}
	}
	return failure
}

// withoutPrefixes reports whether EC2 had no free prefix for the member, and the member needs none any more.
func (m *Interface) withoutPrefixes(failure Backoff) bool {
	return failure.Class == eni.NoPrefixes && m.Record == nil && m.Settings != nil && !hasPrefixes(m.Settings.Spec)
}

// isCorrected reports whether the member no longer needs the call that EC2 refused.
func (p *planner) isCorrected(m *Interface, refused Action) bool {
	if m.Settings == nil {
		return false
	}
	switch refused := refused.(type) {
	case Create:
		return m.Record != nil || !slices.ContainsFunc(m.Settings.Subnets, func(id string) bool {
			return requests(Create{SubnetID: id, Spec: m.Settings.Spec}, refused)
		})
	case Attach:
		return refused.ENAExpress != "" // the next attempt does without
	default:
		return false
	}
}

// noRoom says that EC2 can create no interface in any of the member's subnets. The text does not depend on which node
// found out and when. A subnet without a block for a prefix takes precedence over one without addresses, because it
// explains more.
func (p *planner) noRoom(m *Interface) Problem {
	subnets := m.Settings.Subnets
	noPrefix := p.Backoffs[m.Key].Class == eni.NoPrefixes
	for _, id := range subnets {
		noPrefix = noPrefix || p.FullSubnets[DemandOf(m.Owner, id, m.Settings.Spec)].Class == eni.NoPrefixes
	}
	if noPrefix {
		return Problem{NoFreePrefix, fmt.Sprintf(
			"EC2 has no free block for a prefix in %s; %s; whether there is one again is tried every %s, by one node at a time",
			strings.Join(subnets, ", "), reservePrefixes, minutes(SubnetFullBackoff))}
	}
	return Problem{SubnetFull, fmt.Sprintf(
		"EC2 has %s in %s; free some, or add a subnet; whether there are some again is tried every %s, "+
			"by one node at a time",
		missingAddresses(m.Settings.Spec.AddressCounts), strings.Join(subnets, ", "), minutes(SubnetFullBackoff))}
}

// missingAddresses says how many free IPv4 addresses a subnet needs for an interface: it can have some, and still too
// few.
func missingAddresses(counts eni.AddressCounts) string {
	prefixes := ""
	if counts.IPv4Prefixes > 0 {
		prefixes = ", 16 of them in a free block for each prefix (kubectl eni subnets shows the blocks)"
	}
	needed := 1 + counts.SecondaryIPv4 + PodPrefixSize*counts.IPv4Prefixes
	if needed == 1 {
		return "no free address"
	}
	return fmt.Sprintf("fewer than the %d free addresses that the interface needs%s", needed, prefixes)
}

// creationDelay returns why the creation of another interface has to wait, or nil.
func (p *planner) creationDelay(m *Interface) *wait {
	lost, wasLost := p.RemovedExternally[m.Key]
	made := p.UsedGenerations[m.Key].Time()
	if made.After(lost) {
		made = lost // a number from another source, and no time
	}
	soon := p.now.Add(uncertainRecheck)
	switch {
	case m.Predecessor != "":
		return &wait{until: soon, why: Problem{InProgress, fmt.Sprintf(
			"%s was created for an earlier NodeENI of this name; multieni adopts it once it is certain that the earlier "+
				"NodeENI does not exist any more", m.Predecessor)}}
	case p.CreationBlocked != "":
		return &wait{until: soon, why: Problem{TooManyUnattached, p.CreationBlocked}}
	case wasLost && lost.Sub(made) < RecreateAfter && p.now.Before(made.Add(RecreateAfter)):
		return &wait{until: made.Add(RecreateAfter), why: Problem{RemovedExternally, fmt.Sprintf(
			"another program removed its interface or edited its tags shortly after its creation; multieni creates "+
				"the next one %s after that creation", RecreateAfter)}}
	case p.unattached >= MaxUnattached:
		return &wait{until: soon, why: Problem{InProgress, fmt.Sprintf(
			"%d interfaces of the node exist and are not attached yet; they come first", p.unattached)}}
	}
	return nil
}

// generation returns the generation for the member's create call: the stored one, unless it is known to be used. A new
// generation is the time in seconds, so that it is unused even after a loss of the ledger.
func (p *planner) generation(m *Interface, failure Backoff) identity.Generation {
	stored, spent := p.plan.Ledger[m.Key], p.UsedGenerations[m.Key]
	if m.Recorded && !p.now.Before(p.Era.VisibleAt()) {
		spent = max(spent, stored)
	}
	if stored > max(spent, identity.Adopted) && failure.Class != eni.IdempotencyMismatch {
		return stored
	}
	return max(identity.GenerationAt(p.now), stored+1, spent+1)
}

// backoff returns the wait after the member's last failure, or nil.
func (p *planner) backoff(m *Interface) *wait {
	failure := p.failure(m)
	if failure.Count == 0 || !p.now.Before(failure.Retry()) {
		return nil
	}
	w := wait{why: failure.problem(), until: failure.Retry()}
	if IsFull(failure.Class) && m.Record == nil {
		w.why = p.noRoom(m)
	}
	if failure.Class == eni.SlotTaken && m.Settings != nil && !m.hasSlot() && !m.ExactSlot {
		// Only a fresh read shows whether a slot without a refusal is left.
		w.needsFreshRead = p.Snapshot == nil
		if full := p.slots.wouldBeFull(m.Settings.Slot); full != nil {
			w.why = *full
		}
	}
	return &w
}

// attachable reports whether EC2 accepts an attach call for the instance. That depends on the true state of the
// instance, which reads may not show yet. EC2 answers a wrong guess with [eni.WrongState].
func (p *planner) attachable() bool {
	state := p.Snapshot.Instance.State
	return state.Attachable() || state == eni.InstancePending && p.NodeRegistered
}

func (p *planner) instanceNotReady() wait {
	why := fmt.Sprintf("instance %s is %s; interfaces are attached once it runs", p.InstanceID, p.Snapshot.Instance.State)
	return wait{why: Problem{InstanceNotReady, why}, until: p.now.Add(uncertainRecheck)}
}

// attach attaches an interface, once the instance and the slot allow it.
func (p *planner) attach(s step) step {
	m := s.m
	switch {
	case p.Snapshot != nil && !p.attachable():
		return s.wait(p.instanceNotReady())
	case p.now.Before(m.attachAfter()):
		return s.wait(wait{why: p.stuck(m), until: m.attachAfter()})
	default:
		return p.updateAndAttach(s)
	}
}

// awaitAttach waits for EC2 to attach an interface, and retries an attach that takes too long.
func (p *planner) awaitAttach(s step) step {
	if p.overdue(s.m) {
		return p.reattach(s)
	}
	return p.progress(p.updateInPlace(s))
}

// awaitDetach waits for EC2 to detach an interface, and forces a detach that takes too long.
func (p *planner) awaitDetach(s step) step { return p.forceIfStuck(p.progress(s)) }

// blockElsewhere says that an interface serves another instance.
func (p *planner) blockElsewhere(s step) step {
	i := s.m.Record.Interface
	s.Phase = Blocked
	s.Why = Problem{AttachedElsewhere,
		fmt.Sprintf("another program attached %s to %s; detach it there", i.ID, i.Attachment.InstanceID)}
	return s.requeue(p.now.Add(ForcedDetachAfter))
}

// updateAndAttach updates an unattached interface and attaches it. A refused update delays the attachment: for example,
// an interface needs its security groups before it serves.
func (p *planner) updateAndAttach(s step) step {
	m := s.m
	if p.isRefusedUpdate(m) {
		return p.updateInPlace(s)
	}
	return p.updateInPlace(s).act(Attach{Member: m.Member.Member, InterfaceID: m.Record.ID, Slot: m.Slot,
		ENAExpress: p.expressOfAttach(m)})
}

// changeBackoff returns the backoff of an existing interface, or nil. A refused removal delays nothing once the
// interface need not be removed any more.
func (p *planner) changeBackoff(m *Interface) *wait {
	if p.Backoffs[m.Key].Removal && len(m.Drift) == 0 {
		return nil
	}
	return p.backoff(m)
}

// overdue reports whether an attach takes too long.
func (p *planner) overdue(m *Interface) bool {
	since := m.Record.AttachingSince
	return m.Record.Attachment != nil && !since.IsZero() && p.lastRead(m).Sub(since) >= AttachTimeout
}

// lastRead returns the time of the state that the plan has of an interface. Without a snapshot it is now, so that the
// plan requests one; with one it is the time of the last read that was not stale.
func (p *planner) lastRead(m *Interface) time.Time {
	if p.Snapshot != nil {
		return m.Record.LastRead
	}
	return p.now
}

// reattach cancels an overdue attach, so that it can be tried again.
func (p *planner) reattach(s step) step {
	s.Why = p.stuck(s.m)
	return s.act(Detach{
		Member: s.m.Member.Member, InterfaceID: s.m.Record.ID, AttachmentID: s.m.Record.Attachment.ID,
		Why: fmt.Sprintf("EC2 has not attached it within %s", AttachTimeout),
	})
}

// attachAfter returns the time of the next attempt to attach an interface after several that EC2 did not complete.
func (m *Interface) attachAfter() time.Time {
	if m.Record.FailedAttaches < maxAttachRetries {
		return time.Time{}
	}
	wait := foreignSlotRecheck << min(m.Record.FailedAttaches-maxAttachRetries, 3)
	return m.Record.LastFailedAttach.Add(min(wait, maxBackoff))
}

// stuck says that EC2 does not complete the attach. After several attempts the reason is one that needs a person.
func (p *planner) stuck(m *Interface) Problem {
	if m.Record.FailedAttaches < maxAttachRetries {
		return Problem{Retrying, fmt.Sprintf("EC2 has not attached %s within %s; it is detached and attached again",
			m.Record.ID, AttachTimeout)}
	}
	return Problem{AttachStuck, fmt.Sprintf(
		"EC2 did not complete the attachment of %[2]s in %[1]d attempts; multieni retries at growing intervals. "+
			"Check whether instance %[3]s is healthy; a stop and start of it can help",
		m.Record.FailedAttaches, m.Record.ID, p.InstanceID)}
}

// changes returns the attributes of the member's existing interface to update in place.
func (p *planner) changes(m *Interface) []Attribute {
	tags := m.Member.Member.DesiredTags(m.Settings.Spec.Tags)
	return p.attributes(m, *m.Settings, tags, m.Record.Interface)
}

// updateInPlace changes the attributes of an existing interface.
func (p *planner) updateInPlace(s step) step {
	m, i := s.m, s.m.Record.Interface
	todo := p.changes(m)
	onlyTags := false
	if i.Tags[identity.TagNodeENIUID] != string(m.Owner) {
		// The interface was adopted. A process that identifies it by its tags would revert other changes, so the tags come
		// first.
		all := len(todo)
		todo = slices.DeleteFunc(todo, func(a Attribute) bool { return !isTags(a) })
		onlyTags = len(todo) == all
	}
	s = p.update(s.explainGroups(i), i, m.Record.LastRead, todo)
	if refused := p.refusedTags(m, todo); refused != nil && onlyTags {
		s.Why = Problem{Retrying, fmt.Sprintf("%s already serves the NodeENI, but its tags do not say so yet: %s",
			m.Record.ID, refused.why.Message)}
	}
	return p.explainDrift(s).explainAddresses(p.demandFor(m, i)).explainENA()
}

// refusedTags returns the wait of the tags among the attributes, or nil.
func (p *planner) refusedTags(m *Interface, todo []Attribute) *wait {
	if n := slices.IndexFunc(todo, isTags); n >= 0 {
		return p.updateBackoff(m, todo[n])
	}
	return nil
}

// isRefusedUpdate reports whether an update of the member's interface, except its tags, waits after a failure. An
// interface serves without a prefix for which its subnet has no block, like one that is created there, and without its
// timeouts of connection tracking.
func (p *planner) isRefusedUpdate(m *Interface) bool {
	return slices.ContainsFunc(p.changes(m), func(a Attribute) bool {
		return !isTags(a) && FieldOf(a) != TrackingField && p.updateBackoff(m, a) != nil &&
			p.Backoffs[m.Key].Updates[FieldOf(a)].Class != eni.NoPrefixes
	})
}

// updateBackoff returns the wait of an update of one field after its last failure, or nil. The failure delays no other
// field.
func (p *planner) updateBackoff(m *Interface, to Attribute) *wait {
	refused := p.refusedUpdate(m, to)
	if refused == nil || !p.now.Before(refused.until) {
		return nil
	}
	return refused
}

// refusedUpdate returns the wait of an update of one field after its last failure, which may be over; nil if it did not
// fail.
func (p *planner) refusedUpdate(m *Interface, to Attribute) *wait {
	failure, failed := p.Backoffs[m.Key].Updates[FieldOf(to)]
	if !failed || NeedsCorrection(failure.Class) && !requests(Change{To: to}, failure.Action) {
		return nil
	}
	until := failure.Retry()
	isUnread := p.Snapshot != nil && m.Record != nil && !m.Record.LastRead.After(failure.At)
	if failure.Class == eni.Transient && isUnread { // EC2 may have made the change
		until = later(until, p.now.Add(uncertainRecheck))
	}
	return &wait{why: failure.problem(), until: until}
}

func isTags(a Attribute) bool {
	_, is := a.(Tags)
	return is
}

// progress says that EC2 is changing the interface, and that the observer polls it.
func (p *planner) progress(s step) step {
	switch {
	case s.Why.Reason != "":
	case s.m.Record.FailedAttaches >= maxAttachRetries:
		s.Why = p.stuck(s.m)
	default:
		s.Why = Problem{InProgress, fmt.Sprintf("EC2 reports %s as %s", s.m.Record.ID, inWords(s.m.Record))}
	}
	return s.requeue(p.now.Add(pollRecheck))
}

func inWords(r *inventory.Record) string {
	if r.Attachment != nil {
		return string(r.Attachment.Status)
	}
	return string(r.Status)
}

// blockOn names the obstacle of a member, and requeues: no event reports that a foreign interface was removed, or that
// an instance without the interface ended.
func (p *planner) blockOn(s step) step {
	s = s.because(*s.m.Problem)
	switch reason := s.Why.Reason; {
	case reason == InProgress:
		return s.requeue(p.now.Add(uncertainRecheck))
	case s.m.Record != nil, slices.Contains([]Reason{SlotTaken, InstanceFull, NotImported, InstanceOutsideCluster},
		reason):
		return s.requeue(p.now.Add(foreignSlotRecheck))
	}
	return s
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
