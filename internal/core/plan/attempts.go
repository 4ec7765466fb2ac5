// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// Attempts are the results of the calls for one object. The zero value is that of an object without calls. After a
// restart each interface gets its next call at once, and its backoff grows again from the first delay. An update that
// another program reverts is first repeated up to three times.
type Attempts struct {
	// Failure is the failure of the last call that creates, attaches, detaches or deletes the interface.
	Failure Failure
	// Updates are the last failures to update the interface in place, by field (see [FieldOf]). Each delays the update of
	// its field, and nothing else of an attached interface.
	Updates map[string]Failure
	// Accepted are the updates that EC2 accepted, by field. They reveal an attribute that another program reverts.
	Accepted map[string]RepeatedUpdate
	// UnusableSlots are the slots that EC2 reported as taken, until it attaches an interface there.
	UnusableSlots map[eni.Slot]UnusableSlot
	// Asked is the end of the last create call without an interface; zero for none. EC2 may have created one: the answer
	// was lost, or a retry failed because of the first attempt.
	Asked time.Time
	// Unanswered is the end of the last call that EC2 did not answer; zero for none. It may take effect later.
	Unanswered time.Time
	// Deleted is the ID of the interface whose deletion EC2 accepted; empty for none.
	Deleted string
}

// Record returns attempts by object after one more call. The argument does not change.
func Record(all map[identity.UID]Attempts, call Call, err error, at time.Time) map[identity.UID]Attempts {
	next := maps.Clone(all)
	if next == nil {
		next = map[identity.UID]Attempts{}
	}
	next[call.Of().UID] = all[call.Of().UID].After(call, err, at)
	return next
}

// After returns the attempts after one more call. The receiver does not change.
func (a Attempts) After(call Call, err error, at time.Time) Attempts {
	if err == nil {
		return a.afterSuccess(call, at)
	}
	if eni.ErrorClass(err) == eni.Transient {
		a.Unanswered = at
	}
	if change, is := call.(Change); is {
		field := FieldOf(change.To)
		a.Updates = with(a.Updates, field, a.Updates[field].after(call, err, at))
		return a
	}
	a.Failure = a.Failure.after(call, err, at)
	switch call := call.(type) {
	case Create:
		a.Asked = at
	case Attach:
		if a.Failure.Class == eni.SlotTaken {
			a.UnusableSlots = with(a.UnusableSlots, call.Slot,
				UnusableSlot{At: at, Count: a.UnusableSlots[call.Slot].Count + 1})
		}
	}
	return a
}

// afterSuccess returns the attempts after EC2 accepted a call. The failures to update other fields stay.
func (a Attempts) afterSuccess(call Call, at time.Time) Attempts {
	switch call := call.(type) {
	case Change:
		field := FieldOf(call.To)
		a.Updates = withoutKey(a.Updates, field)
		a.Accepted = maps.Clone(a.Accepted)
		maps.DeleteFunc(a.Accepted, func(_ string, one RepeatedUpdate) bool { return one.Over(at) })
		a.Accepted = with(a.Accepted, field, a.Accepted[field].Next(call.To, at))
		return a
	case Create:
		a.Asked = time.Time{}
	case Attach:
		a.UnusableSlots = withoutKey(a.UnusableSlots, call.Slot)
	case Delete:
		a.Deleted = call.InterfaceID
	}
	a.Failure = Failure{}
	return a
}

func with[K comparable, V any](all map[K]V, key K, value V) map[K]V {
	next := maps.Clone(all)
	if next == nil {
		next = map[K]V{}
	}
	next[key] = value
	return next
}

func withoutKey[K comparable, V any](all map[K]V, key K) map[K]V {
	next := maps.Clone(all)
	delete(next, key)
	return next
}

// UnusableSlot is a slot that EC2 reported as taken.
type UnusableSlot struct {
	At time.Time
	// Count is the number of such reports.
	Count int
}

// The shortest and the longest wait before the planner retries a slot that EC2 reports as taken, although it returns no
// interface there.
const (
	unusableSlotRetry    = 5 * time.Minute
	maxUnusableSlotRetry = 30 * time.Minute
)

// until returns the time until which the slot counts as taken.
func (r UnusableSlot) until() time.Time {
	wait := unusableSlotRetry
	for n := 1; n < r.Count && wait < maxUnusableSlotRetry; n++ {
		wait *= 2
	}
	return r.At.Add(min(wait, maxUnusableSlotRetry))
}
