// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/multieni/multieni/eni"
	"github.com/multieni/multieni/inventory"
	"github.com/multieni/multieni/ownership"
)

const (
	// InstanceGrace is how long an instance that EC2 does not know is waited for. New instances can be unknown for a
	// while (EC2 API reference, "Eventual consistency").
	InstanceGrace = 2 * time.Minute
	// StuckAfter is how long an attach may take before it is undone and tried again.
	StuckAfter = 90 * time.Second
	// RecreateAfter is how long an interface that somebody else removed must have existed, or its successor waits: a
	// fight with another program over an interface is had slowly.
	RecreateAfter = 10 * time.Minute
	// MaxUnattached is how many interfaces of an instance may be on their way to their slots at a time. Whatever goes
	// wrong, no more than these can be left behind.
	MaxUnattached = 3
	// FullFor is for how long a subnet that had no address for an interface is not asked for another.
	FullFor = 2 * time.Minute
	// ForceAfter is how long a plain detach is waited for before the instance is cut off.
	ForceAfter = 10 * time.Minute

	// watched is when to look again at what the poller watches as well; it only matters when the poller's news is lost.
	watched = 30 * time.Second
	// mostUndone is after how many attempts to attach an interface that EC2 did not get done with a person is told, and
	// waits begin to grow.
	mostUndone = 3
	// refusals is how many times in a row EC2 may refuse to detach an interface before its slot is no longer waited for.
	refusals = 5
	// longestWait bounds the waits that grow.
	longestWait = 30 * time.Minute
	// hindered is when to look whether a foreign interface has left a slot we want.
	hindered = 5 * time.Minute
	// ending is when to look how far a termination is: EC2 tells nobody that it has deleted an interface with its instance.
	ending = 5 * time.Second
	// doubtful is when to look again at what no event will tell of.
	doubtful = 15 * time.Second
)

// Plan is what to do about one instance now.
type Plan struct {
	// Ledger is the generation of each member. Where it differs from the observed ledger, it must be stored before any
	// action is carried out.
	Ledger map[ownership.Key]int64
	// Actions are the calls to make now. Those of one member follow each other, and stop at the first that fails;
	// members are independent.
	Actions []Action
	// Members says where every wanted and every existing interface stands, ordered by NodeENI and ordinal.
	Members []Member
	// NeedsLook is set when calls would be made, but not without a fresh look at the instance; Intents are those calls.
	NeedsLook bool
	Intents   []Action
	// Unverified are attached interfaces that are left alone: nothing but their tags says that they are ours. Verified are the IDs
	// of those of which more says so.
	Unverified []Unverified
	Verified   []string
	// LookAgain is when to plan again even if nothing is heard before; zero for never.
	LookAgain time.Time
	// Unsettled is set while a wanted member is not attached.
	Unsettled bool
	// WouldReplace is the UID of the NodeENI of which a member is, or with [Observed.MayReplace] would be, removed to be
	// made anew; empty when none is.
	WouldReplace string
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
	ownership.Member
	Phase Phase
	// Wanted is false for an interface that is leaving or kept without being asked for.
	Wanted bool
	// Interface is nil until the interface exists.
	Interface *eni.Interface
	// Asked is the slot asked for; Slot the one taken or chosen.
	Asked, Slot eni.Slot
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
	return m.Wanted && m.Phase == Attached && (m.Why.Reason.Passing() || m.Why.Reason == Drifted)
}

// Compute plans one instance. Calling it again after its actions have taken effect returns a plan without actions.
func Compute(d Desired, o Observed, now time.Time) Plan {
	p := newPlanner(d, o, now)
	p.place()
	p.arrange()
	p.seatAll()
	p.chooseReplacement()
	for _, m := range p.members {
		p.step(m)
	}
	p.mendLaunched()
	return p.finish()
}

// planner holds what the steps of one computation share.
type planner struct {
	Desired
	Observed
	now     time.Time
	ended   bool
	seats   *seats
	members []*member
	// joined are the interfaces that the instance got for networks before it joined, and that no NodeENI has taken over.
	joined []inventory.Record
	// unknown are the interfaces of which it is not known whether they, or the NodeENIs they were made for, exist.
	unknown []inventory.Record
	// unattached counts the interfaces that exist, or are about to, without being attached, and are on their way.
	unattached int
	plan       Plan
}

