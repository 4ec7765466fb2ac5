// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package volatile

import (
	"time"

	"github.com/multieni/multieni/internal/core/identity"
)

// Objects have what a process remembers about single objects.
type Objects struct {
	// listed is set once the first list was recorded, and inherited has its objects without an interface.
	listed    bool
	inherited map[identity.UID]bool
	// pending has the objects with a status write that waits for more changes, and since when. After a restart the delay
	// begins again, so the write is late by at most one more delay.
	pending map[identity.UID]time.Time
	// deleting has the objects that this process saw being deleted, in the order of a counter: seen is its value at the
	// first sight. After a restart each is seen again.
	deleting map[identity.UID]uint64
	seen     uint64
	// recorded has the objects in which this process recorded an interface, with the version before. A new leader waits
	// for the settled era before it takes an interface over.
	recorded map[identity.UID]recording
}

// recording is a write of an interface's ID over a version of its object. It counts until a time.
type recording struct {
	version string
	until   time.Time
}

const (
	// answeredSeen is how long a cache has to show a write of an interface's ID that the API server answered. A restored
	// etcd may have lost it.
	answeredSeen = 10 * time.Minute
	// unansweredSeen is the same for a write without an answer, which may not have been made.
	unansweredSeen = time.Minute
)

// Record records that the process writes the ID of an interface over a version of its object.
func (o *Objects) Record(uid identity.UID, version string, answered bool, now time.Time) {
	if o.recorded == nil {
		o.recorded = map[identity.UID]recording{}
	}
	until := now.Add(unansweredSeen)
	if answered {
		until = now.Add(answeredSeen)
	}
	o.recorded[uid] = recording{version, until}
}

// LacksRecord reports whether a version of an object lacks the ID that this process wrote over it a moment ago. Another
// object could take the interface over.
func (o *Objects) LacksRecord(uid identity.UID, version string, now time.Time) bool {
	last, written := o.recorded[uid]
	return written && last.version == version && now.Before(last.until)
}

// Listed reports whether the first list was recorded.
func (o *Objects) Listed() bool { return o.listed }

// List records the objects without an interface of the first list of the process: an earlier leader may have called EC2
// for them.
func (o *Objects) List(withoutInterface []identity.UID) {
	o.listed, o.inherited = true, map[identity.UID]bool{}
	for _, uid := range withoutInterface {
		o.inherited[uid] = true
	}
}

// Inherited reports whether an object was in the first list without an interface.
func (o *Objects) Inherited(uid identity.UID) bool { return o.inherited[uid] }

// Due returns when the deferred status write of an object must be made. The delay counts from the first call since
// [Objects.Written].
func (o *Objects) Due(uid identity.UID, delay time.Duration, now time.Time) time.Time {
	since, deferred := o.pending[uid]
	if !deferred {
		if o.pending == nil {
			o.pending = map[identity.UID]time.Time{}
		}
		since = now
		o.pending[uid] = now
	}
	return since.Add(delay)
}

// Written records that no status write of an object is deferred.
func (o *Objects) Written(uid identity.UID) { delete(o.pending, uid) }

// SeeDeleting records that an object is being deleted, and returns a number that grows with each such object.
func (o *Objects) SeeDeleting(uid identity.UID) uint64 {
	if at, known := o.deleting[uid]; known {
		return at
	}
	if o.deleting == nil {
		o.deleting = map[identity.UID]uint64{}
	}
	o.seen++
	o.deleting[uid] = o.seen
	return o.seen
}

// SeeLive records that an object is not being deleted: a restored etcd returns one that was, and its next deletion is
// another one.
func (o *Objects) SeeLive(uid identity.UID) { delete(o.deleting, uid) }

// Seen returns the number of the last object that was seen being deleted.
func (o *Objects) Seen() uint64 { return o.seen }

// Forget drops an object that no longer exists.
func (o *Objects) Forget(uid identity.UID) {
	delete(o.inherited, uid)
	delete(o.pending, uid)
	delete(o.deleting, uid)
	delete(o.recorded, uid)
}
