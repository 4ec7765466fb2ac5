// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package floating decides about one address that pods bring up themselves: where EC2 must have it, and which call
// leads there.
//
// Agents order the holders of an address by their writes to its object. [Next] is the whole decision of the controller,
// and [Pace] bounds how often it changes addresses. docs/model.md has the rules of the protocol, and says what goes
// wrong without each of them.
package floating

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/era"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/podnet"
)

const (
	// MoveInterval is the least time between two moves of one address, and between two changes of addresses on one
	// instance. Without it, pods that compete for an address, or a pod that takes one new address after another, would
	// use up EC2's request rates.
	MoveInterval = 2 * time.Second
	// Retention is how long an address without a holder stays assigned. A pod that restarts thus keeps its address in
	// EC2.
	Retention = time.Minute
	// recheck is the time between two decisions that wait for the end of a pause or for EC2's reads.
	recheck = 10 * time.Second
)

// Address is an address as its object describes it.
type Address struct {
	IP       netip.Addr
	SubnetID string
	// Sequence is the number of changes of the holder.
	Sequence int64
	// Holder is the pod that has the address, and Contender another one that has it too; nil for none.
	Holder, Contender *Holder
	// Deleting is set once no pod can become the holder.
	Deleting bool
	// Assignment is the last one; nil for none.
	Assignment *Assignment
}

// Holder is a pod with an address on an interface.
type Holder struct {
	Node, InterfaceID string
	// Pod names the pod: NAMESPACE/NAME, or its IP address; empty if neither is known.
	Pod string
}

// String names the holder for messages.
func (h Holder) String() string {
	return fmt.Sprintf("%s on node %s", cmp.Or(h.Pod, "a pod"), h.Node)
}

// Assignment is an assignment to an interface that is recorded before the call.
type Assignment struct {
	InterfaceID string
	// Sequence is that of the holder for which the address was assigned.
	Sequence int64
	// Found is set if another program had assigned the address, which is never unassigned then.
	Found bool
}

// isOurs reports whether this cluster's controller assigned the address.
func (a Address) isOurs() bool { return a.Assignment != nil && !a.Assignment.Found }

// Facts are what is known of EC2.
type Facts struct {
	// Interface is that of the holder; nil unless it is attached to the instance of the holder's node.
	Interface *Interface
	// Leaves is set while EC2 detaches the interface of the holder. The pod has the address until its link is gone.
	Leaves bool
	// At are the interfaces of the cluster that have the address, by ID, as the reads of EC2 and its answers say.
	At []string
	// ReadAt is the begin of the oldest last read of the interfaces that can have the address; zero if there is none.
	// Unread is set if one of them was never read.
	ReadAt time.Time
	Unread bool
	// Era is the era of this process. Calls of earlier leaders may take effect without being known.
	Era era.Era
	// Paused is set while a user forbids changes.
	Paused bool
}

// Interface is the interface of a holder.
type Interface struct {
	ID, InstanceType string
	SubnetID         string
	// Subnet is invalid until it is known.
	Subnet netip.Prefix
	// Ranges are the declared ranges, and Prefixes those that EC2 delegates to the interface.
	Ranges, Prefixes []netip.Prefix
	// Ahead is the number of addresses that the interface lacks and that pods brought up before this one. Room is how
	// many further addresses the interface takes; negative if that is not known.
	Ahead, Room int
}

// Memory is what the controller remembers about an address. A restart loses it; see docs/restart.md.
type Memory struct {
	// IdleSince is when this process first saw the address without a holder, IdleSequence the sequence then.
	IdleSince    time.Time
	IdleSequence int64
	// MovedAt is the time of the last accepted assignment.
	MovedAt time.Time
	// UnansweredAt is the time of the last call without an answer: it may take effect later, or never.
	UnansweredAt time.Time
	// Failure is the last failure, for the holder of FailedSequence; its count is zero after a success.
	Failure        plan.Failure
	FailedSequence int64
}