// member is one interface on its way through a computation.
type member struct {
	Member
	claim  *Claim
	wish   *Wish
	record *inventory.Record
	// born is the interface the instance was launched with that serves as the member's.
	born *eni.Interface
	// target is the slot that the member belongs in; see [planner.arrange].
	target eni.Slot
	// ordered is set while members of its NodeENI move to their targets, which are kept free for them.
	ordered bool
	leaving string
	// stranded says what the NodeENI of a live interface lacks for a new one; the interface is kept.
	stranded string
	// doubtful is set on an interface that nothing stands for, while it is not certain that what does exists, and on a
	// member of which only a look can tell what keeps it.
	doubtful bool
	problem  *Problem
	// serves is set on a member whose interface was taken over, and differs from what is wanted in nothing but its tags.
	serves bool
}

func newPlanner(d Desired, o Observed, now time.Time) *planner {
	p := &planner{Desired: d, Observed: o, now: now}
	p.Owned = o.expected()
	p.plan.Ledger = maps.Clone(o.Ledger)
	if p.plan.Ledger == nil {
		p.plan.Ledger = map[ownership.Key]int64{}
	}
	if o.Look != nil {
		state := o.Look.Instance.State
		p.ended = state.Ending() || state == eni.InstanceMissing && !o.MissingSince.IsZero() && now.Sub(o.MissingSince) >= InstanceGrace
	}
	p.seats = p.seat()
	return p
}

// place makes a member of every wish and of every existing interface.
func (p *planner) place() {
	byOwner := map[string][]inventory.Record{}
	for _, r := range p.setCopiesAside() {
		byOwner[r.Member.NodeENIUID] = append(byOwner[r.Member.NodeENIUID], r)
	}
	claims := slices.SortedFunc(slices.Values(p.Claims), func(a, b Claim) int {
		return cmp.Or(cmp.Compare(a.NodeENI, b.NodeENI), cmp.Compare(a.NodeENIUID, b.NodeENIUID))
	})
	p.joined = unclaimedNetworks(claims, byOwner)
	p.unknown = unclaimed(claims, byOwner)
	for _, claim := range p.inOrderOfTaking(claims) {
		p.takeOver(claim, byOwner)
	}
	p.unknown = append(p.unknown, orphansNotSeen(claims, byOwner)...)
	for _, claim := range claims {
		p.placeClaim(&claim, byOwner[claim.NodeENIUID])
		delete(byOwner, claim.NodeENIUID)
	}
	standing, why := Judge(Circumstances{NodePaused: p.Paused})
	for _, uid := range slices.Sorted(maps.Keys(byOwner)) {
		// That the instance is gone does not make a NodeENI known: its interfaces go like leaks.
		p.placeClaim(&Claim{Standing: standing, Why: why, Leaked: p.ended}, byOwner[uid])
	}
	for _, r := range p.joined {
		why := "it was made before its instance joined the cluster, for network " + r.Member.NodeENI + ", and goes with the instance"
		joined := Held
		if p.Paused {
			joined = Paused
		}
		p.placeClaim(&Claim{Standing: joined, Why: why}, []inventory.Record{r})
	}
}

func (p *planner) placeClaim(claim *Claim, owned []inventory.Record) {
	if p.ended && claim.Standing != Paused {
		claim.Standing, claim.Why = Released, "its instance is gone"
	}
	if claim.Standing != Wanted {
		p.leaveAlone(claim, owned)
		return
	}
	owned = p.credible(owned)
	pairs := match(claim.Wishes, owned, p.InstanceID, p.verified)
	pairs.surplus = p.denySurplus(pairs.surplus, owned)
	ordinal := p.ordinals(claim, pairs, owned)
	for w := range claim.Wishes {
		wish := &claim.Wishes[w]
		if i, ok := pairs.byWish[w]; ok {
			m := p.existing(claim, owned[i])
			m.wish, m.Wanted, m.Asked = wish, true, wish.Slot
			// Somebody can have changed the names in its tags, by which its node hears of it.
			m.NodeENI, m.Node = claim.NodeENI, p.Node
			p.add(m)
			continue
		}
		key := ownership.Key{NodeENIUID: claim.NodeENIUID, Ordinal: ordinal[w]}
		if born := p.launchedFor(wish); born != nil {
			p.adopt(claim, wish, key, born)
			continue
		}
		p.add(&member{claim: claim, wish: wish, Member: Member{
			Member: p.identity(claim, key), Wanted: true, Asked: wish.Slot, Slot: wish.Slot,
		}})
	}
	stranded := false
	for _, i := range pairs.surplus {
		m := p.existing(claim, owned[i])
		switch {
		case !claim.Resolved:
		case !pairs.certain(owned):
			m.doubtful = true
		case len(claim.Wishes) == 0 && p.live(m.record):
			m.strand()
			stranded = true
		default:
			m.leaving = "its subnet is no longer in the NodeENI"
		}
		p.add(m)
	}
	if !stranded { // they say what is lacking
		p.placeLacking(claim)
	}
}

