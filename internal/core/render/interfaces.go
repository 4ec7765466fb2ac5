// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
)

// uncertainRecheck is the requeue for an interface whose fate depends on a read of EC2.
const uncertainRecheck = 15 * time.Second

// Rendering is the desired state of one instance.
type Rendering struct {
	plan.Desired
	// Unverified are attached interfaces that are retained, because only their tags say that they belong to the
	// cluster. Verified are the IDs of the interfaces with other evidence.
	Unverified []Unverified
	Verified   []string
}

// Interfaces returns the interfaces of one instance, each with its goal, in the order in which they are planned.
func Interfaces(d Declared, e Evidence, o plan.Observed, now time.Time) Rendering {
	r := &renderer{Declared: d, Evidence: e, Observed: o, now: now, ended: o.Ended(now)}
	r.Owned = o.Expected()
	r.out.Desired = plan.Desired{
		Cluster: d.Cluster, Node: d.Node, InstanceID: d.InstanceID, NodeAbsent: d.NodeAbsent,
		InstanceTags: d.InstanceTags, InPlaceUpdates: d.InPlaceUpdates,
	}
	r.place()
	r.noteVerified()
	return r.out
}

// renderer is the state that the parts of one rendering share.
type renderer struct {
	Declared
	Evidence
	plan.Observed
	now   time.Time
	ended bool
	// preJoin are the pre-join interfaces of the instance that no NodeENI has adopted.
	preJoin []inventory.Record
	// unknown are the interfaces whose existence, or whose NodeENI's existence, is uncertain.
	unknown []inventory.Record
	out     Rendering
}

// place adds every desired and every existing interface.
func (r *renderer) place() {
	byOwner := map[identity.Owner][]inventory.Record{}
	for _, record := range r.withoutCopies() {
		byOwner[record.Member.Owner] = append(byOwner[record.Member.Owner], record)
	}
	claims := slices.SortedFunc(slices.Values(r.Claims), func(a, b Claim) int {
		return cmp.Or(cmp.Compare(a.NodeENI, b.NodeENI), cmp.Compare(a.Owner, b.Owner))
	})
	r.preJoin = preJoinWithoutClaim(claims, byOwner)
	for _, record := range r.preJoin {
		delete(byOwner, record.Member.Owner)
	}
	r.unknown = withoutClaim(claims, byOwner)
	for _, claim := range r.inAdoptionOrder(claims) {
		r.adoptOrphans(claim, byOwner)
	}
	r.unknown = append(r.unknown, missingOrphans(claims, byOwner)...)
	for _, claim := range claims {
		r.placeClaim(&claim, byOwner[claim.Owner])
		delete(byOwner, claim.Owner)
	}
	mode, why := ModeFor(SelectionFacts{NodePaused: r.Paused})
	for _, owner := range slices.Sorted(maps.Keys(byOwner)) {
		// The end of the instance says nothing about an unknown NodeENI, so its interfaces are removed like leaks.
		r.placeClaim(&Claim{Mode: mode, Why: why, Leaked: r.ended}, byOwner[owner])
	}
	for _, record := range r.preJoin {
		why := "it was made before its instance joined the cluster, for network " + record.Member.NodeENI +
			", and goes with the instance"
		mode := Retain
		if r.Paused {
			mode = Paused
		}
		r.placeClaim(&Claim{Mode: mode, Why: why}, []inventory.Record{record})
	}
}

// placeClaim adds the interfaces of a claim.
func (r *renderer) placeClaim(claim *Claim, owned []inventory.Record) {
	if r.ended && claim.Mode != Paused {
		claim.Mode, claim.Why = Release, "its instance is gone"
	}
	if claim.Mode != Ensure {
		r.placeExisting(claim, owned)
		return
	}
	owned = r.credible(owned)
	pairs := match(claim, owned, r.InstanceID, r.verified)
	pairs.surplus = r.excludeSurplus(pairs.surplus, owned)
	ordinal := r.ordinals(claim, pairs, owned)
	for w := range claim.Interfaces {
		desired := &claim.Interfaces[w]
		if i, ok := pairs.byDesired[w]; ok {
			r.add(r.serving(claim, desired, owned[i]))
			continue
		}
		r.add(r.lacking(claim, desired, identity.Key{Owner: claim.Owner, Ordinal: ordinal[w]}))
	}
	if stranded := r.placeSurplus(claim, pairs, owned); !stranded { // the retained interfaces give the reason
		r.addUnresolvable(claim)
	}
}

// serving returns the desired interface that an existing one serves.
func (r *renderer) serving(claim *Claim, desired *plan.DesiredInterface, record inventory.Record) plan.Interface {
	i := r.existing(claim, record)
	i.Goal, i.Settings, i.Desired, i.RequestedSlot = plan.Ensure, desired, true, desired.Slot
	// The names in the tags lead events of the interface to the node, and a user can have changed them.
	i.NodeENI, i.Node = claim.NodeENI, r.Node
	i.Target = claim.target(desired.Slot, record.Interface)
	if record.Ready() && record.AttachedTo(r.InstanceID) {
		i.Drift = claim.drift(*desired, record.Interface)
	}
	return i
}

