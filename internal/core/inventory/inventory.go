// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inventory caches the interfaces of a cluster, although EC2's reads lag.
//
// EC2 is eventually consistent: a Describe call may omit an interface that was just created, still return one that was
// deleted, or return an attribute as it was before a call of ours. An [Inventory] merges three sources, so that no
// decision depends on a stale read:
//
//   - [Inventory.RecordCall]: EC2 accepted a call. Its effect holds for [StaleReadWindow], regardless of reads.
//   - [Inventory.ObserveInterfaces]: EC2 returned an interface. The read counts unless it contradicts a recent call.
//   - [Inventory.ObserveAbsence]: EC2 omitted an interface. The interface is [Record.Missing] until a second read, at least
//     [AbsenceConfirmation] later, omits it as well.
//
// The package has no clock and does no I/O; each read and call comes with its time.
package inventory

import (
	"maps"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

const (
	// StaleReadWindow is the time after one of our calls in which a read without its effect is considered stale. EC2
	// documents no bound; its advice is to allow for "a few minutes" (EC2 API reference, "Eventual consistency").
	StaleReadWindow = 60 * time.Second
	// VisibilityWindow is the time after its creation in which an interface may exist although EC2 does not return it.
	VisibilityWindow = 2 * time.Minute
	// AbsenceConfirmation is the least time between the two reads that prove that an interface does not exist any more.
	AbsenceConfirmation = 30 * time.Second
	// retention is the time for which the ID and generation of a deleted interface are kept, so that neither a stale
	// list nor an old client token brings it back. EC2 keeps tokens for about a day.
	retention = 24 * time.Hour
)

// Record is one interface of the cluster.
type Record struct {
	eni.Interface
	Member identity.Member
	// Verified is set if evidence besides the tags says that the interface belongs to the cluster: EC2 accepted a call
	// of ours for it, or a ledger names it. Tags can be copied and invented.
	Verified bool
	// Missing is set while one read, but not yet a second, omitted the interface.
	Missing bool
	// Confirmed is set once the interface cannot be the product of a stale read alone: EC2 accepted a call of ours for
	// it, or returned it [StaleReadWindow] after the first read.
	Confirmed bool
	// LastRead is the begin of the newest read that counted; zero if only a call of ours names the interface. Changes
	// that EC2 makes by itself are judged by this time, because a stale read says nothing about them.
	LastRead time.Time
	// DetachingSince is the time of the first read of a detaching attachment, or of the last detach call; zero if it is
	// not detaching.
	DetachingSince time.Time
	// AttachingSince is the time of the first read or call with an attaching attachment; zero if it is not attaching.
	AttachingSince time.Time
	// FailedAttaches counts the attempts to attach the interface that ended without success since the last success;
	// LastFailedAttach is the end of the last one.
	FailedAttaches   int
	LastFailedAttach time.Time
}

// Inventory is the interfaces of one cluster. The zero value is not usable; call [New]. It is not safe for concurrent
// use.
type Inventory struct {
	cluster string
	entries map[string]*entry
	// deleted has, by interface ID, the time of the deletion.
	deleted map[string]time.Time
	// spent has, by instance, the highest generation of each member whose interface existed and was deleted. In
	// clusters with short-lived nodes it is much larger than the number of interfaces, and each plan reads it.
	spent      map[string]map[identity.Key]retired
	byInstance map[string]map[string]*entry
	// byNode and byNodeENI count the interfaces per node name and instance, and per NodeENI UID.
	byNode    map[string]map[string]int
	byNodeENI map[string]int
	evidence  evidence
	// unattached holds the IDs of the interfaces without an attachment.
	unattached map[string]bool
	// asked has, by NodeENI UID, the time of the last create call without an answer.
	asked    map[string]time.Time
	launched launchInterfaces
	// requested has, by interface ID, the addresses that EC2's answers to our calls named.
	requested map[string]requested
}

type retired struct {
	generation int64
	at         time.Time
	lost       bool
}

type entry struct {
	Record
	madeAt time.Time
	// ownedSince is the time of the first read or call with the interface.
	ownedSince time.Time
	// newestReadBegan is the begin of the newest read that counted, or the time of our last call if that is later.
	newestReadBegan time.Time
	absentSince     time.Time
	pending         expectations
}

// New returns an empty inventory for the cluster with the given name, as ownership tags have it.
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
		requested:  map[string]requested{},
	}
}

// Of returns the records of the interfaces that were created for an instance, ordered by ID.
func (v *Inventory) Of(instanceID string) []Record {
	return v.records(v.byInstance[instanceID])
}

// Interface returns the last known state of an owned interface or a launch interface.
func (v *Inventory) Interface(id string) (eni.Interface, bool) {
	if e, known := v.entries[id]; known {
		return e.Clone(), true
	}
	if b, known := v.launched.get(id); known {
		return b.Clone(), true
	}
	return eni.Interface{}, false
}

// RecentlyCreated reports whether the interface is so new that EC2's Describe calls may still omit it.
func (v *Inventory) RecentlyCreated(now time.Time, id string) bool {
	e, known := v.entries[id]
	return known && now.Before(e.ownedSince.Add(VisibilityWindow))
}

// Len returns the number of interfaces.
func (v *Inventory) Len() int { return len(v.entries) }

// InstancesOf returns the instances with interfaces under a node name, in order. A node name can return with another
// instance; an instance ID never returns.
func (v *Inventory) InstancesOf(node string) []string {
	return slices.Sorted(maps.Keys(v.byNode[node]))
}

// InTransition returns the IDs of the interfaces that EC2 is changing, or that a read omitted.
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

// UsedGenerations returns, for each member of the instance, the highest generation whose interface was deleted.
func (v *Inventory) UsedGenerations(instanceID string) map[identity.Key]int64 {
	spent := map[identity.Key]int64{}
	for key, last := range v.spent[instanceID] {
		spent[key] = last.generation
	}
	return spent
}

