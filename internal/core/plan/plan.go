// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

const (
	// AttachTimeout is the longest duration of an attach, before the planner gives up the interface.
	AttachTimeout = 90 * time.Second
	// RecreateAfter is the age from which an object is spent that another program deprived of its interface, or whose
	// interface EC2 does not attach. A younger one waits until then, so that no two programs create and remove interfaces
	// in a fast loop.
	RecreateAfter = 10 * time.Minute
	// MaxUnattached is the largest number of an instance's interfaces that are created and not attached yet. It bounds how
	// many a failure can leave behind.
	MaxUnattached = 3
	// SubnetFullBackoff is the time for which a subnet without a free address is not used for further interfaces.
	SubnetFullBackoff = 2 * time.Minute
	// ForcedDetachAfter is the time that a plain detach may take before a forced one.
	ForcedDetachAfter = 10 * time.Minute
	// TokenMemory is the age of an object until which EC2 certainly remembers its client token.
	TokenMemory = 12 * time.Hour

	// pollRecheck is the requeue for transitions that the observer polls as well. It matters only if a poll is lost.
	pollRecheck = 30 * time.Second
	// maxAttachRetries is the number of attempts to attach an interface without success, after which the backoff begins
	// to grow.
	maxAttachRetries = 3
	// maxDetachFailures is the number of successive refusals to detach an interface after which the planner no longer
	// waits for its slot.
	maxDetachFailures = 5
	// maxBackoff bounds growing waits.
	maxBackoff = 30 * time.Minute
	// foreignSlotRecheck is the requeue for a slot that a foreign interface has.
	foreignSlotRecheck = 5 * time.Minute
	// terminationRecheck is the requeue during a termination: no event says that EC2 deleted an interface with its
	// instance.
	terminationRecheck = 5 * time.Second
	// uncertainRecheck is the requeue for a change without an event.
	uncertainRecheck = 15 * time.Second
)

// Plan is what to do about the interfaces of one instance now.
type Plan struct {
	// Calls are the calls to make now. Those of one interface are sequential, and stop at the first failure; interfaces
	// are independent.
	Calls []Call
	// Interfaces has the state of every object, in the order given.
	Interfaces []State
	// Gone are the objects without an interface in EC2. The finalizer of one that is being deleted can be removed.
	Gone []identity.UID
	// Spent are the objects that can have no further interface, so that a successor must serve: the caller deletes them,
	// unless they are being deleted.
	Spent []identity.UID
	// NeedsRead is set if the plan needs a fresh read of the instance before it can make calls. Proposed are those calls.
	NeedsRead bool
	Proposed  []Call
	// Next is the time of the next plan if no event comes earlier; zero for none.
	Next time.Time
}

// Phase is the phase of an interface.
type Phase string

// The phases of an interface.
const (
	Blocked   Phase = "Blocked"
	Pending   Phase = "Pending"
	Creating  Phase = "Creating"
	Attaching Phase = "Attaching"
	Attached  Phase = "Attached"
	Detaching Phase = "Detaching"
	Deleting  Phase = "Deleting"
)

// Evidence says how it is known that an interface is the one of an object.
type Evidence int

const (
	// Unknown is the evidence of an object without an interface.
	Unknown Evidence = iota
	// Created is EC2's answer to the client token of the object.
	Created
	// TakenOver is an interface that existed before the object.
	TakenOver
	// Launched is a launch interface of the instance.
	Launched
)

// State is the state of one object's interface.
type State struct {
	Key   identity.Interface
	Goal  Goal
	Phase Phase
	// Interface is the interface as EC2 has it; nil while none is known.
	Interface *eni.Interface
	// Evidence is set if the object does not record the interface yet. The caller records both at once.
	Evidence Evidence
	// Slot is the slot of the interface, or the one that it will get.
	Slot eni.Slot
	// Problem says why the interface is not as desired; its Reason is empty if it is.
	Problem Problem
	// Requested are the addresses and prefixes of the interface that EC2 chose for our counts.
	Requested eni.Addresses
	// Granted are the prefixes that pods may use, those that the object grants already included. It is empty while the
	// interface is not a network for pods.
	Granted []netip.Prefix
	// ENA is what multieni has set of the interface's ENA settings, and what the instance type does not support.
	ENA ENA
}

// Ready reports whether the interface is attached and usable without an action by a person. Pending updates in place do
// not count, because they do not delay the use of an interface.
func (s State) Ready() bool {
	return s.Goal == Serve && s.Phase == Attached && s.Problem.Reason.Transient()
}

// phaseOf returns the phase of an interface, as EC2 shows it.
func phaseOf(i eni.Interface) Phase {
	switch {
	case i.Attachment == nil && (i.Status == eni.Detaching):
		return Detaching
	case i.Attachment == nil && i.Status != eni.Attaching:
		return Pending
	case i.Attachment == nil:
		return Attaching
	case i.Attachment.Status == eni.AttachmentAttached:
		return Attached
	case i.Attachment.Status == eni.AttachmentDetaching:
		return Detaching
	default:
		return Attaching
	}
}