// lacking returns the desired interface that no existing one serves, except perhaps a launch interface.
func (r *renderer) lacking(claim *Claim, desired *plan.DesiredInterface, key identity.Key) plan.Interface {
	i := r.member(claim, key)
	i.Goal, i.Settings, i.RequestedSlot, i.Slot = plan.Ensure, desired, desired.Slot, desired.Slot
	if i.Launched = r.launchedFor(desired); i.Launched != nil {
		i.Interface = i.Launched
		if i.Generation == 0 { // its entry in the ledger keeps the node's state
			i.Generation = identity.Adopted
		}
		return i
	}
	i.Predecessor = r.orphanMatching(claim.NodeENI, desired)
	return i
}

// launchedFor returns the launch interface in the slot of the desired one, if no other desired one has it.
func (r *renderer) launchedFor(desired *plan.DesiredInterface) *eni.Interface {
	for n := range r.Launched {
		i := &r.Launched[n]
		taken := slices.ContainsFunc(r.out.Interfaces, func(other plan.Interface) bool {
			return other.Launched != nil && other.Launched.ID == i.ID
		})
		if !taken && i.AttachedTo(r.InstanceID) && i.Attachment.Slot == desired.Slot && i.Attachment.Slot != eni.Primary &&
			desired.Allows(i.SubnetID) {
			return i
		}
	}
	return nil
}

// placeSurplus adds the existing interfaces that serve no desired one. It reports whether live ones are retained
// because the NodeENI has no subnet for the instance.
func (r *renderer) placeSurplus(claim *Claim, pairs matching, owned []inventory.Record) (stranded bool) {
	for _, n := range pairs.surplus {
		i := r.existing(claim, owned[n])
		i.Unverified = !r.hasEvidence(*i.Record) // an unattached copy must not become evidence for the next one
		switch {
		case !claim.AllResolved:
			i.Why = plan.Problem{Reason: plan.Retained, Message: whyRetained(claim, i.Record, r.now)}
		case !pairs.isCertain(owned):
			i.NeedsFreshRead, i.RequeueAt = true, r.now.Add(uncertainRecheck)
			i.Why = plan.Problem{Reason: plan.Retained, Message: fmt.Sprintf(
				"%s is left as it is until EC2 shows for certain which interface takes its place", i.Record.ID)}
		case len(claim.Interfaces) == 0 && r.live(i.Record):
			i = strand(claim, i)
			stranded = true
		default:
			i.Goal, i.Why.Message = plan.Release, surplusReason(claim, i.Record.SubnetID)
		}
		r.add(i)
	}
	return stranded
}

// surplusReason says why an interface is surplus.
func surplusReason(claim *Claim, subnetID string) string {
	if slices.ContainsFunc(claim.Interfaces, func(d plan.DesiredInterface) bool { return d.Allows(subnetID) }) {
		return "another interface of the NodeENI is in its subnet"
	}
	return "its subnet is no longer in the NodeENI"
}

// live reports whether an interface is attached to the instance, or about to be.
func (r *renderer) live(record *inventory.Record) bool {
	return record.AttachedTo(r.InstanceID) && record.Attachment.Status != eni.AttachmentDetaching
}

// strand retains a live interface of a NodeENI without a subnet for the instance. A selector that matches only other
// zones or another VPC blocks new interfaces, but is no reason to remove one in use.
func strand(claim *Claim, i plan.Interface) plan.Interface {
	why := "the NodeENI has no subnet for the node; add one, or narrow its nodeSelector"
	if len(claim.Unresolvable) > 0 {
		why = claim.Unresolvable[0].Message
	}
	i.Desired = true
	i.Why = plan.Problem{Reason: plan.Drifted, Message: fmt.Sprintf(
		"%s in %s stays as it is: %s, or change the NodeENI back", i.Record.ID, i.Record.SubnetID, why)}
	i.Drift = []plan.Drift{{Field: plan.SubnetDrift, Want: "one that a new interface of the node can be in",
		Have: i.Record.SubnetID}}
	return i
}

// addUnresolvable adds a blocked interface for each one that could not be resolved, so that the status shows it.
func (r *renderer) addUnresolvable(claim *Claim) {
	ordinal := 0
	for _, i := range r.out.Interfaces {
		if i.Owner == claim.Owner {
			ordinal = max(ordinal, i.Ordinal+1)
		}
	}
	for n := range claim.Unresolvable {
		i := r.member(claim, identity.Key{Owner: claim.Owner, Ordinal: ordinal + n})
		i.Goal, i.Problem = plan.Ensure, &claim.Unresolvable[n]
		i.Slot = eni.Slot{Card: claim.FirstSlot.Card, Device: claim.FirstSlot.Device + i.Ordinal}
		i.RequestedSlot = i.Slot
		r.add(i)
	}
}

