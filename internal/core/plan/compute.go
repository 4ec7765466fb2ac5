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
	// InstanceGrace is how long an instance that EC2 does not know is waited for. New instances can be unknown for a
	// while (EC2 API reference, "Eventual consistency").
	InstanceGrace = 2 * time.Minute
	// AttachTimeout is how long an attach may take before it is undone and tried again.
	AttachTimeout = 90 * time.Second
	// RecreateAfter is how long an interface that somebody else removed must have existed, or its successor waits: a
	// fight with another program over an interface is had slowly.
	RecreateAfter = 10 * time.Minute
	// MaxUnattached is how many interfaces of an instance may be on their way to their slots at a time. Whatever goes
	// wrong, no more than these can be left behind.
	MaxUnattached = 3
	// SubnetFullBackoff is for how long a subnet that had no address for an interface is not asked for another.
	SubnetFullBackoff = 2 * time.Minute
	// ForcedDetachAfter is how long a plain detach is waited for before the instance is cut off.
	ForcedDetachAfter = 10 * time.Minute

	// pollRecheck is when to look again at what the poller watches as well; it only matters when the poller's news is lost.
	pollRecheck = 30 * time.Second
	// maxAttachRetries is after how many attempts to attach an interface that EC2 did not get done with a person is told, and
	// waits begin to grow.
	maxAttachRetries = 3
	// maxDetachFailures is how many times in a row EC2 may refuse to detach an interface before its slot is no longer waited for.
	maxDetachFailures = 5
	// maxBackoff bounds the waits that grow.
	maxBackoff = 30 * time.Minute
	// foreignSlotRecheck is when to look whether a foreign interface has left a slot we want.
	foreignSlotRecheck = 5 * time.Minute
	// terminationRecheck is when to look how far a termination is: EC2 tells nobody that it has deleted an interface with its instance.
	terminationRecheck = 5 * time.Second
	// uncertainRecheck is when to look again at what no event will tell of.
	uncertainRecheck = 15 * time.Second
)

// Plan is what to do about one instance now.
type Plan struct {
	// Ledger is the generation of each member. Where it differs from the observed ledger, it must be stored before any
	// action is carried out.
	Ledger map[identity.Key]int64
	// Actions are the calls to make now. Those of one member follow each other, and stop at the first that fails;
	// members are independent.
	Actions []Action
	// Members says where every wanted and every existing interface stands, ordered by NodeENI and ordinal.
	Members []Member
	// NeedsDescribe is set when calls would be made, but not without a fresh look at the instance; Intents are those calls.
	NeedsDescribe bool
	Proposed      []Action
	// Unverified are attached interfaces that are left alone: nothing but their tags says that they are ours. Verified are the IDs
	// of those of which more says so.
	Unverified []Unverified
	Verified   []string
	// RequeueAt is when to plan again even if nothing is heard before; zero for never.
	RequeueAt time.Time
	// Converging is set while a wanted member is not attached.
	Converging bool
	// ReplaceCandidate is the UID of the NodeENI of which a member is, or with [Observed.ReplaceAllowed] would be, removed to be
	// made anew; empty when none is.
	ReplaceCandidate string
}

// Phase is how far a member is.
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

// Member is where one interface stands.
type Member struct {
	identity.Member
	Phase Phase
	// Desired is false for an interface that is leaving or kept without being asked for.
	Desired bool
	// Interface is nil until the interface exists.
	Interface *eni.Interface
	// RequestedSlot is the slot asked for; Slot the one taken or chosen.
	RequestedSlot, Slot eni.Slot
	// Unverified is set on an interface that is kept, and that nothing but its tags says to be ours. Neither the ledger nor the
	// node's state may speak for it for that reason.
	Unverified bool
	// Why says what keeps the member from being as wanted; its Reason is empty when nothing does.
	Why Problem
	// Drift lists what only a replacement can mend.
	Drift []Drift
}

