// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"reflect"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
)

// Backoff is the failure of a member's last call.
type Backoff struct {
	// Updates are the last failures to update its interface in place, by field (see [FieldOf]). Each delays the update
	// of its field, and nothing else of an attached interface.
	Updates map[string]Backoff
	// Action is the call that failed; nil if it is not known.
	Action  Action
	Class   eni.Class
	Message string
	At      time.Time
	// Count is the number of successive failures.
	Count int
	// Removal is set if a detach or delete call failed. No other failure delays a removal: interfaces can share a
	// member, and a refusal for one says nothing about the other.
	Removal bool
	// UnusableSlots are the slots that EC2 reported as taken, until it attaches an interface there.
	UnusableSlots map[eni.Slot]UnusableSlot
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

// The backoff by class: the first wait doubles with each further failure up to the last.
var backoffDelays = map[eni.Class]struct{ first, last time.Duration }{
	eni.Throttled:           {time.Second, 30 * time.Second},
	eni.Transient:           {time.Second, 30 * time.Second},
	eni.NotFound:            {2 * time.Second, time.Minute},
	eni.SlotTaken:           {time.Second, time.Minute},
	eni.Busy:                {2 * time.Second, time.Minute},
	eni.WrongState:          {time.Second, time.Minute},
	eni.NoAddresses:         {2 * time.Minute, 10 * time.Minute},
	eni.NoPrefixes:          {2 * time.Minute, 10 * time.Minute},
	eni.AddressTaken:        {time.Second, time.Minute},
	eni.LimitExceeded:       {5 * time.Minute, 30 * time.Minute},
	eni.WrongZone:           {5 * time.Minute, 30 * time.Minute},
	eni.Unauthorized:        {5 * time.Minute, 30 * time.Minute},
	eni.IdempotencyMismatch: {5 * time.Second, time.Minute},
	eni.Invalid:             {5 * time.Minute, 30 * time.Minute},
}

// NeedsCorrection reports whether EC2 refuses the same call again until a person acts.
func NeedsCorrection(class eni.Class) bool {
	switch class {
	case eni.LimitExceeded, eni.WrongZone, eni.Unauthorized, eni.Invalid:
		return true
	default:
		return false
	}
}

// requests reports whether an action makes the same request as the one that failed.
func requests(action, failed Action) bool {
	switch failed := failed.(type) {
	case Create:
		again, is := action.(Create)
		return is && again.SubnetID == failed.SubnetID && reflect.DeepEqual(again.Spec, failed.Spec)
	case Change:
		again, is := action.(Change)
		return is && equal(again.To, failed.To)
	default:
		return true
	}
}

// Retry returns the time of the member's next attempt.
func (s Backoff) Retry() time.Time {
	w := backoffDelays[s.Class]
	wait := w.first
	for n := 1; n < s.Count && wait < w.last; n++ {
		wait *= 2
	}
	return s.At.Add(min(wait, w.last))
}

// Next returns the backoff after one more failure.
func (s Backoff) Next(class eni.Class, message string, at time.Time) Backoff {
	if class != s.Class && (!IsFull(class) || !IsFull(s.Class)) { // full subnets of either kind share one count
		s.Count = 0
	}
	return Backoff{Updates: s.Updates, Class: class, Message: message, At: at, Count: s.Count + 1,
		UnusableSlots: s.UnusableSlots}
}

// Refused returns the backoff with one more slot that EC2 reported as taken.
func (s Backoff) Refused(slot eni.Slot, at time.Time) Backoff {
	taken := maps.Clone(s.UnusableSlots)
	if taken == nil {
		taken = map[eni.Slot]UnusableSlot{}
	}
	taken[slot] = UnusableSlot{At: at, Count: taken[slot].Count + 1}
	s.UnusableSlots = taken
	return s
}

// WithFailure returns the backoff after a failure of the action.
func (s Backoff) WithFailure(action Action, err error, at time.Time) Backoff {
	if update, is := action.(Change); is {
		updates := maps.Clone(s.Updates)
		if updates == nil {
			updates = map[string]Backoff{}
		}
		field := FieldOf(update.To)
		updates[field] = updates[field].after(action, err, at)
		s.Updates = updates
		return s
	}
	next := s.after(action, err, at)
	if attach, ok := action.(Attach); ok && next.Class == eni.SlotTaken {
		return next.Refused(attach.Slot, at)
	}
	return next
}

// after returns the backoff after the action failed once more. The backoff of a different request begins with the first
// delay.
func (s Backoff) after(action Action, err error, at time.Time) Backoff {
	class, removal := eni.ErrorClass(err), isRemoval(action)
	if removal != s.Removal || NeedsCorrection(class) && !requests(action, s.Action) {
		s.Count = 0
	}
	next := s.Next(class, err.Error(), at)
	next.Action, next.Removal = action, removal
	return next
}

// AfterSuccess returns what is left of the backoff after EC2 accepted the action: the slots that it reported as taken,
// and the failures to update other fields of the same interface.
func (s Backoff) AfterSuccess(action Action) Backoff {
	left := Backoff{Updates: maps.Clone(s.Updates), UnusableSlots: maps.Clone(s.UnusableSlots)}
	switch action := action.(type) {
	case Attach:
		delete(left.UnusableSlots, action.Slot)
	case Change:
		delete(left.Updates, FieldOf(action.To))
	case Create:
		left.Updates = nil
	case Delete: // the member may have another interface
		maps.DeleteFunc(left.Updates, func(_ string, last Backoff) bool {
			return last.Action == nil || last.Action.Interface() == action.InterfaceID
		})
	}
	return left
}

// IsZero reports whether the backoff delays nothing.
func (s Backoff) IsZero() bool {
	return s.Count == 0 && len(s.Updates) == 0 && len(s.UnusableSlots) == 0
}

func isRemoval(action Action) bool {
	switch action.(type) {
	case Detach, Delete:
		return true
	default:
		return false
	}
}

// problem explains the failure to users.
func (s Backoff) problem() Problem {
	reasons := map[eni.Class]Reason{
		eni.NoAddresses:   SubnetFull,
		eni.NoPrefixes:    NoFreePrefix,
		eni.LimitExceeded: LimitReached,
		eni.Unauthorized:  Unauthorized,
		eni.Throttled:     Throttled,
		eni.SlotTaken:     SlotTaken,
		eni.Invalid:       RefusedByEC2,
		eni.WrongZone:     RefusedByEC2,
	}
	reason, ok := reasons[s.Class]
	if !ok {
		reason = Retrying
	}
	return Problem{Reason: reason, Message: s.Message + "; " + s.nextStep(reason)}
}

// reservePrefixes is what a user can do about a subnet without a free block.
const reservePrefixes = "declare a prefix reservation in an unused part of the subnet (aws ec2 " +
	"create-subnet-cidr-reservation --reservation-type prefix), " +
	"or add a subnet; kubectl eni subnets shows the free addresses and blocks"

// nextStep says what a user can do, and that the controller retries by itself.
func (s Backoff) nextStep(reason Reason) string {
	again := "it is tried again at least every " + minutes(backoffDelays[s.Class].last)
	switch reason {
	case SubnetFull:
		return "free addresses of the subnet, or add another subnet; " + again
	case NoFreePrefix:
		return reservePrefixes + "; " + again
	case LimitReached:
		return "delete what is not needed, or raise the quota in Service Quotas; " + again
	case Unauthorized:
		return "give the controller's role the permissions of deploy/iam/controller.json, which `kubectl eni doctor` tries " +
			"one by one; " + again
	case RefusedByEC2:
		return "correct the NodeENI; " + again
	default:
		return again
	}
}

// minutes writes a wait in its largest unit.
func minutes(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d seconds", int(d.Seconds()))
	case d == time.Minute:
		return "minute"
	default:
		return fmt.Sprintf("%d minutes", int(d.Minutes()))
	}
}