// live reports whether an interface is attached to the instance, or about to be.
func (p *planner) live(r *inventory.Record) bool {
	return r.AttachedTo(p.InstanceID) && r.Attachment.Status != eni.AttachmentDetaching
}

// strand keeps a live interface of a NodeENI that has no subnet for the instance. A NodeENI that means other zones or another
// VPC says what new interfaces lack; it gives up none that is in use.
func (m *member) strand() {
	m.stranded, m.Wanted = "the NodeENI has no subnet for the node; add one, or narrow its nodeSelector", true
	if len(m.claim.Lacking) > 0 {
		m.stranded = m.claim.Lacking[0].Message
	}
	m.Drift = []Drift{{"subnet", "one that a new interface of the node can be in", m.record.SubnetID}}
}

// placeLacking makes a blocked member of everything that could not be wished for, so that it is seen.
func (p *planner) placeLacking(claim *Claim) {
	ordinal := 0
	for _, m := range p.members {
		if m.NodeENIUID == claim.NodeENIUID {
			ordinal = max(ordinal, m.Ordinal+1)
		}
	}
	for n := range claim.Lacking {
		key := ownership.Key{NodeENIUID: claim.NodeENIUID, Ordinal: ordinal + n}
		slot := eni.Slot{Card: claim.Base.Card, Device: claim.Base.Device + key.Ordinal}
		p.add(&member{claim: claim, problem: &claim.Lacking[n], Member: Member{
			Member: p.identity(claim, key), Wanted: true, Asked: slot, Slot: slot,
		}})
	}
}

// leaveAlone adds what a claim has that gets no wishes now. A claim that is merely paused still has them, and whoever paused
// it wants to see in what its interfaces differ from them.
func (p *planner) leaveAlone(claim *Claim, owned []inventory.Record) {
	drift := map[int][]Drift{}
	if claim.Standing == Paused {
		for w, i := range match(claim.Wishes, owned, p.InstanceID, p.verified).byWish {
			drift[i] = fixedDrift(claim.Wishes[w], claim.target(claim.Wishes[w].Slot, owned[i].Interface), owned[i].Interface)
		}
	}
	for i, r := range owned {
		if !p.verified(r) && claim.Standing == Released && !p.believes(claim) {
			p.deny(r, "")
			continue
		}
		m := p.existing(claim, r)
		m.Drift, m.Unverified = drift[i], !p.evident(r)
		p.add(m)
	}
}

func (p *planner) existing(claim *Claim, r inventory.Record) *member {
	i := r.Interface
	m := &member{claim: claim, record: &r, Member: Member{Member: r.Member, Interface: &i}}
	if claim.Standing == Released && (!claim.Leaked || p.surelyLeaked(claim, r)) {
		m.leaving = cmp.Or(claim.Why, "it is no longer wanted")
	}
	if i.Attachment != nil {
		m.Slot = i.Attachment.Slot
		m.Asked = m.Slot
	}
	return m
}

// surelyLeaked reports whether an interface whose NodeENI does not exist may go.
func (p *planner) surelyLeaked(claim *Claim, r inventory.Record) bool {
	inUse := r.AttachedTo(p.InstanceID) && !p.ended
	return ownership.OldEnough(r.Tags, p.now) && (!inUse || p.now.Sub(claim.MissingSince) >= claim.Grace)
}

