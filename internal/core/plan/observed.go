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

// Observed is the observed state of one instance.
type Observed struct {
	// Owned are the interfaces that were created for this instance, as the inventory has them.
	Owned []inventory.Record
	// Launched are the launch interfaces of the instance, as last known.
	Launched []eni.Interface
	// Snapshot is a fresh read of the instance. Without one there are no actions: a plan with calls sets NeedsDescribe
	// instead, so that no call depends on cached state alone.
	Snapshot *eni.InstanceSnapshot
	// NodeRegistered is set if the API server has a Node for the instance: its kubelet runs, and so does the instance,
	// although EC2 may return that a second or two later.
	NodeRegistered bool
	// Limits are those of the instance type.
	Limits eni.Limits
	// Ledger holds the stored generation of each member.
	Ledger identity.Generations
	// OtherLedgers is the members of the instance in the ledgers of other nodes, which were its nodes before.
	OtherLedgers identity.Generations
	// HasState is set if the instance has a NodeENIState, under any name.
	HasState bool
	// Recorded are the interfaces that NodeENIStates name; Copies are those that they name as copies.
	Recorded []Recorded
	Copies   map[string]bool
	// Requested has, by interface ID, the addresses and prefixes that EC2's answers to our calls named. The planner
	// unassigns no others.
	Requested map[string]eni.Addresses
	// UsedGenerations has the highest generation of each member that cannot be used again.
	UsedGenerations identity.Generations
	// RemovedExternally has the times at which interfaces of members disappeared without a call of ours.
	RemovedExternally map[identity.Key]time.Time
	// ObservedSince is the start of this process's observation. Calls from before may be in flight without being known.
	ObservedSince time.Time
	// CreationBlocked says why no interface may be created in the cluster at present; empty if they may.
	CreationBlocked string
	// Backoffs are the last failures of each member.
	Backoffs map[identity.Key]Backoff
	// MissingSince is the time of EC2's first answer that it does not know the instance; zero if it knows it.
	MissingSince time.Time
	// InFlight are the calls of earlier plans without an answer. Their effects are expected (see expected), and actions
	// that depend on an answer wait for it.
	InFlight []Action
	// DetachBlocked says, by interface ID, why the node has not released an interface yet: a program in user space uses
	// its device. It is not detached meanwhile.
	DetachBlocked map[string]string
	// PodNetworks has, by interface ID, what the agent reports of the pods that use an interface.
	PodNetworks map[string]PodNetwork
	// PodsDraining has, by interface ID, the interfaces that the node has as networks for pods. The value is true if the
	// node is to drain the network.
	PodsDraining map[string]bool
	// Following has, by interface ID, the addresses that follow the pods which bring them up.
	Following map[string]Following
	// ReportsSince is when the record of the agent's reports began. A record that is younger than an attachment can have
	// lost a report about it.
	ReportsSince time.Time
	// Evictions has the last attempts to evict pods, by the ID of the interface that they use.
	Evictions map[string]EvictionAttempt
	// EvictAllowed allows the eviction of the pods of [Plan.EvictCandidate] now; EvictDenied says why not.
	EvictAllowed bool
	EvictDenied  string
	// ReplaceAllowed allows the replacement of one member of this instance now; ReplaceDenied says why not.
	ReplaceAllowed bool
	ReplaceDenied  string
	// RepeatedUpdates are the changes that EC2 accepted.
	RepeatedUpdates RepeatedUpdates
	// FullSubnets are the subnets in which a NodeENI creates no interface for some time.
	FullSubnets map[SubnetDemand]FullSubnet
}

// SubnetDemand is the demand of a NodeENI in a subnet. A subnet can be full for one demand and not for another:
// prefixes need contiguous blocks.
type SubnetDemand struct {
	Owner    identity.Owner
	SubnetID string
	// Prefixes is set if the interface is created with prefixes.
	Prefixes bool
}

// FullSubnet is a subnet without room for a demand.
type FullSubnet struct {
	// Until is the time before which the NodeENI creates no interface in the subnet.
	Until time.Time
	// Class says what the subnet lacks: [eni.NoAddresses] or [eni.NoPrefixes].
	Class eni.Class
}

// DemandOf returns the demand of an interface to create.
func DemandOf(owner identity.Owner, subnetID string, spec eni.Spec) SubnetDemand {
	return SubnetDemand{Owner: owner, SubnetID: subnetID, Prefixes: hasPrefixes(spec)}
}

func hasPrefixes(spec eni.Spec) bool { return spec.IPv4Prefixes > 0 || spec.IPv6Prefixes > 0 }

// IsFull reports whether a failure of the class says that a subnet has no room.
func IsFull(class eni.Class) bool { return class == eni.NoAddresses || class == eni.NoPrefixes }

// Backoff is the failure of a member's last call.
type Backoff struct {
	// Tags is the last failure to write its tags; nil if there was none. It delays nothing else.
	Tags    *Backoff
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

// The shortest and the longest wait before a slot is tried again that EC2 reports as taken, although it returns no
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
	return Backoff{Tags: s.Tags, Class: class, Message: message, At: at, Count: s.Count + 1,
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

// AfterSuccess returns what is left of the backoff after EC2 accepted the action: the slots that it reported as taken.
func (s Backoff) AfterSuccess(action Action) Backoff {
	left := maps.Clone(s.UnusableSlots)
	if attach, ok := action.(Attach); ok {
		delete(left, attach.Slot)
	}
	return Backoff{UnusableSlots: left}
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

// isHeld reports whether the node has not released the device of an interface yet.
func (o Observed) isHeld(id string) bool {
	_, is := o.DetachBlocked[id]
	return is
}
