// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

const (
	// InstanceGrace is the time for which the planner waits for an instance that EC2 does not know. Describe calls can
	// omit new instances for a while (EC2 API reference, "Eventual consistency").
	InstanceGrace = 2 * time.Minute
	// AttachTimeout is the longest duration of an attach, before the planner detaches the interface and retries.
	AttachTimeout = 90 * time.Second
	// RecreateAfter is the age from which the planner replaces an interface at once that another program removed. It
	// replaces a younger one only when that age is reached, so that two programs do not create and remove interfaces in a
	// fast loop.
	RecreateAfter = 10 * time.Minute
	// MaxUnattached is the largest number of an instance's interfaces that are created and not attached yet. It bounds how
	// many a failure can leave behind.
	MaxUnattached = 3
	// SubnetFullBackoff is the time for which a subnet without a free address is not used for further interfaces.
	SubnetFullBackoff = 2 * time.Minute
	// ForcedDetachAfter is the time that a plain detach may take before a forced one.
	ForcedDetachAfter = 10 * time.Minute

	// pollRecheck is the requeue for transitions that the observer polls as well. It matters only if a poll is lost.
	pollRecheck = 30 * time.Second
	// maxAttachRetries is the number of attempts to attach an interface without success, after which the member waits for
	// a person and the backoff begins to grow.
	maxAttachRetries = 3
	// maxDetachFailures is the number of successive refusals to detach an interface after which the planner no longer
	// waits for its slot.
	maxDetachFailures = 5
	// maxBackoff bounds growing waits.
	maxBackoff = 30 * time.Minute
	// foreignSlotRecheck is the requeue for a slot that a foreign interface has.
	foreignSlotRecheck = 5 * time.Minute
	// terminationRecheck is the requeue during a termination: no event says that EC2 deleted an interface with its
	// instance.
	terminationRecheck = 5 * time.Second
	// uncertainRecheck is the requeue for a change without an event.
	uncertainRecheck = 15 * time.Second
)

// Plan is the actions for one instance.
type Plan struct {
	// Ledger is the generation of each member. If it differs from the observed ledger, it must be stored before any
	// action is executed.
	Ledger identity.Generations
	// Actions are the calls to make now. Those of one member are sequential, and stop at the first failure; members are
	// independent.
	Actions []Action
	// Members is the state of every desired and every existing interface, ordered by NodeENI and ordinal.
	Members []Member
	// NeedsDescribe is set if the plan needs a fresh read of the instance before it can make calls; Intents are those
	// calls.
	NeedsDescribe bool
	Proposed      []Action
	// RequeueAt is the time of the next plan if no event comes earlier; zero for none.
	RequeueAt time.Time
	// Evictions are the pods that use interfaces to be removed, of NodeENIs that evict them. Package fleet decides which
	// of them to evict now.
	Evictions []Eviction
}

// Phase is the phase of a member.
type Phase string

// The phases of a member.
const (
	Blocked   Phase = "Blocked"
	Pending   Phase = "Pending"
	Creating  Phase = "Creating"
	Attaching Phase = "Attaching"
	Attached  Phase = "Attached"
	Detaching Phase = "Detaching"
	Deleting  Phase = "Deleting"
)

// Member is the state of one interface.
type Member struct {
	identity.Member
	Phase Phase
	// Desired is false for an interface that is being removed, or that is retained without being desired.
	Desired bool
	// Interface is nil until the interface exists.
	Interface *eni.Interface
	// RequestedSlot is the requested slot; Slot is the present or allocated one.
	RequestedSlot, Slot eni.Slot
	// Unverified is set on a retained interface if only its tags say that it belongs to the cluster. Neither the ledger
	// nor the node's state may then become evidence for it.
	Unverified bool
	// Why says why the member is not as desired; its Reason is empty if it is.
	Why Problem
	// DrainPods is set if the node must let no further pod use the interface.
	DrainPods bool
	// KeepClosed is set while a call to detach the interface may take effect: the node must not open it to pods.
	KeepClosed bool
	// Drift lists the differences that only a replacement can correct.
	Drift []Drift
	// Withheld are prefixes of the interface that pods must not use yet: an earlier leader may have unassigned them.
	Withheld []netip.Prefix
	// Requested are the addresses and prefixes of the interface that EC2's answers to our calls named. Other programs
	// assigned the others.
	Requested eni.Addresses
	// ENA is what multieni has set of the interface's ENA settings, and what the instance type does not support.
	ENA ENA
}

// Ready reports whether the member is attached and usable without an action by a person. Pending updates in place and
// drift do not count, because neither delays the use of an interface.
func (m Member) Ready() bool {
	return m.Desired && m.Phase == Attached && (m.Why.Reason.Transient() || m.Why.Reason == Drifted)
}

// Compute plans one instance. Once the effects of all actions are visible, it returns a plan without actions.
func Compute(d Desired, o Observed, now time.Time) Plan {
	p := newPlanner(d, o, now)
	p.allocateSlots()
	steps := make([]step, len(p.members))
	for n, m := range p.members {
		steps[n] = p.keepClosed(p.withhold(p.next(m)))
		p.apply(steps[n])
	}
	for _, update := range p.InPlaceUpdates {
		p.apply(p.updateLaunchInterface(update))
	}
	return p.finish(steps)
}

