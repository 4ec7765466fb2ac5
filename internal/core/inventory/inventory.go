// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inventory caches the interfaces of a cluster, and compensates for EC2's stale reads.
//
// EC2 is eventually consistent: a Describe call may omit an interface that was just created, still return one that was
// deleted, or return an attribute as it was before a call of ours. An [Inventory] merges three sources, so that no
// decision depends on a stale read:
//
//   - [Inventory.RecordCall]: EC2 accepted a call. Its effect holds for [StaleReadWindow], regardless of reads.
//   - [Inventory.ObserveInterfaces]: EC2 returned an interface. The read counts unless it contradicts a recent call.
//   - [Inventory.ObserveAbsence]: EC2 omitted an interface. The interface is [Record.Missing] until a second read, at
//     least [AbsenceConfirmation] later, omits it as well.
//
// The package has no clock and does no I/O; each read and call comes with its time.
package inventory

import (
	"maps"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

const (
	// StaleReadWindow is the time after one of our calls in which a read without its effect is considered stale. EC2
	// documents no bound; its advice is to allow for "a few minutes" (EC2 API reference, "Eventual consistency").
	StaleReadWindow = 60 * time.Second
	// VisibilityWindow is the time after its creation in which an interface, or a reservation in a subnet, may exist
	// although EC2 does not return it.
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
	// Missing is set while only one read has omitted the interface.
	Missing bool
	// Confirmed is set once the interface certainly exists and not only in a stale read: EC2 accepted a call of ours for
	// it, or returned it [StaleReadWindow] after the first read.
	Confirmed bool
	// Made is set if a call of this process created the interface, so that no earlier leader knows it. The time in its
	// tags proves that only if the clocks of both leaders agree.
	Made bool
	// LastRead is the begin of the newest read that counted; zero if only a call of ours names the interface. It dates
	// changes that EC2 makes by itself, because a stale read says nothing about them.
	LastRead time.Time
	// DetachingSince is the time of the first read of a detaching attachment, or of the last detach call; zero if it is
	// not detaching.
	DetachingSince time.Time
	// UnansweredDetach is the time of the last call of this process to detach the interface that ended without success;
	// zero for none, and once the interface is unattached. Such a call may still take effect.
	UnansweredDetach time.Time
	// AttachingSince is the time of the first read or call with an attaching attachment; zero if it is not attaching.
	AttachingSince time.Time
	// FailedAttaches counts the attempts to attach the interface that ended without success since the last success;
	// LastFailedAttach is the end of the last one.
	FailedAttaches   int
	LastFailedAttach time.Time
}

// Inventory has the interfaces of one cluster. The zero value is not usable; call [New]. It is not safe for concurrent
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
	// byNode and byOwner count the interfaces per node name and instance, and per owner.
	byNode   map[string]map[string]int
	byOwner  map[identity.Owner]int
	evidence evidence
	// unattached holds the IDs of the interfaces without an attachment.
	unattached map[string]bool
	// asked has, by owner, the time of the last create call without an answer.
	asked    map[identity.Owner]time.Time
	launched launchInterfaces
	// requested has, by interface ID, the addresses that EC2's answers to our calls named.
	requested map[string]requested
}

type retired struct {
	generation identity.Generation
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

// New returns an empty inventory for the cluster with the given name in ownership tags.
func New(cluster string) *Inventory {
	return &Inventory{
		cluster:    cluster,
		entries:    map[string]*entry{},
		deleted:    map[string]time.Time{},
		spent:      map[string]map[identity.Key]retired{},
		byInstance: map[string]map[string]*entry{},
		byNode:     map[string]map[string]int{},
		byOwner:    map[identity.Owner]int{},
		evidence:   newEvidence(),
		unattached: map[string]bool{},
		asked:      map[identity.Owner]time.Time{},
		launched:   newLaunched(),
		requested:  map[string]requested{},
	}
}

// memberOf returns the member that an interface was created for.
func (v *Inventory) memberOf(i eni.Interface) (identity.Member, bool) {
	if NeverOwned(i) {
		return identity.Member{}, false
	}
	member, verdict := identity.Read(v.cluster, i.Tags)
	return member, verdict == identity.Owned
}

// entry returns the entry of an interface, filed under its present member. It creates the entry if necessary.
func (v *Inventory) entry(at time.Time, member identity.Member, i eni.Interface) (e *entry, isNew bool) {
	e, known := v.entries[i.ID]
	switch {
	case !known:
		e = &entry{ownedSince: at}
		e.ID = i.ID
		// The interface exists, even if the creation time in its tag is wrong.
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
	v.byOwner[e.Member.Owner]++
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
	if v.byOwner[e.Member.Owner]--; v.byOwner[e.Member.Owner] == 0 {
		delete(v.byOwner, e.Member.Owner)
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

// set stores the state of an interface, and reports whether it is new.
func (v *Inventory) set(at time.Time, e *entry, i eni.Interface) bool {
	if i.Attachment == nil {
		v.unattached[e.ID], e.UnansweredDetach = true, time.Time{}
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

// drop removes an interface that does not exist any more. It counts as removed externally if neither a call of ours nor
// the end of its instance removed it.
func (v *Inventory) drop(at time.Time, e *entry, lost bool) {
	before := v.spent[e.Member.InstanceID][e.Member.Key]
	put(v.spent, e.Member.InstanceID, e.Member.Key,
		retired{generation: max(before.generation, e.Member.Generation), at: at, lost: lost})
	v.deleted[e.ID] = at
	v.unfile(e)
}

func (v *Inventory) forget(now time.Time) {
	maps.DeleteFunc(v.deleted, func(_ string, at time.Time) bool { return now.Sub(at) > retention })
	v.evidence.forget(now, v.entries)
	v.forgetRequested()
	maps.DeleteFunc(v.asked, func(_ identity.Owner, at time.Time) bool { return now.Sub(at) > retention })
	maps.DeleteFunc(v.spent, func(_ string, of map[identity.Key]retired) bool {
		maps.DeleteFunc(of, func(_ identity.Key, s retired) bool { return now.Sub(s.at) > retention })
		return len(of) == 0
	})
}

// countFailedAttaches records the result of an attempt to attach the interface that has ended.
func (e *entry) countFailedAttaches(at time.Time, next eni.Interface) {
	was, now := e.Attachment, next.Attachment
	switch {
	case now != nil && now.Status == eni.AttachmentAttached:
		e.FailedAttaches, e.LastFailedAttach = 0, time.Time{}
	case was == nil || was.Status != eni.AttachmentAttaching:
	case now == nil || now.ID != was.ID || now.Status != eni.AttachmentAttaching:
		e.FailedAttaches, e.LastFailedAttach = e.FailedAttaches+1, at
	}
}

// since returns the time since which an attachment has a status: the time before, now, or zero if it does not have it.
func since(before, now time.Time, i eni.Interface, status eni.AttachmentStatus) time.Time {
	switch {
	case i.Attachment == nil || i.Attachment.Status != status:
		return time.Time{}
	case before.IsZero():
		return now
	default:
		return before
	}
}