// Ready reports whether the member is attached and nothing about its use waits for a person. What is still to be mended, but
// will be, does not count, nor does drift: neither delays the use of an interface.
func (m Member) Ready() bool {
	return m.Desired && m.Phase == Attached && (m.Why.Reason.Transient() || m.Why.Reason == Drifted)
}

// Compute plans one instance. Calling it again after its actions have taken effect returns a plan without actions.
func Compute(d Desired, o Observed, now time.Time) Plan {
	p := newPlanner(d, o, now)
	p.place()
	p.arrange()
	p.allocateSlots()
	p.selectReplacement()
	for _, m := range p.members {
		p.step(m)
	}
	p.updateLaunchInterfaces()
	return p.finish()
}

// planner holds what the steps of one computation share.
type planner struct {
	Desired
	Observed
	now     time.Time
	ended   bool
	slots   *slotTable
	members []*member
	// preJoin are the interfaces that the instance got for networks before it joined, and that no NodeENI has taken over.
	preJoin []inventory.Record
	// unknown are the interfaces of which it is not known whether they, or the NodeENIs they were made for, exist.
	unknown []inventory.Record
	// unattached counts the interfaces that exist, or are about to, without being attached, and are on their way.
	unattached int
	plan       Plan
}

// member is one interface on its way through a computation.
type member struct {
	Member
	claim   *Claim
	desired *DesiredInterface
	record  *inventory.Record
	// launchInterface is the interface the instance was launched with that serves as the member's.
	launchInterface *eni.Interface
	// target is the slot that the member belongs in; see [planner.arrange].
	target eni.Slot
	// ordered is set while members of its NodeENI move to their targets, which are kept free for them.
	ordered      bool
	removeReason string
	// withoutSubnet says what the NodeENI of a live interface lacks for a new one; the interface is kept.
	withoutSubnet string
	// needsFreshRead is set on an interface that nothing stands for, while it is not certain that what does exists, and on a
	// member of which only a look can tell what keeps it.
	needsFreshRead bool
	problem        *Problem
	// inUseWithoutTags is set on a member whose interface was taken over, and differs from what is wanted in nothing but its tags.
	inUseWithoutTags bool
}

func newPlanner(d Desired, o Observed, now time.Time) *planner {
	p := &planner{Desired: d, Observed: o, now: now}
	p.Owned = o.expected()
	p.plan.Ledger = maps.Clone(o.Ledger)
	if p.plan.Ledger == nil {
		p.plan.Ledger = map[identity.Key]int64{}
	}
	if o.Snapshot != nil {
		state := o.Snapshot.Instance.State
		p.ended = state.Terminating() || state == eni.InstanceMissing && !o.MissingSince.IsZero() && now.Sub(o.MissingSince) >= InstanceGrace
	}
	p.slots = p.seat()
	return p
}