// placeExisting adds the interfaces of a claim without desired ones. A claim that is only paused still has desired
// ones, so that the status shows the differences.
func (r *renderer) placeExisting(claim *Claim, owned []inventory.Record) {
	drift := map[int][]plan.Drift{}
	if claim.Mode == Paused {
		for w, n := range match(claim, owned, r.InstanceID, r.verified).byDesired {
			drift[n] = claim.drift(claim.Interfaces[w], owned[n].Interface)
		}
	}
	for n, record := range owned {
		accepted := !r.verified(record) && claim.Mode == Release && r.accepts(claim, record)
		if !r.verified(record) && claim.Mode == Release && !accepted {
			r.exclude(record, "")
			continue
		}
		i := r.existing(claim, record)
		i.Drift, i.Unverified = drift[n], !r.hasEvidence(record) && !accepted
		i.EntersLedger = accepted // so that its removal continues
		r.add(r.released(claim, i))
	}
}

// released returns an existing interface that nothing desires with its goal. An orphan is retained until it is
// certainly a leak.
func (r *renderer) released(claim *Claim, i plan.Interface) plan.Interface {
	if claim.Mode == Release && (!claim.Leaked || r.isConfirmedLeak(claim, *i.Record)) {
		i.Goal, i.Why.Message = plan.Release, cmp.Or(claim.Why, "it is no longer wanted")
		return i
	}
	i.Why = plan.Problem{Reason: plan.Retained, Message: whyRetained(claim, i.Record, r.now)}
	if claim.Leaked && claim.Mode == Release && identity.PastMinLeakAge(i.Record.Tags, r.now) {
		i.Why.Reason, i.RequeueAt = plan.Orphaned, r.now.Add(identity.AttachedOrphanGrace)
		if end := claim.MissingSince.Add(claim.Grace); end.Before(i.RequeueAt) {
			i.RequeueAt = end
		}
	}
	return i
}

// isConfirmedLeak reports whether an orphan may be removed.
func (r *renderer) isConfirmedLeak(claim *Claim, record inventory.Record) bool {
	inUse := record.AttachedTo(r.InstanceID) && !r.ended
	return identity.PastMinLeakAge(record.Tags, r.now) && (!inUse || r.now.Sub(claim.MissingSince) >= claim.Grace)
}

func whyRetained(claim *Claim, record *inventory.Record, now time.Time) string {
	switch {
	case claim.Leaked && identity.PastMinLeakAge(record.Tags, now):
		return fmt.Sprintf("NodeENI %s does not exist any more; its interface %s stays attached for %s after "+
			"multieni first found that, because workloads may use it; create the NodeENI again, which adopts the interface, "+
			"or set the annotation %s on the node",
			record.Member.NodeENI, record.ID, claim.Grace, identity.Prefix+"paused")
	case claim.Leaked:
		return fmt.Sprintf("%s is left as it is: its %s tag does not say that it is older than %s", record.ID,
			identity.TagCreatedAt, identity.MinLeakAge)
	case claim.Why != "":
		return fmt.Sprintf("%s is left as it is: %s", record.ID, claim.Why)
	default:
		return fmt.Sprintf("%s is left as it is: not all selectors of its NodeENI could be resolved", record.ID)
	}
}

// existing returns an existing interface of a claim, without a goal.
func (r *renderer) existing(claim *Claim, record inventory.Record) plan.Interface {
	i, of := claim.member(record.Member), record.Interface
	i.Interface, i.Record = &of, &record
	i.IsPodNetwork = claim.PodPrefixes.Pods && !r.listsAnother(record)
	if of.Attachment != nil {
		i.Slot = of.Attachment.Slot
		i.RequestedSlot = i.Slot
	}
	return i
}

// listsAnother reports whether the state of the node lists another interface of the same member as a network for pods.
// It lists only one per member while that is attached, so no agent lets pods use this one.
func (r *renderer) listsAnother(record inventory.Record) bool {
	return slices.ContainsFunc(r.Recorded, func(other Recorded) bool {
		return r.Stored[other.ID].Listed != nil && other.Key == record.Member.Key && other.ID != record.ID
	})
}

// member returns a desired interface of a claim that does not exist.
func (r *renderer) member(claim *Claim, key identity.Key) plan.Interface {
	i := claim.member(r.identity(claim, key))
	i.Desired = true
	i.Recorded = slices.ContainsFunc(r.Recorded, func(known Recorded) bool {
		return known.Key == key && known.Generation == r.Ledger[key]
	})
	return i
}

func (r *renderer) identity(claim *Claim, key identity.Key) identity.Member {
	return identity.Member{
		Cluster: r.Cluster, NodeENI: claim.NodeENI, Node: r.Node, InstanceID: r.InstanceID,
		Key: key, Generation: r.Ledger[key],
	}
}

// member returns a member of the claim with what the claim says about all of them.
func (c *Claim) member(m identity.Member) plan.Interface {
	return plan.Interface{
		Member: plan.Member{Member: m}, SecurityGroupProblem: c.SecurityGroupProblem, ExactSlot: c.ExactSlot,
		ReplaceAllowed: c.ReplaceAllowed, AllResolved: c.AllResolved, PodPrefixes: c.PodPrefixes, EvictPods: c.EvictPods,
	}
}

func (r *renderer) add(i plan.Interface) { r.out.Interfaces = append(r.out.Interfaces, i) }
