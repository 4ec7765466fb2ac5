// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
)

// Observed is what is known of one instance.
type Observed struct {
	// Owned are the interfaces made for this instance, as the inventory has them.
	Owned []inventory.Record
	// Launched are the interfaces the instance was launched with from a launch template of ours, as they are last known.
	Launched []eni.Interface
	// Snapshot is a reading of the instance made for this plan. Without one no call is planned: a plan that would make
	// calls asks for a look instead, so that no call rests on what was remembered alone.
	Snapshot *eni.InstanceSnapshot
	// NodeRegistered is set when the API server has a Node for the instance: its kubelet runs, and so does the instance, although EC2
	// may take another second or two to show it.
	NodeRegistered bool
	// Limits are those of the instance's type.
	Limits eni.Limits
	// Ledger holds the stored generation of each member.
	Ledger map[identity.Key]int64
	// OtherLedgers holds what the ledgers of other nodes say of the instance, of which they were the name.
	OtherLedgers map[identity.Key]int64
	// Recorded are the interfaces that NodeENIStates name; Copies are those that they name as bearing another one's tags.
	Recorded []Recorded
	Copies   map[string]bool
	// UsedGenerations holds the highest generation of each member that cannot be used again.
	UsedGenerations map[identity.Key]int64
	// RemovedExternally says when interfaces of members went away that we did not remove.
	RemovedExternally map[identity.Key]time.Time
	// ObservedSince is when what happens began to be remembered. Calls from before may be under way of which nothing is known.
	ObservedSince time.Time
	// CreationBlocked says why no interface may be made at the moment, anywhere; empty when they may.
	CreationBlocked string
	// Backoffs are the last failures per member.
	Backoffs map[identity.Key]Backoff
	// MissingSince is when EC2 first answered that it does not know the instance; zero when it knows it.
	MissingSince time.Time
	// InFlight are the calls without an answer yet that earlier plans asked for. What they do is expected (see expected), and
	// nothing is begun that has to wait for an answer.
	InFlight []Action
	// DetachBlocked says, by interface ID, why the node does not let go of interfaces yet: a program in user space drives them. They
	// are not detached under it.
	DetachBlocked map[string]string
	// ReplaceAllowed allows one member of this instance to be replaced now; Turn says, when it does not, what is waited for.
	ReplaceAllowed bool
	ReplaceDenied  string
	// RepeatedUpdates are the changes that EC2 accepted.
	RepeatedUpdates RepeatedUpdates
	// SubnetFullUntil says until when a NodeENI asks for no addresses in a subnet, because EC2 had none for it there.
	SubnetFullUntil map[SubnetDemand]time.Time
}

// SubnetDemand is what a NodeENI needs in a subnet. What is too much for one can be enough for another: prefixes need whole
// blocks of addresses.
type SubnetDemand struct{ NodeENIUID, SubnetID string }

// Backoff remembers that a member's last call failed.
type Backoff struct {
	// Tags is the last failure to write its tags, nil if there was none. It holds nothing else up.
	Tags    *Backoff
	Class   eni.Class
	Message string
	At      time.Time
	// Count is how many times in a row.
	Count int
	// Removal is set when it was a call that takes an interface away. No other failure keeps one from leaving: interfaces can
	// share a member, and what one is refused is nothing to another.
	Removal bool
	// UnusableSlots are the slots that EC2 called taken since the member's last success.
	UnusableSlots map[eni.Slot]UnusableSlot
}

// UnusableSlot remembers that EC2 called a slot taken.
type UnusableSlot struct {
	At time.Time
	// Count is how many times it did.
	Count int
}

// The least and the longest wait until a slot is asked for again that EC2 calls taken although it shows nobody there.
const (
	unusableSlotRetry    = 5 * time.Minute
	maxUnusableSlotRetry = 30 * time.Minute
)

// until returns for how long the refusal is believed.
func (r UnusableSlot) until() time.Time {
	wait := unusableSlotRetry
	for n := 1; n < r.Count && wait < maxUnusableSlotRetry; n++ {
		wait *= 2
	}
	return r.At.Add(min(wait, maxUnusableSlotRetry))
}