// Alone reports whether the next call must be for this address only: a call failed, and the cause may be one of its
// addresses. A throttled call says nothing about them.
func (m Memory) Alone() bool { return m.Failure.Count > 0 && m.Failure.Class != eni.Throttled }

// Divides reports whether a refused call for several addresses is followed by one for each: EC2 refuses all addresses
// of a call because of a single one, and no person needs to act for the others.
func Divides(class eni.Class) bool {
	switch class {
	case eni.Invalid, eni.AddressTaken, eni.LimitExceeded:
		return true
	default:
		return false
	}
}

// Accepted returns the memory after EC2 accepted a call.
func (m Memory) Accepted(do Action, now time.Time) Memory {
	m.Failure = plan.Failure{}
	if do == Assign {
		m.MovedAt = now
	}
	return m
}

// Failed returns the memory after a call for a holder failed. A call that was not refused may still take effect.
func (m Memory) Failed(sequence int64, class eni.Class, message string, now time.Time) Memory {
	m.Failure, m.FailedSequence = m.Failure.Next(class, message, now), sequence
	if class == eni.Transient {
		m.UnansweredAt = now
	}
	return m
}

// Action is what to do about an address.
type Action int

const (
	// Wait does nothing before the time of the step.
	Wait Action = iota
	// Read reads the interfaces from EC2.
	Read
	// Assign assigns the address to the interface of the step, whichever interface has it.
	Assign
	// Unassign unassigns it from the interface of the step.
	Unassign
	// Delete deletes the object over the version of the decision.
	Delete
	// Finish removes the finalizer of the object.
	Finish
	// Renew removes it, and makes the object again with its assignment.
	Renew
)

// State is the state of an address.
type State int

const (
	// Progressing addresses need no user.
	Progressing State = iota
	// Ready addresses are where their holder is.
	Ready
	// Stalled addresses wait until a user changes something.
	Stalled
)

// Reasons of the states.
const (
	// ReasonAssigned: EC2 delivers the address to the interface of its holder.
	ReasonAssigned = "Assigned"
	// ReasonAssigning: the controller assigns the address, now or after the interval between two moves.
	ReasonAssigning = "Assigning"
	// ReasonReleased: no pod has the address, and it stays assigned for a minute.
	ReasonReleased = "Released"
	// ReasonDeleting: the address is being unassigned.
	ReasonDeleting = "Deleting"
	// ReasonPaused: a user forbids changes of the interface.
	ReasonPaused = "Paused"
	// ReasonNotDeclared: the address is outside the ranges of the interface.
	ReasonNotDeclared = "NotDeclared"
	// ReasonAddressesLimited: the instance type allows fewer addresses than pods brought up.
	ReasonAddressesLimited = "AddressesLimited"
	// ReasonAddressRefused: EC2 refuses to assign the address.
	ReasonAddressRefused = "AddressRefused"
	// ReasonContended is the reason of the condition Contended.
	ReasonContended = "Contended"
)

// Step is a decision.
type Step struct {
	Do Action
	// On is the interface of a call.
	On string
	// Record is the assignment that the object must have before the call, and after a Wait; nil for none.
	Record *Assignment
	// State is the state of the address, with the reason and the message for users. The reason is empty if the present
	// ones stay.
	State           State
	Reason, Message string
	// At is when to decide again without an event; zero for never.
	At time.Time
}

// Next decides about an address.
func Next(a Address, f Facts, m Memory, now time.Time) (Step, Memory) {
	held := a.Holder != nil && f.Interface != nil
	if held || f.Leaves {
		m.IdleSince = time.Time{}
	} else if m.IdleSince.IsZero() || m.IdleSequence != a.Sequence {
		m.IdleSince, m.IdleSequence = now, a.Sequence
	}
	if m.FailedSequence != a.Sequence {
		m.Failure = plan.Failure{}
	}
	step := Step{Record: a.Assignment}
	switch {
	case f.Paused:
		step.Reason, step.Message = ReasonPaused, "the NodeENI or the Node is paused: the address stays where it is"
		step.At = now.Add(recheck)
	case a.Deleting && held:
		step = outlive(step, a)
	case a.Deleting:
		step = end(step, a, f, m, now)
	case !held && f.Leaves: // the agent would make the object again
		step.Reason, step.Message = ReasonReleased, notAttached(a.Holder)
	case !held:
		step = idle(step, a, m, now)
	default:
		step = follow(step, a, f, m, now)
	}
	return step, m
}

