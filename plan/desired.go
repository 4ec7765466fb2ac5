// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	"github.com/multieni/multieni/eni"
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
	// Mends are differences of launched interfaces to repair in place.
	Mends []Mend
}

// Claim is what one NodeENI asks of the instance.
type Claim struct {
	NodeENI, NodeENIUID string
	Standing            Standing
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
	// Wishes are the wanted interfaces in the order of the NodeENI's subnets. Those of a paused claim only serve to say in
	// what its interfaces differ.
	Wishes []Wish
	// Base is the slot asked for by the first interface.
	Base eni.Slot
	// Lacking says, for each interface that could not even be wished for, why: for example no subnet in the zone.
	Lacking []Problem
	// NoGroups says why the security groups are not known; then nothing is made and no groups are changed.
	NoGroups *Problem
	// Resolved is set when every selector of the NodeENI could be resolved. An interface that no wish accounts for is
	// removed only then: a failed or partial answer is no reason to take an interface away.
	Resolved bool
	// Exact refuses any slot but the one asked for.
	Exact bool
	// Replace allows a live interface to be removed and made anew for what cannot be changed in place.
	Replace bool
}

// Wish is one wanted interface.
type Wish struct {
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

// Standing says what a NodeENI may do on an instance.
type Standing int

const (
	// Held claims keep what they have; nothing is made, changed or removed.
	Held Standing = iota
	// Wanted claims get their wishes.
	Wanted
	// Released claims lose their interfaces, for a confirmed reason.
	Released
	// Paused claims keep what they have, whatever happens, until somebody lifts the pause.
	Paused
)

// Circumstances are the facts a claim's standing follows from.
type Circumstances struct {
	// NodeENIKnown is set when the API server has the NodeENI; NodeENIDeleting when its deletion was asked for;
	// NodeENIGone when it was confirmed that it does not exist any more.
	NodeENIKnown, NodeENIDeleting, NodeENIGone bool
	// NodePresent is set when a Node names this instance; Selected when its labels match the NodeENI's selector.
	NodePresent, Selected bool
	// SharerSelected is set when the labels of another Node that names the instance match.
	SharerSelected bool
	// NodeENIPaused and NodePaused are set by people who want nothing changed.
	NodeENIPaused, NodePaused bool
}

// Unpaused returns the circumstances as they are once nobody wants a pause any more.
func (c Circumstances) Unpaused() Circumstances {
	c.NodeENIPaused, c.NodePaused = false, false
	return c
}

// Judge says what a NodeENI may do on an instance, and why. Only a deletion asked for or confirmed, and labels read from
// a present Node, are reasons to remove; whatever is merely absent is not. That the instance itself ends is no circumstance of a
// claim: [Compute] sees to it.
func Judge(c Circumstances) (Standing, string) {
	switch {
	case c.NodeENIPaused:
		return Paused, "its NodeENI is paused"
	case c.NodePaused:
		return Paused, "its node is paused"
	case c.NodeENIGone:
		return Released, "its NodeENI does not exist any more"
	case !c.NodeENIKnown:
		return Held, "its NodeENI is not known to the API server"
	case c.NodeENIDeleting:
		return Released, "its NodeENI is being deleted"
	case !c.NodePresent:
		return Held, "the API server has no Node for the instance"
	case !c.Selected && c.SharerSelected:
		return Held, "the labels of another Node that names the instance match its NodeENI"
	case !c.Selected:
		return Released, "the node's labels no longer match its NodeENI"
	default:
		return Wanted, ""
	}
}
