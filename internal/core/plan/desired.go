// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	"github.com/multieni/multieni/internal/core/eni"
)

// Desired is what is wanted of one instance.
type Desired struct {
	// Cluster, Node and InstanceID go into the tags of every interface that is made.
	Cluster, Node, InstanceID string
	// NodeAbsent is set when the API server has no Node for the instance. Its state must then be read from EC2 before
	// anything is concluded.
	NodeAbsent bool
	// Paused is set when somebody wants nothing changed on the node. Claims say so themselves; this is for what none speaks of.
	Paused bool
	// InstanceTags are those of which an instance must have one before it gets an interface; none asks for none.
	InstanceTags []eni.InstanceTag
	// Claims holds one claim per NodeENI that wants, or still has, interfaces here.
	Claims []Claim
	// InPlaceUpdates are differences of launched interfaces to repair in place.
	InPlaceUpdates []InPlaceUpdate
}

// Claim is what one NodeENI asks of the instance.
type Claim struct {
	NodeENI, NodeENIUID string
	Mode                Mode
	// Selects is set when the labels of a present Node match.
	Selects bool
	// Why says in words why the claim is released or held.
	Why string
	// Leaked is set on a released claim whose NodeENI does not exist any more. Its interfaces go only once they are
	// known to be old enough to be leaks.
	// Those that are attached are left there for Grace after MissingSince, when the NodeENI was first missed.
	Leaked       bool
	MissingSince time.Time
	Grace        time.Duration
	// Interfaces are the wanted interfaces in the order of the NodeENI's subnets. Those of a paused claim only serve to say in
	// what its interfaces differ.
	Interfaces []DesiredInterface
	// FirstSlot is the slot asked for by the first interface.
	FirstSlot eni.Slot
	// Unresolvable says, for each interface that could not even be wished for, why: for example no subnet in the zone.
	Unresolvable []Problem
	// SecurityGroupProblem says why the security groups are not known; then nothing is made and no groups are changed.
	SecurityGroupProblem *Problem
	// AllResolved is set when every selector of the NodeENI could be resolved. An interface that no wish accounts for is
	// removed only then: a failed or partial answer is no reason to take an interface away.
	AllResolved bool
	// ExactSlot refuses any slot but the one asked for.
	ExactSlot bool
	// ReplaceAllowed allows a live interface to be removed and made anew for what cannot be changed in place.
	ReplaceAllowed bool
}

// DesiredInterface is one wanted interface.
type DesiredInterface struct {
	Ordinal int
	// Subnets are the IDs of the subnets it may be in, the preferred one first.
	Subnets []string
	Slot    eni.Slot
	Spec    eni.Spec
}

// Problem is a reason why something wanted cannot be done, with words for people: the object, the cause and the next step.
type Problem struct {
	Reason  Reason
	Message string
}

// Mode says what a NodeENI may do on an instance.
type Mode int

const (
	// Retain claims keep what they have; nothing is made, changed or removed.
	Retain Mode = iota
	// Ensure claims get their wishes.
	Ensure
	// Release claims lose their interfaces, for a confirmed reason.
	Release
	// Paused claims keep what they have, whatever happens, until somebody lifts the pause.
	Paused
)

// SelectionFacts are the facts a claim's standing follows from.
type SelectionFacts struct {
	// NodeENIKnown is set when the API server has the NodeENI; NodeENIDeleting when its deletion was asked for;
	// NodeENIGone when it was confirmed that it does not exist any more.
	NodeENIKnown, NodeENIDeleting, NodeENIGone bool
	// NodePresent is set when a Node names this instance; Selected when its labels match the NodeENI's selector.
	NodePresent, Selected bool
	// DuplicateSelected is set when the labels of another Node that names the instance match.
	DuplicateSelected bool
	// NodeENIPaused and NodePaused are set by people who want nothing changed.
	NodeENIPaused, NodePaused bool
}

// Unpaused returns the circumstances as they are once nobody wants a pause any more.
func (c SelectionFacts) Unpaused() SelectionFacts {
	c.NodeENIPaused, c.NodePaused = false, false
	return c
}

// ModeFor says what a NodeENI may do on an instance, and why. Only a deletion asked for or confirmed, and labels read from
// a present Node, are reasons to remove; whatever is merely absent is not. That the instance itself ends is no circumstance of a
// claim: [Compute] sees to it.
func ModeFor(c SelectionFacts) (Mode, string) {
	switch {
	case c.NodeENIPaused:
		return Paused, "its NodeENI is paused"
	case c.NodePaused:
		return Paused, "its node is paused"
	case c.NodeENIGone:
		return Release, "its NodeENI does not exist any more"
	case !c.NodeENIKnown:
		return Retain, "its NodeENI is not known to the API server"
	case c.NodeENIDeleting:
		return Release, "its NodeENI is being deleted"
	case !c.NodePresent:
		return Retain, "the API server has no Node for the instance"
	case !c.Selected && c.DuplicateSelected:
		return Retain, "the labels of another Node that names the instance match its NodeENI"
	case !c.Selected:
		return Release, "the node's labels no longer match its NodeENI"
	default:
		return Ensure, ""
	}
}