func (p *planner) identity(claim *Claim, key ownership.Key) ownership.Member {
	return ownership.Member{
		Cluster: p.Cluster, NodeENI: claim.NodeENI, Node: p.Node, InstanceID: p.InstanceID,
		Key: key, Generation: p.plan.Ledger[key],
	}
}

func (p *planner) add(m *member) { p.members = append(p.members, m) }

// seatAll finds a slot for every wanted interface that has none. Interfaces that exist go first, so that none is left
// over for want of a seat that one still to be made was promised; slots asked for exactly are kept free for who asks. Those
// that are being made come before all others and keep their slots.
func (p *planner) seatAll() {
	var standing []*member
	for _, m := range p.members {
		if m.ordered {
			p.seats.reserve(m.target)
		}
		switch {
		case m.leaving != "" && m.record.AttachedTo(p.InstanceID):
			if !p.refused(m) {
				p.seats.leave(m.Slot)
			}
		case m.wish != nil && !m.seated():
			standing = append(standing, m)
			if m.claim.Exact {
				p.seats.reserve(m.wish.Slot)
			}
		}
	}
	slices.SortStableFunc(standing, func(a, b *member) int {
		return cmp.Or(first(p.beingMade(a), p.beingMade(b)), first(a.record != nil, b.record != nil), first(a.claim.Exact, b.claim.Exact))
	})
	for _, m := range standing {
		p.seatOne(m)
	}
	p.countUnattached()
}

// countUnattached leaves out the interfaces for which there is no seat: they wait for a person, and others need not.
func (p *planner) countUnattached() {
	for _, m := range p.members {
		onItsWay := m.wish != nil && (m.problem == nil || m.problem.Reason.Passing()) || m.leaving != ""
		if onItsWay && m.record != nil && (m.record.Attachment == nil || onlyExpected(m.record.Attachment)) {
			p.unattached++
		}
	}
}

// refused reports whether EC2 does not let go of an interface that is leaving, so that its slot need not become free.
func (p *planner) refused(m *member) bool {
	setback, failed := p.Setbacks[m.Key]
	return failed && setback.Removal && (setback.Count >= refusals || !setback.problem().Reason.Passing())
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

func (p *planner) seatOne(m *member) {
	m.problem = p.outsideCluster()
	if m.problem == nil && m.record == nil {
		m.problem = p.cannotBeMade(m)
	}
	if m.problem == nil {
		slot, alone := p.slotFor(m)
		m.Slot, m.problem = p.seats.take(slot, alone, "NodeENI "+m.NodeENI)
	}
}

// beingMade reports whether a call that makes the member's interface is under way.
func (p *planner) beingMade(m *member) bool {
	_, is := p.slotOf(m.Key)
	return is
}

// seated reports whether the interface holds a slot somewhere, be it while it leaves it.
func (m *member) seated() bool {
	return m.born != nil || m.record != nil && m.record.Attachment != nil
}

// finish orders the outcome, tidies the ledger, and holds all calls back when the instance was not looked at.
func (p *planner) finish() Plan {
	for _, m := range p.members {
		p.plan.Members = append(p.plan.Members, m.Member)
	}
	slices.SortStableFunc(p.plan.Members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.NodeENI, b.NodeENI), a.Key.Compare(b.Key), cmp.Compare(a.Generation, b.Generation))
	})
	p.tidyLedger()
	p.noteVerified()
	p.plan.Actions = slices.DeleteFunc(p.plan.Actions, p.waitsForAnswer)
	if p.NodeAbsent && len(p.members) > 0 {
		p.again(p.now.Add(hindered))
	}
	if p.Look == nil {
		inDoubt := slices.ContainsFunc(p.members, func(m *member) bool { return m.doubtful })
		p.plan.NeedsLook = p.NodeAbsent || inDoubt || len(p.plan.Actions) > 0 || !maps.Equal(p.plan.Ledger, p.Ledger)
		p.plan.Intents, p.plan.Actions, p.plan.Ledger = p.plan.Actions, nil, maps.Clone(p.Ledger)
	}
	return p.plan
}

// again asks for another plan at the given time, unless an earlier one is asked for already.
func (p *planner) again(at time.Time) {
	if p.plan.LookAgain.IsZero() || at.Before(p.plan.LookAgain) {
		p.plan.LookAgain = at
	}
}