// RemovedExternally returns the times at which interfaces of the instance's members disappeared without a call of ours.
func (v *Inventory) RemovedExternally(instanceID string) map[identity.Key]time.Time {
	lost := map[identity.Key]time.Time{}
	for key, last := range v.spent[instanceID] {
		if last.lost {
			lost[key] = last.at
		}
	}
	return lost
}

// Unattached returns the number of interfaces without an attachment, of the NodeENIs that count.
func (v *Inventory) Unattached(counts func(nodeENIUID string) bool) int {
	n := 0
	for id := range v.unattached {
		if counts(v.entries[id].Member.NodeENIUID) {
			n++
		}
	}
	return n
}

// Owners returns the UIDs of the NodeENIs with interfaces, in order.
func (v *Inventory) Owners() []string { return slices.Sorted(maps.Keys(v.byNodeENI)) }

// MembersOf returns the members of a NodeENI with interfaces.
func (v *Inventory) MembersOf(nodeENIUID string) []identity.Member {
	var members []identity.Member
	for _, id := range slices.Sorted(maps.Keys(v.entries)) {
		if m := v.entries[id].Member; m.NodeENIUID == nodeENIUID {
			members = append(members, m)
		}
	}
	return members
}

// ObserveInterfaces merges the result of a read that began at the given time, and returns the members that it changed.
// It ignores foreign interfaces.
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
				changed = append(changed, before) // its tags were changed by hand; reconcile the node that has it
			}
		}
	}
	return changed
}

// ObserveList merges a complete list of the cluster's interfaces that began at the given time. It returns the members
// that changed.
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

// ObserveInstance merges a complete read of one instance: an interface that was created for the instance, and is not in
// the read, was omitted. It returns the members that changed.
func (v *Inventory) ObserveInstance(look eni.InstanceSnapshot) []identity.Member {
	if look.Instance.State.Terminating() {
		// The end of an instance reverts the effects of our calls, so no read has to show them.
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

// diesWithInstance reports whether EC2 deletes the interface with its instance. Its absence after the termination then
// needs no second read.
func (r Record) diesWithInstance() bool {
	return r.AttachedTo(r.Member.InstanceID) && r.Attachment.DeleteOnTermination
}

// ObserveAbsence merges that a read that began at the given time omitted an interface. The first makes it Missing, and
// one that confirms it removes it. The result is its member if that changed something.
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

// RecordCall records the effect of an accepted call on an interface. Reads without the effect are stale until
// [StaleReadWindow] has passed.
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

// memberOf returns the member that an interface was created for.
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

// entry returns the entry of an interface, filed under its present member. It creates the entry if necessary.
func (v *Inventory) entry(at time.Time, member identity.Member, i eni.Interface) (e *entry, isNew bool) {
	e, known := v.entries[i.ID]
	switch {
	case !known:
		e = &entry{ownedSince: at}
		e.ID = i.ID
		// An interface exists even if its tag with the creation time is wrong.
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

// merge takes over a read, unless it is older than the last one, and reports whether it changed something.
func (v *Inventory) merge(begun time.Time, member identity.Member, seen eni.Interface) bool {
	was, known := v.entries[seen.ID]
	if known && !was.accepts(begun, seen) {
		return v.finished(begun, was, seen)
	}
	changed := !known || was.Missing || was.Member != member
	e, _ := v.entry(begun, member, seen)
	e.newestReadBegan, e.LastRead = begun, begun
	v.forgetUnassigned(begun, seen)
	if !e.Confirmed && begun.Sub(e.ownedSince) >= StaleReadWindow {
		e.Confirmed = true
		changed = changed || v.hasSibling(e)
	}
	return v.set(begun, e, seen) || changed
}

// hasSibling reports whether the same NodeENI has another interface on the same instance. Evidence about an interface
// without a sibling changes no plan; with one it decides which of them is a duplicate. After a restart, all interfaces
// gain evidence at once.
func (v *Inventory) hasSibling(e *entry) bool {
	for _, other := range v.byInstance[e.Member.InstanceID] {
		if other != e && other.Member.NodeENIUID == e.Member.NodeENIUID {
			return true
		}
	}
	return false
}

// accepts reports whether a read that began at the given time is no older than the last one, and shows all effects of
// our calls that have not expired.
func (e *entry) accepts(begun time.Time, seen eni.Interface) bool {
	e.pending = e.pending.unexpired(begun)
	return !begun.Before(e.newestReadBegan) && e.pending.shownBy(seen)
}

// set stores the state of an interface, and reports whether it is new.
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

// drop removes an interface that does not exist any more. It was removed externally if neither a call of ours nor the
// end of its instance removed it.
func (v *Inventory) drop(at time.Time, e *entry, lost bool) {
	before := v.spent[e.Member.InstanceID][e.Member.Key]
	put(v.spent, e.Member.InstanceID, e.Member.Key, retired{generation: max(before.generation, e.Member.Generation), at: at, lost: lost})
	v.deleted[e.ID] = at
	v.unfile(e)
}

func (v *Inventory) forget(now time.Time) {
	maps.DeleteFunc(v.deleted, func(_ string, at time.Time) bool { return now.Sub(at) > retention })
	v.evidence.forget(now, v.entries)
	v.forgetRequested()
	maps.DeleteFunc(v.asked, func(_ string, at time.Time) bool { return now.Sub(at) > retention })
	maps.DeleteFunc(v.spent, func(_ string, of map[identity.Key]retired) bool {
		maps.DeleteFunc(of, func(_ identity.Key, s retired) bool { return now.Sub(s.at) > retention })
		return len(of) == 0
	})
}