// place makes a member of every wish and of every existing interface.
func (p *planner) place() {
	byOwner := map[string][]inventory.Record{}
	for _, r := range p.withoutCopies() {
		byOwner[r.Member.NodeENIUID] = append(byOwner[r.Member.NodeENIUID], r)
	}
	claims := slices.SortedFunc(slices.Values(p.Claims), func(a, b Claim) int {
		return cmp.Or(cmp.Compare(a.NodeENI, b.NodeENI), cmp.Compare(a.NodeENIUID, b.NodeENIUID))
	})
	p.preJoin = withoutOwnerNetworks(claims, byOwner)
	p.unknown = withoutOwner(claims, byOwner)
	for _, claim := range p.inAdoptionOrder(claims) {
		p.adoptOrphans(claim, byOwner)
	}
	p.unknown = append(p.unknown, invisibleOrphans(claims, byOwner)...)
	for _, claim := range claims {
		p.placeClaim(&claim, byOwner[claim.NodeENIUID])
		delete(byOwner, claim.NodeENIUID)
	}
	standing, why := ModeFor(SelectionFacts{NodePaused: p.Paused})
	for _, uid := range slices.Sorted(maps.Keys(byOwner)) {
		// That the instance is gone does not make a NodeENI known: its interfaces go like leaks.
		p.placeClaim(&Claim{Mode: standing, Why: why, Leaked: p.ended}, byOwner[uid])
	}
	for _, r := range p.preJoin {
		why := "it was made before its instance joined the cluster, for network " + r.Member.NodeENI + ", and goes with the instance"
		joined := Retain
		if p.Paused {
			joined = Paused
		}
		p.placeClaim(&Claim{Mode: joined, Why: why}, []inventory.Record{r})
	}
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
		wish := &claim.Interfaces[w]
		if i, ok := pairs.byWish[w]; ok {
			m := p.existing(claim, owned[i])
			m.desired, m.Desired, m.RequestedSlot = wish, true, wish.Slot
			// Somebody can have changed the names in its tags, by which its node hears of it.
			m.NodeENI, m.Node = claim.NodeENI, p.Node
			p.add(m)
			continue
		}
		key := identity.Key{NodeENIUID: claim.NodeENIUID, Ordinal: ordinal[w]}
		if born := p.launchedFor(wish); born != nil {
			p.adoptLaunchInterfaces(claim, wish, key, born)
			continue
		}
		p.add(&member{claim: claim, desired: wish, Member: Member{
			Member: p.identity(claim, key), Desired: true, RequestedSlot: wish.Slot, Slot: wish.Slot,
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
			m.removeReason = "its subnet is no longer in the NodeENI"
		}
		p.add(m)
	}
	if !stranded { // they say what is lacking
		p.addUnresolvable(claim)
	}
}

// live reports whether an interface is attached to the instance, or about to be.
func (p *planner) live(r *inventory.Record) bool {
	return r.AttachedTo(p.InstanceID) && r.Attachment.Status != eni.AttachmentDetaching
}

// retainWithoutSubnet keeps a live interface of a NodeENI that has no subnet for the instance. A NodeENI that means other zones or another
// VPC says what new interfaces lack; it gives up none that is in use.
func (m *member) retainWithoutSubnet() {
	m.withoutSubnet, m.Desired = "the NodeENI has no subnet for the node; add one, or narrow its nodeSelector", true
	if len(m.claim.Unresolvable) > 0 {
		m.withoutSubnet = m.claim.Unresolvable[0].Message
	}
	m.Drift = []Drift{{"subnet", "one that a new interface of the node can be in", m.record.SubnetID}}
}

// addUnresolvable makes a blocked member of everything that could not be wished for, so that it is seen.
func (p *planner) addUnresolvable(claim *Claim) {
	ordinal := 0
	for _, m := range p.members {
		if m.NodeENIUID == claim.NodeENIUID {
			ordinal = max(ordinal, m.Ordinal+1)
		}
	}
	for n := range claim.Unresolvable {
		key := identity.Key{NodeENIUID: claim.NodeENIUID, Ordinal: ordinal + n}
		slot := eni.Slot{Card: claim.FirstSlot.Card, Device: claim.FirstSlot.Device + key.Ordinal}
		p.add(&member{claim: claim, problem: &claim.Unresolvable[n], Member: Member{
			Member: p.identity(claim, key), Desired: true, RequestedSlot: slot, Slot: slot,
		}})
	}
}

// retainUnverified adds what a claim has that gets no wishes now. A claim that is merely paused still has them, and whoever paused
// it wants to see in what its interfaces differ from them.
func (p *planner) retainUnverified(claim *Claim, owned []inventory.Record) {
	drift := map[int][]Drift{}
	if claim.Mode == Paused {
		for w, i := range match(claim.Interfaces, owned, p.InstanceID, p.verified).byWish {
			drift[i] = fixedDrift(claim.Interfaces[w], claim.target(claim.Interfaces[w].Slot, owned[i].Interface), owned[i].Interface)
		}
	}
	for i, r := range owned {
		if !p.verified(r) && claim.Mode == Release && !p.accepts(claim) {
			p.exclude(r, "")
			continue
		}
		m := p.existing(claim, r)
		m.Drift, m.Unverified = drift[i], !p.hasEvidence(r)
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

// isConfirmedLeak reports whether an interface whose NodeENI does not exist may go.
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

// allocateSlots finds a slot for every wanted interface that has none. Interfaces that exist go first, so that none is left
// over for want of a seat that one still to be made was promised; slots asked for exactly are kept free for who asks. Those
// that are being made come before all others and keep their slots.
func (p *planner) allocateSlots() {
	var standing []*member
	for _, m := range p.members {
		if m.ordered {
			p.slots.reserve(m.target)
		}
		switch {
		case m.removeReason != "" && m.record.AttachedTo(p.InstanceID):
			if !p.refused(m) {
				p.slots.freeWhenGone(m.Slot)
			}
		case m.desired != nil && !m.hasSlot():
			standing = append(standing, m)
			if m.claim.ExactSlot {
				p.slots.reserve(m.desired.Slot)
			}
		}
	}
	slices.SortStableFunc(standing, func(a, b *member) int {
		return cmp.Or(first(p.createInFlight(a), p.createInFlight(b)), first(a.record != nil, b.record != nil), first(a.claim.ExactSlot, b.claim.ExactSlot))
	})
	for _, m := range standing {
		p.allocateSlot(m)
	}
	p.countUnattached()
}

// countUnattached leaves out the interfaces for which there is no seat: they wait for a person, and others need not.
func (p *planner) countUnattached() {
	for _, m := range p.members {
		onItsWay := m.desired != nil && (m.problem == nil || m.problem.Reason.Transient()) || m.removeReason != ""
		if onItsWay && m.record != nil && (m.record.Attachment == nil || isExpected(m.record.Attachment)) {
			p.unattached++
		}
	}
}

// refused reports whether EC2 does not let go of an interface that is leaving, so that its slot need not become free.
func (p *planner) refused(m *member) bool {
	setback, failed := p.Backoffs[m.Key]
	return failed && setback.Removal && (setback.Count >= maxDetachFailures || !setback.problem().Reason.Transient())
}

// first orders what is so before what is not.
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
		slot, alone := p.slotFor(m)
		m.Slot, m.problem = p.slots.allocate(slot, alone, "NodeENI "+m.NodeENI)
	}
}

// createInFlight reports whether a call that makes the member's interface is under way.
func (p *planner) createInFlight(m *member) bool {
	_, is := p.slotOf(m.Key)
	return is
}

// hasSlot reports whether the interface holds a slot somewhere, be it while it leaves it.
func (m *member) hasSlot() bool {
	return m.launchInterface != nil || m.record != nil && m.record.Attachment != nil
}

// finish orders the outcome, tidies the ledger, and holds all calls back when the instance was not looked at.
func (p *planner) finish() Plan {
	for _, m := range p.members {
		p.plan.Members = append(p.plan.Members, m.Member)
	}
	slices.SortStableFunc(p.plan.Members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.NodeENI, b.NodeENI), a.Key.Compare(b.Key), cmp.Compare(a.Generation, b.Generation))
	})
	p.pruneGenerations()
	p.noteVerified()
	p.plan.Actions = slices.DeleteFunc(p.plan.Actions, p.waitsForAnswer)
	if p.NodeAbsent && len(p.members) > 0 {
		p.requeueAt(p.now.Add(foreignSlotRecheck))
	}
	if p.Snapshot == nil {
		inDoubt := slices.ContainsFunc(p.members, func(m *member) bool { return m.needsFreshRead })
		p.plan.NeedsDescribe = p.NodeAbsent || inDoubt || len(p.plan.Actions) > 0 || !maps.Equal(p.plan.Ledger, p.Ledger)
		p.plan.Proposed, p.plan.Actions, p.plan.Ledger = p.plan.Actions, nil, maps.Clone(p.Ledger)
	}
	return p.plan
}

// requeueAt asks for another plan at the given time, unless an earlier one is asked for already.
func (p *planner) requeueAt(at time.Time) {
	if p.plan.RequeueAt.IsZero() || at.Before(p.plan.RequeueAt) {
		p.plan.RequeueAt = at
	}
}
