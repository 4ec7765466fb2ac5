// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// Desired is the desired state of one instance.
type Desired struct {
	// Cluster, Node and InstanceID become tags of every new interface.
	Cluster, Node, InstanceID string
	// NodeAbsent is set if the API server has no Node for the instance. The state of the instance must then be read
	// from EC2.
	NodeAbsent bool
	// Paused is set if a user paused the node. Claims have their own mode; this is for interfaces without a claim.
	Paused bool
	// InstanceTags are tags; an instance without one of them gets no interface. If empty, every instance gets
	// interfaces.
	InstanceTags []eni.InstanceTag
	// Claims has one claim for each NodeENI that desires, or still has, interfaces here.
	Claims []Claim
	// InPlaceUpdates are the differences of launch interfaces to update in place.
	InPlaceUpdates []InPlaceUpdate
}

// Claim is what one NodeENI asks for on the instance.
type Claim struct {
	NodeENI string
	Owner   identity.Owner
	Mode    Mode
	// Selects is set if the labels of a present Node match.
	Selects bool
	// Why says in words why the claim is released or retained.
	Why string
	// Leaked is set on a released claim whose NodeENI does not exist any more. The planner removes its interfaces only
	// if they are old enough to be leaks. It retains attached ones for Grace after MissingSince, the time of the first
	// absence of the NodeENI.
	Leaked       bool
	MissingSince time.Time
	Grace        time.Duration
	// Interfaces are the desired interfaces in the order of the NodeENI's subnets. Those of a paused claim serve only to
	// report drift.
	Interfaces []DesiredInterface
	// FirstSlot is the requested slot of the first interface.
	FirstSlot eni.Slot
	// Unresolvable has, for each interface that could not be resolved, the reason: for example no subnet in the zone.
	Unresolvable []Problem
	// SecurityGroupProblem is the reason why the security groups are unknown. While it is set, the planner creates no
	// interface and changes no groups.
	SecurityGroupProblem *Problem
	// AllResolved is set if every selector of the NodeENI was resolved. Only then does the planner remove surplus
	// interfaces: a failed or partial answer is no reason to remove one.
	AllResolved bool
	// ExactSlot accepts only the requested slot.
	ExactSlot bool
	// PodPrefixes is the demand of pods for IPv4 prefixes.
	PodPrefixes PrefixDemand
	// EvictPods is set if multieni evicts the pods that use an interface before its removal. Otherwise the removal waits
	// for them.
	EvictPods bool
	// ReplaceAllowed allows the replacement of a live interface for a change that cannot be made in place.
	ReplaceAllowed bool
}

// DesiredInterface is one desired interface.
type DesiredInterface struct {
	Ordinal int
	// Subnets are the IDs of the allowed subnets, the preferred one first.
	Subnets []string
	Slot    eni.Slot
	Spec    eni.Spec
}

// Problem is a reason why the desired state cannot be reached, with a message for people: the object, the cause and the
// next step.
type Problem struct {
	Reason  Reason
	Message string
}

// Mode says what a NodeENI may do on an instance.
type Mode int

const (
	// Retain claims keep their interfaces; nothing is created, changed or removed.
	Retain Mode = iota
	// Ensure claims get their desired interfaces.
	Ensure
	// Release claims lose their interfaces, for a confirmed reason.
	Release
	// Paused claims keep their interfaces in every case, until a user ends the pause.
	Paused
)

// SelectionFacts are the facts that determine the mode of a claim.
type SelectionFacts struct {
	// NodeENIKnown is set if the API server has the NodeENI, NodeENIDeleting if a user deleted it, and NodeENIGone if a
	// live read confirmed that it does not exist any more.
	NodeENIKnown, NodeENIDeleting, NodeENIGone bool
	// NodePresent is set if a Node names this instance, and Selected if its labels match the NodeENI's selector.
	NodePresent, Selected bool
	// DuplicateSelected is set if the labels of another Node that names the instance match.
	DuplicateSelected bool
	// NodeENIPaused and NodePaused are set by users, by annotation.
	NodeENIPaused, NodePaused bool
}

// Unpaused returns the facts without the pauses.
func (c SelectionFacts) Unpaused() SelectionFacts {
	c.NodeENIPaused, c.NodePaused = false, false
	return c
}

// ModeFor returns what a NodeENI may do on an instance, and why. Only a requested or confirmed deletion, and the labels
// of a present Node, are reasons to remove interfaces; an absent object is none. The end of the instance is not a fact
// about a claim: [Compute] handles it.
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
