// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inventory keeps what is known of the interfaces a cluster owns, in the face of readings that lag.
//
// EC2 is eventually consistent: a listing may omit an interface that was just made, still show one that was deleted,
// or show an attribute as it was before our own call. An [Inventory] merges three kinds of news so that no decision
// rests on such a reading:
//
//   - [Inventory.RecordCall]: a call of ours was accepted. What it did counts for [StaleReadWindow], whatever readings say meanwhile.
//   - [Inventory.ObserveInterfaces]: EC2 showed an interface. It counts unless it contradicts a call of ours that is still settling.
//   - [Inventory.ObserveAbsence]: EC2 did not show an interface where it should have. It is only [Record.Missing] until a
//     second reading, [AbsenceConfirmation] later, misses it as well.
//
// It holds no clock and does no I/O; the time of every piece of news comes with it.
package inventory

import (
	"maps"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

const (
	// StaleReadWindow is how long after one of our calls a reading that does not show its effect is taken for stale. EC2 names
	// no bound; its advice is to allow for "a few minutes" (EC2 API reference, "Eventual consistency").
	StaleReadWindow = 60 * time.Second
	// VisibilityWindow is how long after its creation an interface that EC2 does not show is waited for.
	VisibilityWindow = 2 * time.Minute
	// AbsenceConfirmation is the least time between the two readings that prove an interface gone.
	AbsenceConfirmation = 30 * time.Second
	// retention is how long the ID and generation of an interface that is gone are kept, so that neither a stale listing
	// nor an old client token can bring it back. EC2 forgets tokens after about a day.
	retention = 24 * time.Hour
)

// Record is one owned interface.
type Record struct {
	eni.Interface
	Member identity.Member
	// Verified is set once more than its tags said that the interface is ours: EC2 accepted a call of ours for it, or a ledger
	// did. Tags can be copied and invented.
	Verified bool
	// Missing is set while one reading, but not yet a second, has failed to show the interface.
	Missing bool
	// Confirmed is set once a stale reading can no longer be the only reason why the interface is known: EC2 accepted a
	// call of ours for it, or showed it [StaleReadWindow] after it was first known.
	Confirmed bool
	// LastRead is when the newest reading that counted was begun; zero while only a call of ours speaks for the interface.
	// What EC2 does in its own time is judged by it: a later reading that was taken for stale says nothing.
	LastRead time.Time
	// DetachingSince is when the attachment was first known to be detaching, or when a detach was last asked for; zero
	// when it is not detaching.
	DetachingSince time.Time
	// AttachingSince is when the attachment was first known to be attaching; zero when it is not.
	AttachingSince time.Time
	// FailedAttaches counts the attempts to attach it that ended without success since the last that did; LastFailedAttach is when the
	// last one ended.
	FailedAttaches   int
	LastFailedAttach time.Time
}

// Inventory is the owned interfaces of one cluster. The zero value is not usable; call [New]. It is not safe for
// concurrent use.
type Inventory struct {
	cluster string
	entries map[string]*entry
	// deleted remembers when interfaces went away.
	deleted map[string]time.Time
	// spent is, by instance, the highest generation of each member whose interface existed and is gone. Where nodes come and
	// go there are far more of these than interfaces, and every plan asks.
	spent      map[string]map[identity.Key]retired
	byInstance map[string]map[string]*entry
	// byNode and byNodeENI count the interfaces per node name and instance, and per NodeENI UID.
	byNode    map[string]map[string]int
	byNodeENI map[string]int
	evidence  evidence
	// unattached holds the IDs of the interfaces without an attachment.
	unattached map[string]bool
	// asked is, by NodeENI UID, when an interface was last asked for without EC2 saying which one it made.
	asked    map[string]time.Time
	launched launchInterfaces
}

type retired struct {
	generation int64
	at         time.Time
	lost       bool
}

type entry struct {
	Record
	madeAt time.Time
	// ownedSince is when the interface was first heard of.
	ownedSince time.Time
	// newestReadBegan is when the newest reading that counted was begun, or when our last call was accepted if that is later.
	newestReadBegan time.Time
	absentSince     time.Time
	pending         expectations
}

// New returns an empty inventory for the cluster of the given name, as it stands in ownership tags.
func New(cluster string) *Inventory {
	return &Inventory{
		cluster:    cluster,
		entries:    map[string]*entry{},
		deleted:    map[string]time.Time{},
		spent:      map[string]map[identity.Key]retired{},
		byInstance: map[string]map[string]*entry{},
		byNode:     map[string]map[string]int{},
		byNodeENI:  map[string]int{},
		evidence:   newEvidence(),
		unattached: map[string]bool{},
		asked:      map[string]time.Time{},
		launched:   newLaunched(),
	}
}

// Of returns the records of the interfaces made for an instance, ordered by ID.
func (v *Inventory) Of(instanceID string) []Record {
	return v.records(v.byInstance[instanceID])
}

// Interface returns an owned interface, or one that was launched, as it is last known.
func (v *Inventory) Interface(id string) (eni.Interface, bool) {
	if e, known := v.entries[id]; known {
		return e.Clone(), true
	}
	if b, known := v.launched.get(id); known {
		return b.Clone(), true
	}
	return eni.Interface{}, false
}

// RecentlyCreated reports whether an interface was first heard of so shortly before that EC2 may not know it everywhere yet.
func (v *Inventory) RecentlyCreated(now time.Time, id string) bool {
	e, known := v.entries[id]
	return known && now.Before(e.ownedSince.Add(VisibilityWindow))
}

// Len returns how many interfaces are known.
func (v *Inventory) Len() int { return len(v.entries) }

// InstancesOf returns the instances for which interfaces were made under a node's name, in order. Node names come
// back as other instances; instances do not.
func (v *Inventory) InstancesOf(node string) []string {
	return slices.Sorted(maps.Keys(v.byNode[node]))
}

// InTransition returns the IDs of the interfaces whose state EC2 will change by itself, or that a reading missed.
func (v *Inventory) InTransition() []string {
	var ids []string
	for id, e := range v.entries {
		if e.Missing || e.Interface.InTransition() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// UsedGenerations returns the highest generation of each member of the instance that was used up: its interface existed and is gone.
func (v *Inventory) UsedGenerations(instanceID string) map[identity.Key]int64 {
	spent := map[identity.Key]int64{}
	for key, last := range v.spent[instanceID] {
		spent[key] = last.generation
	}
	return spent
}

// RemovedExternally returns when interfaces of the instance's members went away that were not removed by us.
func (v *Inventory) RemovedExternally(instanceID string) map[identity.Key]time.Time {
	lost := map[identity.Key]time.Time{}
	for key, last := range v.spent[instanceID] {
		if last.lost {
			lost[key] = last.at
		}
	}
	return lost
}

// Unattached returns how many interfaces exist without being attached to anything, of those whose NodeENI counts.
func (v *Inventory) Unattached(counts func(nodeENIUID string) bool) int {
	n := 0
	for id := range v.unattached {
		if counts(v.entries[id].Member.NodeENIUID) {
			n++
		}
	}
	return n
}

// Owners returns the UIDs of the NodeENIs that interfaces are known of, in order.
func (v *Inventory) Owners() []string { return slices.Sorted(maps.Keys(v.byNodeENI)) }

// MembersOf returns the members of a NodeENI that interfaces are known of.
func (v *Inventory) MembersOf(nodeENIUID string) []identity.Member {
	var members []identity.Member
	for _, id := range slices.Sorted(maps.Keys(v.entries)) {
		if m := v.entries[id].Member; m.NodeENIUID == nodeENIUID {
			members = append(members, m)
		}
	}
	return members
}

// ObserveInterfaces merges what a reading begun at the given time showed, and returns the members it changed. Interfaces that are not
// ours are passed over.
func (v *Inventory) ObserveInterfaces(begun time.Time, interfaces ...eni.Interface) []identity.Member {
	var changed []identity.Member
	for _, seen := range interfaces {
		member, ours := v.memberOf(seen)
		v.launched.saw(v.cluster, begun, seen)
		if !ours {
			changed = append(changed, v.dropForeign(begun, seen)...)
			continue
		}
		if gone, ok := v.deleted[seen.ID]; ok && begun.Before(gone.Add(VisibilityWindow)) {
			continue
		}
		before := v.made(seen.ID)
		if v.merge(begun, member, seen) {
			changed = append(changed, member)
			if before.Node != "" && before.Node != member.Node {
				changed = append(changed, before) // somebody changed its tags, and the node that has it is to hear of it
			}
		}
	}
	return changed
}

// ObserveList merges a complete listing of the cluster's interfaces begun at the given time: what it shows was seen, what
// it does not show was missed. It returns the members that changed.
func (v *Inventory) ObserveList(begun time.Time, all []eni.Interface) []identity.Member {
	changed := v.ObserveInterfaces(begun, all...)
	shown := make(map[string]bool, len(all))
	for _, i := range all {
		shown[i.ID] = true
	}
	for _, id := range slices.Sorted(maps.Keys(v.entries)) {
		if !shown[id] {
			changed = append(changed, v.ObserveAbsence(begun, id)...)
		}
	}
	for instanceID := range v.launched.byInstance {
		v.launched.missed(begun, instanceID, shown)
	}
	v.forget(begun)
	return changed
}

// ObserveInstance merges a look at one instance: what it shows was seen, and what was made for the instance but is not shown was
// missed. It returns the members that changed.
func (v *Inventory) ObserveInstance(look eni.InstanceSnapshot) []identity.Member {
	if look.Instance.State.Terminating() {
		// The end of an instance undoes what our calls did: nothing has to show them any more.
		for _, e := range v.byInstance[look.Instance.ID] {
			e.pending = nil
		}
	}
	changed := v.ObserveInterfaces(look.At, look.Interfaces...)
	shown := map[string]bool{}
	for _, i := range look.Interfaces {
		shown[i.ID] = true
	}
	v.launched.missed(look.At, look.Instance.ID, shown)
	for _, r := range v.Of(look.Instance.ID) {
		switch {
		case shown[r.ID]:
		case look.Instance.State == eni.InstanceTerminated && r.diesWithInstance():
			v.drop(look.At, v.entries[r.ID], false)
			changed = append(changed, r.Member)
		default:
			changed = append(changed, v.ObserveAbsence(look.At, r.ID)...)
		}
	}
	return changed
}

// diesWithInstance reports whether EC2 has promised to delete the interface with its instance, so that its absence
// after the termination needs no second reading.
func (r Record) diesWithInstance() bool {
	return r.AttachedTo(r.Member.InstanceID) && r.Attachment.DeleteOnTermination
}

// ObserveAbsence merges that a reading begun at the given time did not show an interface, and returns its member if that
// changed anything: first to Missing, and when confirmed to gone.
func (v *Inventory) ObserveAbsence(begun time.Time, id string) []identity.Member {
	e, ok := v.entries[id]
	if !ok || begun.Before(e.newestReadBegan) || begun.Before(e.madeAt.Add(VisibilityWindow)) {
		return nil
	}
	if !e.Missing {
		e.Missing, e.absentSince = true, begun
		return []identity.Member{e.Member}
	}
	if begun.Sub(e.absentSince) < AbsenceConfirmation {
		return nil
	}
	v.drop(begun, e, true)
	return []identity.Member{e.Member}
}

// RecordCall records what an accepted call of ours made of an interface. Readings that do not show its effect are not
// believed until [StaleReadWindow] has passed.
func (v *Inventory) RecordCall(now time.Time, after eni.Interface, effect Effect) {
	member, ours := v.memberOf(after)
	if !ours {
		v.launched.did(now, after, effect)
		return
	}
	e, isNew := v.entry(now, member, after)
	if isNew {
		e.madeAt = now
	}
	e.Confirmed, e.newestReadBegan = true, now
	v.evidence.verify(now, after.ID)
	v.set(now, e, after)
	if !e.DetachingSince.IsZero() {
		e.DetachingSince = now
	}
	e.pending = e.pending.and(now, after, effect)
}

// Deleted records that EC2 accepted the deletion of an interface.
func (v *Inventory) Deleted(now time.Time, id string) {
	if e, ok := v.entries[id]; ok {
		v.drop(now, e, false)
	}
	v.deleted[id] = now
}

// memberOf finds the member an interface was made for.
func (v *Inventory) memberOf(i eni.Interface) (identity.Member, bool) {
	if NeverOwned(i) {
		return identity.Member{}, false
	}
	member, verdict := identity.Read(v.cluster, i.Tags)
	return member, verdict == identity.Owned
}

func (v *Inventory) records(entries map[string]*entry) []Record {
	records := make([]Record, 0, len(entries))
	for _, id := range slices.Sorted(maps.Keys(entries)) {
		r := entries[id].Record
		r.Interface, r.Verified = r.Clone(), v.evidence.verified(id)
		records = append(records, r)
	}
	return records
}

// entry returns the entry of an interface heard of at the given time, made if need be, filed under the member it now
// belongs to.
func (v *Inventory) entry(at time.Time, member identity.Member, i eni.Interface) (e *entry, isNew bool) {
	e, known := v.entries[i.ID]
	switch {
	case !known:
		e = &entry{ownedSince: at}
		e.ID = i.ID
		// A tag can be wrong, but what is heard of was made.
		if e.madeAt, _ = identity.CreatedAt(i.Tags); e.madeAt.After(at) {
			e.madeAt = at
		}
	case e.Member == member:
		return e, false
	default:
		v.unfile(e)
	}
	e.Member = member
	v.file(e)
	return e, !known
}

func (v *Inventory) file(e *entry) {
	v.entries[e.ID] = e
	put(v.byInstance, e.Member.InstanceID, e.ID, e)
	put(v.byNode, e.Member.Node, e.Member.InstanceID, v.byNode[e.Member.Node][e.Member.InstanceID]+1)
	v.byNodeENI[e.Member.NodeENIUID]++
}

func (v *Inventory) unfile(e *entry) {
	delete(v.entries, e.ID)
	delete(v.unattached, e.ID)
	cut(v.byInstance, e.Member.InstanceID, e.ID)
	if n := v.byNode[e.Member.Node][e.Member.InstanceID]; n > 1 {
		v.byNode[e.Member.Node][e.Member.InstanceID] = n - 1
	} else {
		cut(v.byNode, e.Member.Node, e.Member.InstanceID)
	}
	if v.byNodeENI[e.Member.NodeENIUID]--; v.byNodeENI[e.Member.NodeENIUID] == 0 {
		delete(v.byNodeENI, e.Member.NodeENIUID)
	}
}

func put[K comparable, V any](index map[string]map[K]V, outer string, inner K, value V) {
	if index[outer] == nil {
		index[outer] = map[K]V{}
	}
	index[outer][inner] = value
}

func cut[V any](index map[string]map[string]V, outer, inner string) {
	delete(index[outer], inner)
	if len(index[outer]) == 0 {
		delete(index, outer)
	}
}

// merge takes a sighting in, unless it is older than what is known, and reports whether it changed anything.
func (v *Inventory) merge(begun time.Time, member identity.Member, seen eni.Interface) bool {
	was, known := v.entries[seen.ID]
	if known && !was.accepts(begun, seen) {
		return v.finished(begun, was, seen)
	}
	changed := !known || was.Missing || was.Member != member
	e, _ := v.entry(begun, member, seen)
	e.newestReadBegan, e.LastRead = begun, begun
	if !e.Confirmed && begun.Sub(e.ownedSince) >= StaleReadWindow {
		e.Confirmed = true
		changed = changed || v.hasSibling(e)
	}
	return v.set(begun, e, seen) || changed
}

// hasSibling reports whether the same NodeENI has another interface on the same instance. Proof of an interface that has
// none decides nothing: it says of another that it is one too many. After a restart that concerns all interfaces at once.
func (v *Inventory) hasSibling(e *entry) bool {
	for _, other := range v.byInstance[e.Member.InstanceID] {
		if other != e && other.Member.NodeENIUID == e.Member.NodeENIUID {
			return true
		}
	}
	return false
}

// accepts reports whether a reading begun at the given time is no older than the last and shows all that our calls
// did, as far as they are still settling.
func (e *entry) accepts(begun time.Time, seen eni.Interface) bool {
	e.pending = e.pending.unexpired(begun)
	return !begun.Before(e.newestReadBegan) && e.pending.shownBy(seen)
}

// set makes an interface known as it is, and reports whether that is new.
func (v *Inventory) set(at time.Time, e *entry, i eni.Interface) bool {
	if i.Attachment == nil {
		v.unattached[e.ID] = true
	} else {
		delete(v.unattached, e.ID)
	}
	changed := !Equal(e.Interface, i)
	e.countFailedAttaches(at, i)
	e.Interface = i.Clone()
	e.Missing, e.absentSince = false, time.Time{}
	e.AttachingSince = since(e.AttachingSince, at, i, eni.AttachmentAttaching)
	e.DetachingSince = since(e.DetachingSince, at, i, eni.AttachmentDetaching)
	return changed
}

// drop forgets an interface that is gone. It is lost when it was not us, nor EC2 at its instance's end, who removed it.
func (v *Inventory) drop(at time.Time, e *entry, lost bool) {
	before := v.spent[e.Member.InstanceID][e.Member.Key]
	put(v.spent, e.Member.InstanceID, e.Member.Key, retired{generation: max(before.generation, e.Member.Generation), at: at, lost: lost})
	v.deleted[e.ID] = at
	v.unfile(e)
}

func (v *Inventory) forget(now time.Time) {
	maps.DeleteFunc(v.deleted, func(_ string, at time.Time) bool { return now.Sub(at) > retention })
	v.evidence.forget(now, v.entries)
	maps.DeleteFunc(v.asked, func(_ string, at time.Time) bool { return now.Sub(at) > retention })
	maps.DeleteFunc(v.spent, func(_ string, of map[identity.Key]retired) bool {
		maps.DeleteFunc(of, func(_ identity.Key, s retired) bool { return now.Sub(s.at) > retention })
		return len(of) == 0
	})
}