// idle waits until no pod has had the address for a while.
func idle(step Step, a Address, m Memory, now time.Time) Step {
	until := m.IdleSince.Add(Retention)
	if !now.Before(until) {
		step.Do = Delete
		return step
	}
	step.At = until
	if a.Sequence == 0 && a.Assignment == nil {
		return step // the agent that made the object writes its holder next, and a write now would conflict with that
	}
	step.Reason = ReasonReleased
	step.Message = fmt.Sprintf("no pod has the address; it is unassigned %s after the last pod dropped it", Retention)
	if a.Holder != nil {
		step.Message = notAttached(a.Holder)
	}
	return step
}

func notAttached(holder *Holder) string {
	return fmt.Sprintf("the holder is %s, and %s is not attached there", holder, holder.InterfaceID)
}

// outlive lets a pod keep the address whose object is being deleted: a user deleted it under the pod, or the interface
// of the holder was attached again after a minute. Without the assignment, the next object would take the address for
// one that another program assigned, which stays for ever.
func outlive(step Step, a Address) Step {
	step.Do = Finish
	if a.isOurs() {
		step.Do = Renew
	}
	return step
}

// end unassigns an address whose object is being deleted. No pod can become its holder any more.
func end(step Step, a Address, f Facts, m Memory, now time.Time) Step {
	step.Reason, step.Message = ReasonDeleting, "no pod has the address, and it is being unassigned"
	settled := f.settledAt(m)
	// A call without an answer may have moved or unassigned the address, and EC2 refuses to unassign it where it is not.
	mayBeElsewhere := !m.UnansweredAt.IsZero() && !f.settled(m)
	switch {
	case a.isOurs() && len(f.At) > 0 && !mayBeElsewhere:
		if retry := m.Failure.Retry(); m.Failure.Count > 0 && now.Before(retry) {
			step.At, step.Message = retry, "EC2 does not unassign the address: "+m.Failure.Message
			return step
		}
		step.Do, step.On = Unassign, f.At[0]
	case !a.isOurs(), f.settled(m):
		step.Do = Finish
	case now.Before(settled):
		step.At = settled
	default:
		step.Do, step.At = Read, now.Add(recheck)
	}
	return step
}

// settledAt is the time from which a read certainly shows the effects of all calls: of those of this process that had
// no answer, and of those of the process before it.
func (f Facts) settledAt(m Memory) time.Time {
	at := f.Era.SettledAt()
	if own := m.UnansweredAt.Add(inventory.StaleReadWindow); own.After(at) {
		at = own
	}
	return at
}

// mayMove reports whether a call without an answer may still move an address that is in place: a call of this process,
// or one of an earlier leader if this process moved the address after it. Of the other addresses a leader reads each
// only with the next list of all, so that a change of the leader costs no read for each node.
func (f Facts) mayMove(m Memory) bool {
	return !m.UnansweredAt.IsZero() || !m.MovedAt.IsZero() && m.MovedAt.Before(f.Era.SettledAt())
}

// settled reports whether the reads are that late. Without an interface that can have the address there is nothing to
// read.
func (f Facts) settled(m Memory) bool {
	return !f.Unread && (f.ReadAt.IsZero() || !f.ReadAt.Before(f.settledAt(m)))
}

