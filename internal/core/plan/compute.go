// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
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
	// Unverified are attached interfaces that are retained, because only their tags say that they belong to the
	// cluster. Verified are the IDs of the interfaces with other evidence.
	Unverified []Unverified
	Verified   []string
	// RequeueAt is the time of the next plan if no event comes earlier; zero for none.
	RequeueAt time.Time
	// Unsettled are the owners of desired members that are not attached. No interface is replaced meanwhile.
	Unsettled []identity.Owner
	// ReplaceCandidate is the owner whose member is being replaced, or would be with
	// [Observed.ReplaceAllowed]; empty if there is none.
	ReplaceCandidate identity.Owner
	// Evictions are the pods to evict now.
	Evictions []Eviction
	// EvictCandidate is the owner whose pods are being evicted for a removal without a replacement, or would be with
	// [Observed.EvictAllowed]; empty if there is none.
	EvictCandidate identity.Owner
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
	// Drift lists the differences that only a replacement can correct.
	Drift []Drift
	// Requested are the addresses and prefixes of the interface that EC2's answers to our calls named. Other programs
	// assigned the others.
	Requested eni.Addresses
}

// Ready reports whether the member is attached and usable without an action by a person. Pending updates in place and
// drift do not count, because neither delays the use of an interface.
func (m Member) Ready() bool {
	return m.Desired && m.Phase == Attached && (m.Why.Reason.Transient() || m.Why.Reason == Drifted)
}

