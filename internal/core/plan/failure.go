// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"reflect"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/message"
)

// Failure is the failure of the last call for an interface, or for one field of it.
type Failure struct {
	// Call is the call that failed; nil if it is not known.
	Call    Call
	Class   eni.Class
	Message string
	At      time.Time
	// Count is the number of successive failures.
	Count int
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

// requests reports whether a call makes the same request as the one that failed.
func requests(call, failed Call) bool {
	switch failed := failed.(type) {
	case Create:
		again, is := call.(Create)
		return is && again.SubnetID == failed.SubnetID && reflect.DeepEqual(again.Spec, failed.Spec)
	case Change:
		again, is := call.(Change)
		return is && equal(again.To, failed.To)
	default:
		return true
	}
}

// isRemoval reports whether a detach or delete call failed. No other failure delays a removal.
func (f Failure) isRemoval() bool { return isRemoval(f.Call) }

func isRemoval(call Call) bool {
	switch call.(type) {
	case Detach, Delete:
		return true
	default:
		return false
	}
}

// Retry returns the time of the next attempt.
func (f Failure) Retry() time.Time {
	w := backoffDelays[f.Class]
	wait := w.first
	for n := 1; n < f.Count && wait < w.last; n++ {
		wait *= 2
	}
	return f.At.Add(min(wait, w.last))
}

// after returns the failure after the call failed once more. The backoff of a different request begins with the first
// delay.
func (f Failure) after(call Call, err error, at time.Time) Failure {
	class := eni.ErrorClass(err)
	if isRemoval(call) != f.isRemoval() || NeedsCorrection(class) && !requests(call, f.Call) {
		f.Count = 0
	}
	next := f.Next(class, err.Error(), at)
	next.Call = call
	return next
}

// Next returns the failure after one more of a class.
func (f Failure) Next(class eni.Class, text string, at time.Time) Failure {
	if class != f.Class && (!IsFull(class) || !IsFull(f.Class)) { // full subnets of either kind share one count
		f.Count = 0
	}
	return Failure{Class: class, Message: text, At: at, Count: f.Count + 1}
}

// problem explains the failure to users.
func (f Failure) problem() Problem {
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
	reason, ok := reasons[f.Class]
	if !ok {
		reason = Retrying
	}
	return Problem{reason, message.Failed(f.Message, f.Class, backoffDelays[f.Class].last)}
}
