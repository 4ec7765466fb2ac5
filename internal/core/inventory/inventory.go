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
	// retention is the time for which the ID of a deleted interface is kept, so that no stale list brings it back.
	retention = 24 * time.Hour
)

// Record is one interface of the cluster.
type Record struct {
	eni.Interface
	// Tagged is the identity that its tags name. Tags can be copied and invented, so it is no evidence of anything.
	Tagged identity.Interface
	// CreatedFor is the object whose client token EC2 answered with the interface to this process; empty if no call of
	// this process created or found it.
	CreatedFor identity.UID
	// Missing is set while only one read has omitted the interface.
	Missing bool
	// Requested are the addresses and prefixes that EC2's answers to calls of this process named.
	Requested eni.Addresses
	// LastRead is the begin of the newest read that counted; zero if only a call of ours names the interface. It dates
	// changes that EC2 makes by itself, because a stale read says nothing about them.
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

// Inventory has the interfaces of one cluster. The zero value is not usable; call [New]. It is not safe for concurrent
// use.
type Inventory struct {
	cluster string
	entries map[string]*entry
	// deleted has, by interface ID, the time of the deletion.
	deleted    map[string]time.Time
	byInstance map[string]map[string]*entry
	// unattached holds the IDs of the interfaces without an attachment, and moving those of interfaces that EC2 is
	// changing, or that a read omitted: every poll asks for these.
	unattached, moving map[string]bool
	launched           launchInterfaces
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
	requestedAt     time.Time
}

// New returns an empty inventory for the cluster with the given name in ownership tags.
func New(cluster string) *Inventory {
	return &Inventory{
		cluster:    cluster,
		entries:    map[string]*entry{},
		deleted:    map[string]time.Time{},
		byInstance: map[string]map[string]*entry{},
		unattached: map[string]bool{},
		moving:     map[string]bool{},
		launched:   newLaunched(),
	}
}

// tagged returns the identity that the tags of an interface name, and whether the interface is one of the cluster. The
// tag of the cluster decides that: an object records the ID of its interface, so the interface is known even if its
// other tags are damaged. It is then what it was before or, in a new process, an interface of the instance that it is
// attached to.
func (v *Inventory) tagged(i eni.Interface) (identity.Interface, bool) {
	if NeverOwned(i) {
		return identity.Interface{}, false
	}
	is, verdict := identity.Read(v.cluster, i.Tags)
	if verdict != identity.Malformed {
		return is, verdict == identity.Owned
	}
	if known, was := v.entries[i.ID]; was {
		return known.Tagged, true
	}
	of := identity.Interface{InstanceID: is.InstanceID} // the rest can be anything, and names nothing
	if i.Attachment != nil {
		of.InstanceID = i.Attachment.InstanceID
	}
	return of, eni.IsInstanceID(of.InstanceID)
}

// isMalformed reports whether the tags of an interface name no object. Such an interface counts for nothing but its
// object.
func (v *Inventory) isMalformed(e *entry) bool {
	_, verdict := identity.Read(v.cluster, e.Tags)
	return verdict == identity.Malformed
}

// entry returns the entry of an interface, filed under its present identity. It creates the entry if necessary.
func (v *Inventory) entry(at time.Time, tagged identity.Interface, i eni.Interface) (e *entry, isNew bool) {
	e, known := v.entries[i.ID]
	switch {
	case !known:
		e = &entry{ownedSince: at}
		e.ID = i.ID
		// The interface exists, even if the creation time in its tag is wrong.
		if e.madeAt, _ = identity.CreatedAt(i.Tags); e.madeAt.After(at) {
			e.madeAt = at
		}
	case e.Tagged == tagged:
		return e, false
	default:
		v.unfile(e)
	}
	e.Tagged = tagged
	v.entries[e.ID] = e
	put(v.byInstance, e.Tagged.InstanceID, e.ID, e)
	return e, !known
}

func (v *Inventory) unfile(e *entry) {
	delete(v.entries, e.ID)
	delete(v.unattached, e.ID)
	delete(v.moving, e.ID)
	cut(v.byInstance, e.Tagged.InstanceID, e.ID)
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

func mark(ids map[string]bool, id string, is bool) {
	if is {
		ids[id] = true
	} else {
		delete(ids, id)
	}
}

// set stores the state of an interface, and reports whether it is new.
func (v *Inventory) set(at time.Time, e *entry, i eni.Interface) bool {
	mark(v.unattached, e.ID, i.Attachment == nil)
	mark(v.moving, e.ID, i.InTransition())
	changed := !Equal(e.Interface, i)
	e.countFailedAttaches(at, i)
	e.Interface = i.Clone()
	e.Missing, e.absentSince = false, time.Time{}
	e.AttachingSince = since(e.AttachingSince, at, i, eni.AttachmentAttaching)
	e.DetachingSince = since(e.DetachingSince, at, i, eni.AttachmentDetaching)
	return changed
}

// drop removes an interface that does not exist any more.
func (v *Inventory) drop(at time.Time, e *entry) {
	v.deleted[e.ID] = at
	v.unfile(e)
}

func (v *Inventory) forget(now time.Time) {
	maps.DeleteFunc(v.deleted, func(_ string, at time.Time) bool { return now.Sub(at) > retention })
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