// planner is the state that the steps of one computation share.
type planner struct {
	Desired
	Observed
	now     time.Time
	ended   bool
	slots   *Slots
	members []*Interface
	// unattached counts the interfaces that exist, or are about to, and still wait for their attachment.
	unattached int
	plan       Plan
}

func newPlanner(d Desired, o Observed, now time.Time) *planner {
	p := &planner{Desired: d, Observed: o, now: now, ended: o.Ended(now)}
	p.slots = ObservedSlots(d, o, now)
	p.plan.Ledger = maps.Clone(o.Ledger)
	if p.plan.Ledger == nil {
		p.plan.Ledger = identity.Generations{}
	}
	for _, i := range d.Interfaces {
		p.resolveENA(&i)
		p.members = append(p.members, &i)
	}
	return p
}

// allocateSlots allocates a slot for every desired interface without one. Existing interfaces come first, so that none
// of them stays unattached because a new one took its slot. Slots that are requested exactly are reserved. Interfaces
// that are being created come before all others and keep their slots.
func (p *planner) allocateSlots() {
	var unplaced []*Interface
	for _, m := range p.members {
		switch {
		case m.Goal == Release && m.Settings == nil && m.Record.AttachedTo(p.InstanceID): // no successor takes its slot
			if !p.refused(m) {
				p.slots.freeWhenGone(m.Slot)
			}
		case m.Settings != nil && !m.hasSlot():
			unplaced = append(unplaced, m)
			if m.ExactSlot {
				p.slots.reserve(m.Settings.Slot)
			}
		}
	}
	slices.SortStableFunc(unplaced, func(a, b *Interface) int {
		return cmp.Or(first(p.createInFlight(a), p.createInFlight(b)), first(a.Record != nil, b.Record != nil),
			first(a.ExactSlot, b.ExactSlot))
	})
	for _, m := range unplaced {
		p.allocateSlot(m)
	}
	p.countUnattached()
}

// countUnattached skips interfaces without a slot: they wait for a person and must not delay others. A surplus
// interface counts until it is deleted, even if it is retained while its replacement is being created.
func (p *planner) countUnattached() {
	for _, m := range p.members {
		onItsWay := m.Settings != nil && (m.Problem == nil || m.Problem.Reason.Transient()) || m.Goal == Release ||
			m.NeedsFreshRead
		if onItsWay && m.Record != nil && (m.Record.Attachment == nil || isExpected(m.Record.Attachment)) {
			p.unattached++
		}
	}
}

// refused reports whether EC2 refuses to detach an interface that is being removed, so that its slot may never become
// free.
func (p *planner) refused(m *Interface) bool {
	failure := p.Backoffs[m.Key]
	return failure.Removal && (failure.Count >= maxDetachFailures || !failure.problem().Reason.Transient())
}

// first orders true before false.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

func (p *planner) allocateSlot(m *Interface) {
	m.Problem = p.outsideCluster()
	if m.Problem == nil && m.Record == nil {
		m.Problem = p.cannotBeMade(m)
	}
	if m.Problem == nil {
		slot := m.Settings.Slot
		if beingMade, is := p.slotOf(m.Key); is {
			slot = beingMade
		}
		m.Slot, m.Problem = p.slots.allocate(slot, m.ExactSlot, "NodeENI "+m.NodeENI)
	}
}

// createInFlight reports whether the member's create call is in flight.
func (p *planner) createInFlight(m *Interface) bool {
	_, is := p.slotOf(m.Key)
	return is
}

// hasSlot reports whether the interface has a slot, even while it is being detached.
func (m *Interface) hasSlot() bool {
	return m.Launched != nil || m.Record != nil && m.Record.Attachment != nil
}

// finish orders the result, prunes the ledger, and defers all calls if the plan has no fresh read of the instance.
func (p *planner) finish(steps []step) Plan {
	for _, s := range steps {
		if s.Interface != nil {
			s.Requested = s.Interface.Common(p.Stored[s.Interface.ID].Requested)
		}
		s.ENA = p.recordENA(s)
		p.plan.Members = append(p.plan.Members, s.Member)
	}
	slices.SortStableFunc(p.plan.Members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.NodeENI, b.NodeENI), a.Key.Compare(b.Key), cmp.Compare(a.Generation, b.Generation))
	})
	p.pruneGenerations(steps)
	p.plan.Actions = slices.DeleteFunc(p.plan.Actions, p.waitsForAnswer)
	if p.NodeAbsent && len(p.members) > 0 {
		p.requeueAt(p.now.Add(foreignSlotRecheck))
	}
	if p.Snapshot == nil {
		inDoubt := slices.ContainsFunc(steps, func(s step) bool { return s.needsFreshRead })
		p.plan.NeedsDescribe = p.NodeAbsent || inDoubt || len(p.plan.Actions) > 0 || !maps.Equal(p.plan.Ledger, p.Ledger)
		p.plan.Proposed, p.plan.Actions, p.plan.Ledger = p.plan.Actions, nil, maps.Clone(p.Ledger)
	}
	return p.plan
}