// Compute plans one instance. Once the effects of all actions are visible, it returns a plan without actions.
func Compute(d Desired, o Observed, now time.Time) Plan {
	p := newPlanner(d, o, now)
	p.place()
	p.allocateSlots()
	p.selectReplacement()
	steps := make([]step, len(p.members))
	for n, m := range p.members {
		steps[n] = p.next(m)
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
	slots   *slotTable
	members []*member
	// preJoin are the pre-join interfaces of the instance that no NodeENI has adopted.
	preJoin []inventory.Record
	// unknown are the interfaces whose existence, or whose NodeENI's existence, is uncertain.
	unknown []inventory.Record
	// unattached counts the interfaces that exist, or are about to, and still wait for their attachment.
	unattached int
	plan       Plan
}

// member is one interface during a computation.
type member struct {
	Member
	claim   *Claim
	desired *DesiredInterface
	record  *inventory.Record
	// launchInterface is the launch interface that the member adopted.
	launchInterface *eni.Interface
	removeReason    string
	// withoutSubnet says why the NodeENI has no subnet here for a new interface; a live one is retained.
	withoutSubnet string
	// needsFreshRead is set on a surplus interface while it is uncertain whether the other interface for the desired one
	// exists, and on a member whose obstacle only a fresh read shows.
	needsFreshRead bool
	problem        *Problem
}

func newPlanner(d Desired, o Observed, now time.Time) *planner {
	p := &planner{Desired: d, Observed: o, now: now}
	p.Owned = o.expected()
	p.plan.Ledger = maps.Clone(o.Ledger)
	if p.plan.Ledger == nil {
		p.plan.Ledger = identity.Generations{}
	}
	if o.Snapshot != nil {
		state := o.Snapshot.Instance.State
		p.ended = state.Terminating() || state == eni.InstanceMissing && !o.MissingSince.IsZero() &&
			now.Sub(o.MissingSince) >= InstanceGrace
	}
	p.slots = p.observedSlots()
	return p
}

// place creates a member for every desired and every existing interface.
func (p *planner) place() {
	byOwner := map[identity.Owner][]inventory.Record{}
	for _, r := range p.withoutCopies() {
		byOwner[r.Member.Owner] = append(byOwner[r.Member.Owner], r)
	}
	claims := slices.SortedFunc(slices.Values(p.Claims), func(a, b Claim) int {
		return cmp.Or(cmp.Compare(a.NodeENI, b.NodeENI), cmp.Compare(a.Owner, b.Owner))
	})
	p.preJoin = preJoinWithoutClaim(claims, byOwner)
	for _, r := range p.preJoin {
		delete(byOwner, r.Member.Owner)
	}
	p.unknown = withoutClaim(claims, byOwner)
	for _, claim := range p.inAdoptionOrder(claims) {
		p.adoptOrphans(claim, byOwner)
	}
	p.unknown = append(p.unknown, missingOrphans(claims, byOwner)...)
	for _, claim := range claims {
		p.placeClaim(&claim, byOwner[claim.Owner])
		delete(byOwner, claim.Owner)
	}
	mode, why := ModeFor(SelectionFacts{NodePaused: p.Paused})
	for _, owner := range slices.Sorted(maps.Keys(byOwner)) {
		// The end of the instance says nothing about an unknown NodeENI, so its interfaces are removed like leaks.
		p.placeClaim(&Claim{Mode: mode, Why: why, Leaked: p.ended}, byOwner[owner])
	}
	for _, r := range p.preJoin {
		why := "it was made before its instance joined the cluster, for network " + r.Member.NodeENI +
			", and goes with the instance"
		mode := Retain
		if p.Paused {
			mode = Paused
		}
		p.placeClaim(&Claim{Mode: mode, Why: why}, []inventory.Record{r})
	}
}

// surplusReason says why an interface is surplus.
func surplusReason(claim *Claim, subnetID string) string {
	if slices.ContainsFunc(claim.Interfaces, func(d DesiredInterface) bool { return d.allows(subnetID) }) {
		return "another interface of the NodeENI is in its subnet"
	}
	return "its subnet is no longer in the NodeENI"
}

func (p *planner) placeClaim(claim *Claim, owned []inventory.Record) {
	if p.ended && claim.Mode != Paused {
		claim.Mode, claim.Why = Release, "its instance is gone"
	}
	if claim.Mode != Ensure {
		p.retainUnverified(claim, owned)
		return
	}
	owned = p.credible(owned)
	pairs := match(claim.Interfaces, owned, p.InstanceID, p.verified)
	pairs.surplus = p.excludeSurplus(pairs.surplus, owned)
	ordinal := p.ordinals(claim, pairs, owned)
	for w := range claim.Interfaces {
		desired := &claim.Interfaces[w]
		if i, ok := pairs.byDesired[w]; ok {
			m := p.existing(claim, owned[i])
			m.desired, m.Desired, m.RequestedSlot = desired, true, desired.Slot
			// The names in the tags lead events of the interface to the node, and a user can have changed them.
			m.NodeENI, m.Node = claim.NodeENI, p.Node
			p.add(m)
			continue
		}
		key := identity.Key{Owner: claim.Owner, Ordinal: ordinal[w]}
		if launched := p.launchedFor(desired); launched != nil {
			p.adoptLaunchInterfaces(claim, desired, key, launched)
			continue
		}
		p.add(&member{claim: claim, desired: desired, Member: Member{
			Member: p.identity(claim, key), Desired: true, RequestedSlot: desired.Slot, Slot: desired.Slot,
		}})
	}
	stranded := false
	for _, i := range pairs.surplus {
		m := p.existing(claim, owned[i])
		switch {
		case !claim.AllResolved:
		case !pairs.isCertain(owned):
			m.needsFreshRead = true
		case len(claim.Interfaces) == 0 && p.live(m.record):
			m.retainWithoutSubnet()
			stranded = true
		default:
			m.removeReason = surplusReason(claim, m.record.SubnetID)
		}
		p.add(m)
	}
	if !stranded { // the retained interfaces give the reason
		p.addUnresolvable(claim)
	}
}

// live reports whether an interface is attached to the instance, or about to be.
func (p *planner) live(r *inventory.Record) bool {
	return r.AttachedTo(p.InstanceID) && r.Attachment.Status != eni.AttachmentDetaching
}

// retainWithoutSubnet retains a live interface of a NodeENI without a subnet for the instance. A selector that matches
// only other zones or another VPC blocks new interfaces, but is no reason to remove one in use.
func (m *member) retainWithoutSubnet() {
	m.withoutSubnet, m.Desired = "the NodeENI has no subnet for the node; add one, or narrow its nodeSelector", true
	if len(m.claim.Unresolvable) > 0 {
		m.withoutSubnet = m.claim.Unresolvable[0].Message
	}
	m.Drift = []Drift{{"subnet", "one that a new interface of the node can be in", m.record.SubnetID}}
}

// addUnresolvable adds a blocked member for each interface that could not be resolved, so that the status shows it.
func (p *planner) addUnresolvable(claim *Claim) {
	ordinal := 0
	for _, m := range p.members {
		if m.Owner == claim.Owner {
			ordinal = max(ordinal, m.Ordinal+1)
		}
	}
	for n := range claim.Unresolvable {
		key := identity.Key{Owner: claim.Owner, Ordinal: ordinal + n}
		slot := eni.Slot{Card: claim.FirstSlot.Card, Device: claim.FirstSlot.Device + key.Ordinal}
		p.add(&member{claim: claim, problem: &claim.Unresolvable[n], Member: Member{
			Member: p.identity(claim, key), Desired: true, RequestedSlot: slot, Slot: slot,
		}})
	}
}

// retainUnverified adds the interfaces of a claim without desired ones. A claim that is only paused still has desired
// ones, so that the status shows the differences.
func (p *planner) retainUnverified(claim *Claim, owned []inventory.Record) {
	drift := map[int][]Drift{}
	if claim.Mode == Paused {
		for w, i := range match(claim.Interfaces, owned, p.InstanceID, p.verified).byDesired {
			drift[i] = fixedDrift(claim.Interfaces[w], claim.target(claim.Interfaces[w].Slot, owned[i].Interface),
				owned[i].Interface)
		}
	}
	for i, r := range owned {
		accepted := !p.verified(r) && claim.Mode == Release && p.accepts(claim, r)
		if !p.verified(r) && claim.Mode == Release && !accepted {
			p.exclude(r, "")
			continue
		}
		m := p.existing(claim, r)
		m.Drift, m.Unverified = drift[i], !p.hasEvidence(r) && !accepted
		if accepted { // the ledger of the next plan names it, so that its removal continues
			p.record(m.Member)
		}
		p.add(m)
	}
}

func (p *planner) existing(claim *Claim, r inventory.Record) *member {
	i := r.Interface
	m := &member{claim: claim, record: &r, Member: Member{Member: r.Member, Interface: &i}}
	if claim.Mode == Release && (!claim.Leaked || p.isConfirmedLeak(claim, r)) {
		m.removeReason = cmp.Or(claim.Why, "it is no longer wanted")
	}
	if i.Attachment != nil {
		m.Slot = i.Attachment.Slot
		m.RequestedSlot = m.Slot
	}
	return m
}

// isConfirmedLeak reports whether an orphan may be removed.
func (p *planner) isConfirmedLeak(claim *Claim, r inventory.Record) bool {
	inUse := r.AttachedTo(p.InstanceID) && !p.ended
	return identity.PastMinLeakAge(r.Tags, p.now) && (!inUse || p.now.Sub(claim.MissingSince) >= claim.Grace)
}

func (p *planner) identity(claim *Claim, key identity.Key) identity.Member {
	return identity.Member{
		Cluster: p.Cluster, NodeENI: claim.NodeENI, Node: p.Node, InstanceID: p.InstanceID,
		Key: key, Generation: p.plan.Ledger[key],
	}
}

func (p *planner) add(m *member) { p.members = append(p.members, m) }

// allocateSlots allocates a slot for every desired interface without one. Existing interfaces come first, so that none
// of them stays unattached because a new one took its slot. Slots that are requested exactly are reserved. Interfaces
// that are being created come before all others and keep their slots.
func (p *planner) allocateSlots() {
	var unplaced []*member
	for _, m := range p.members {
		switch {
		case m.removeReason != "" && m.record.AttachedTo(p.InstanceID):
			if !p.refused(m) {
				p.slots.freeWhenGone(m.Slot)
			}
		case m.desired != nil && !m.hasSlot():
			unplaced = append(unplaced, m)
			if m.claim.ExactSlot {
				p.slots.reserve(m.desired.Slot)
			}
		}
	}
	slices.SortStableFunc(unplaced, func(a, b *member) int {
		return cmp.Or(first(p.createInFlight(a), p.createInFlight(b)), first(a.record != nil, b.record != nil),
			first(a.claim.ExactSlot, b.claim.ExactSlot))
	})
	for _, m := range unplaced {
		p.allocateSlot(m)
	}
	p.countUnattached()
}

// countUnattached skips interfaces without a slot: they wait for a person and must not delay others.
func (p *planner) countUnattached() {
	for _, m := range p.members {
		onItsWay := m.desired != nil && (m.problem == nil || m.problem.Reason.Transient()) || m.removeReason != ""
		if onItsWay && m.record != nil && (m.record.Attachment == nil || isExpected(m.record.Attachment)) {
			p.unattached++
		}
	}
}

// refused reports whether EC2 refuses to detach an interface that is being removed, so that its slot may never become
// free.
func (p *planner) refused(m *member) bool {
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

func (p *planner) allocateSlot(m *member) {
	m.problem = p.outsideCluster()
	if m.problem == nil && m.record == nil {
		m.problem = p.cannotBeMade(m)
	}
	if m.problem == nil {
		slot := m.desired.Slot
		if beingMade, is := p.slotOf(m.Key); is {
			slot = beingMade
		}
		m.Slot, m.problem = p.slots.allocate(slot, m.claim.ExactSlot, "NodeENI "+m.NodeENI)
	}
}

// createInFlight reports whether the member's create call is in flight.
func (p *planner) createInFlight(m *member) bool {
	_, is := p.slotOf(m.Key)
	return is
}

// hasSlot reports whether the interface has a slot, even while it is being detached.
func (m *member) hasSlot() bool {
	return m.launchInterface != nil || m.record != nil && m.record.Attachment != nil
}

// finish orders the result, prunes the ledger, and defers all calls if the plan has no fresh read of the instance.
func (p *planner) finish(steps []step) Plan {
	for _, s := range steps {
		if s.Interface != nil {
			s.Requested = s.Interface.Common(p.Requested[s.Interface.ID])
		}
		p.plan.Members = append(p.plan.Members, s.Member)
	}
	slices.SortStableFunc(p.plan.Members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.NodeENI, b.NodeENI), a.Key.Compare(b.Key), cmp.Compare(a.Generation, b.Generation))
	})
	p.pruneGenerations(steps)
	p.noteVerified()
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