// Backoff bounds by class: the first wait doubles with each further failure up to the last.
var backoffDelays = map[eni.Class]struct{ first, last time.Duration }{
	eni.Throttled:           {time.Second, 30 * time.Second},
	eni.Transient:           {time.Second, 30 * time.Second},
	eni.NotFound:            {2 * time.Second, time.Minute},
	eni.SlotTaken:           {time.Second, time.Minute},
	eni.Busy:                {2 * time.Second, time.Minute},
	eni.WrongState:          {time.Second, time.Minute},
	eni.NoAddresses:         {2 * time.Minute, 10 * time.Minute},
	eni.AddressTaken:        {time.Second, time.Minute},
	eni.LimitExceeded:       {5 * time.Minute, 30 * time.Minute},
	eni.WrongZone:           {5 * time.Minute, 30 * time.Minute},
	eni.Unauthorized:        {5 * time.Minute, 30 * time.Minute},
	eni.IdempotencyMismatch: {5 * time.Second, time.Minute},
	eni.Invalid:             {5 * time.Minute, 30 * time.Minute},
}

// Retry returns when the member may be tried again.
func (s Backoff) Retry() time.Time {
	w := backoffDelays[s.Class]
	wait := w.first
	for n := 1; n < s.Count && wait < w.last; n++ {
		wait *= 2
	}
	return s.At.Add(min(wait, w.last))
}

// Next returns the setback after one more failure.
func (s Backoff) Next(class eni.Class, message string, at time.Time) Backoff {
	if class != s.Class {
		s.Count = 0
	}
	return Backoff{Tags: s.Tags, Class: class, Message: message, At: at, Count: s.Count + 1, UnusableSlots: s.UnusableSlots}
}

// Refused returns the setback with one more slot that EC2 called taken.
func (s Backoff) Refused(slot eni.Slot, at time.Time) Backoff {
	taken := maps.Clone(s.UnusableSlots)
	if taken == nil {
		taken = map[eni.Slot]UnusableSlot{}
	}
	taken[slot] = UnusableSlot{At: at, Count: taken[slot].Count + 1}
	s.UnusableSlots = taken
	return s
}

// WithFailure returns the setback after one more failure, that of the action.
func (s Backoff) WithFailure(action Action, err error, at time.Time) Backoff {
	class := eni.ErrorClass(err)
	if WritesTags(action) {
		before := Backoff{}
		if s.Tags != nil {
			before = *s.Tags
		}
		again := before.Next(class, err.Error(), at)
		s.Tags = &again
		return s
	}
	removal := isRemoval(action)
	if removal != s.Removal {
		s.Count = 0
	}
	next := s.Next(class, err.Error(), at)
	next.Removal = removal
	if attach, ok := action.(Attach); ok && class == eni.SlotTaken {
		return next.Refused(attach.Slot, at)
	}
	return next
}

func isRemoval(action Action) bool {
	switch action.(type) {
	case Detach, Delete:
		return true
	default:
		return false
	}
}

// problem says in a user's words what the setback means.
func (s Backoff) problem() Problem {
	reasons := map[eni.Class]Reason{
		eni.NoAddresses:   SubnetFull,
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

// nextStep says what a user can do, and that it goes on without being told.
func (s Backoff) nextStep(reason Reason) string {
	again := "it is tried again at least every " + minutes(backoffDelays[s.Class].last)
	switch reason {
	case SubnetFull:
		return "free addresses of the subnet, or add another subnet; " + again
	case LimitReached:
		return "delete what is not needed, or raise the quota in Service Quotas; " + again
	case Unauthorized:
		return "give the controller's role the permissions of deploy/iam/controller.json, which `kubectl eni doctor` tries one by one; " + again
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

// isHeld reports whether the node has not let go of an interface yet.
func (o Observed) isHeld(id string) bool {
	_, is := o.DetachBlocked[id]
	return is
}