// follow assigns the address to the interface of its holder.
func follow(step Step, a Address, f Facts, m Memory, now time.Time) Step {
	i := f.Interface
	there := slices.Contains(f.At, i.ID)
	within := func(ranges []netip.Prefix) bool {
		return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(a.IP) })
	}
	outside := i.Subnet.IsValid() && (!within(i.Ranges) || i.SubnetID != a.SubnetID || !i.Subnet.Contains(a.IP) ||
		podnet.Reserved(i.Subnet, a.IP))
	switch {
	case within(i.Prefixes):
		step.State, step.Reason = Ready, ReasonAssigned
		step.Message = fmt.Sprintf("a prefix of %s contains the address", i.ID)
	case outside && a.Assignment == nil && !there:
		step.Do = Delete // an agent creates objects within the ranges only
	case outside:
		step.State, step.Reason = Stalled, ReasonNotDeclared
		step.Message = fmt.Sprintf("%s has the address, which is outside the ranges in which addresses of %s move; "+
			"remove it from the pod, or correct pods.floating", a.Holder, i.ID)
	case there:
		step = arrived(step, a, f, m, now)
	case !i.Subnet.IsValid():
		step.Reason = ReasonAssigning
		step.Message = fmt.Sprintf("%s has the address, which is assigned to %s once the controller knows the subnet %s",
			a.Holder, i.ID, i.SubnetID)
	default:
		step = move(step, a, i, m, now)
	}
	return step
}

// arrived reports an address that is where it must be. Only a later read proves that it stays there if a call without
// an answer may still move it.
func arrived(step Step, a Address, f Facts, m Memory, now time.Time) Step {
	found := a.Assignment == nil || a.Assignment.Found
	step.Record = &Assignment{InterfaceID: f.Interface.ID, Sequence: a.Sequence, Found: found}
	step.State, step.Reason = Ready, ReasonAssigned
	step.Message = fmt.Sprintf("EC2 delivers the address to %s of node %s", f.Interface.ID, a.Holder.Node)
	if found {
		step.Message += "; another program assigned it"
	}
	if !f.mayMove(m) || f.settled(m) {
		return step
	}
	if settled := f.settledAt(m); now.Before(settled) {
		step.At = settled
		return step
	}
	step.Do, step.At = Read, now.Add(recheck)
	return step
}

// move assigns the address, or says what it waits for. After a failure it says so until a call succeeds.
func move(step Step, a Address, i *Interface, m Memory, now time.Time) Step {
	retry, from := m.Failure.Retry(), m.MovedAt.Add(MoveInterval)
	step.Reason = ReasonAssigning
	step.Message = fmt.Sprintf("%s has the address, which is being assigned to %s", a.Holder, i.ID)
	if m.Failure.Count > 0 {
		step.Message = fmt.Sprintf("%s has the address, and EC2 did not assign it to %s: %s", a.Holder, i.ID,
			m.Failure.Message)
		if plan.NeedsCorrection(m.Failure.Class) {
			step.State, step.Reason = Stalled, ReasonAddressRefused
			step.Message += "; remove the address from the pod, or correct pods.floating"
		}
	}
	switch {
	case i.Room >= 0 && i.Ahead >= i.Room:
		step.State, step.Reason, step.At = Stalled, ReasonAddressesLimited, now.Add(recheck)
		step.Message = fmt.Sprintf("%s has the address, but %s has as many addresses as its instance type %s allows; move "+
			"pods to other nodes, or use a larger instance type", a.Holder, i.ID, i.InstanceType)
	case m.Failure.Count > 0 && now.Before(retry):
		step.At = retry
	case now.Before(from):
		step.At = from
		step.Message += fmt.Sprintf("; it moves at most every %s", MoveInterval)
	default:
		step.Do, step.On = Assign, i.ID
		step.Record = &Assignment{InterfaceID: i.ID, Sequence: a.Sequence}
	}
	return step
}

// Contention says which pods have the address at the same time; "" if only one has it.
func (a Address) Contention() string {
	if a.Holder == nil || a.Contender == nil || a.Holder.Node == a.Contender.Node {
		return ""
	}
	return fmt.Sprintf("%s has address %s, and so has %s; the interface of node %s has it, and it moves at most every "+
		"%s; remove the address from all pods but one", a.Holder, a.IP, a.Contender, a.Holder.Node, MoveInterval)
}
