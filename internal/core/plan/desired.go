// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
)

// Desired is the desired state of one instance, as package render returns it.
type Desired struct {
	// Cluster, Node and InstanceID become tags of every new interface.
	Cluster, Node, InstanceID string
	// NodeAbsent is set if the API server has no Node for the instance. The state of the instance must then be read
	// from EC2.
	NodeAbsent bool
	// InstanceTags are tags; an instance without one of them gets no interface. If empty, every instance gets
	// interfaces.
	InstanceTags []eni.InstanceTag
	// Interfaces are all interfaces that are desired, or that exist and may be changed or reported. The planner allocates
	// slots and plans calls in their order.
	Interfaces []Interface
	// Replacement is the decision of package fleet about the replacement of an interface.
	Replacement Replacement
	// InPlaceUpdates are the differences of launch interfaces to update in place.
	InPlaceUpdates []InPlaceUpdate
}

// Replacement says which live interface is replaced next.
type Replacement struct {
	// Owner is the owner of that interface; empty if none is replaced.
	Owner identity.Owner
	// Denied says why the interface is not replaced yet; empty if it is.
	Denied string
}

// Goal says what to do about an interface.
type Goal int

const (
	// Retain leaves an interface as it is.
	Retain Goal = iota
	// Ensure creates an interface, attaches it and updates it in place.
	Ensure
	// Release detaches an interface and deletes it.
	Release
	goals
)

// Interface is one interface of the instance: a desired one with the existing interface that serves it, a desired one
// without, or an existing one that nothing desires.
type Interface struct {
	// Member is the state from which the plan begins. With Retain and Release its Why is the reason.
	Member
	Goal Goal
	// Settings is the desired interface; nil if nothing desires it, or if it cannot exist on the instance.
	Settings *DesiredInterface
	// Record is the existing interface, and Launched the launch interface that serves instead of one; nil without it.
	Record   *inventory.Record
	Launched *eni.Interface
	// Target is the slot where an existing interface belongs.
	Target eni.Slot
	// Problem is the reason why the interface cannot be created.
	Problem *Problem
	// SecurityGroupProblem is the reason why the security groups are unknown. While it is set, the planner creates no
	// interface and changes no groups.
	SecurityGroupProblem *Problem
	// ExactSlot accepts only the requested slot.
	ExactSlot bool
	// ReplaceAllowed allows the replacement of a live interface for a change that cannot be made in place, once
	// AllResolved is set: every selector of the NodeENI was resolved.
	ReplaceAllowed, AllResolved bool
	// PodPrefixes is the demand of pods for IPv4 prefixes.
	PodPrefixes PrefixDemand
	// IsPodNetwork is set if the interface may be a network for pods that the state of the node does not list yet.
	IsPodNetwork bool
	// EvictPods is set if multieni evicts the pods that use an interface before its removal. Otherwise the removal waits
	// for them.
	EvictPods bool
	// Recorded is set if a NodeENIState names an interface of the generation in the ledger. If EC2 has none, it is gone,
	// and a repeated call could give its identity to another one.
	Recorded bool
	// Predecessor is an existing interface that this one may turn out to be. Until that is certain, none is created.
	Predecessor string
	// EntersLedger is set if the plan's ledger must name a released interface, although only its tags say that it belongs
	// to the cluster.
	EntersLedger bool
	// NeedsFreshRead is set if only a fresh read of the instance shows what to do about the interface.
	NeedsFreshRead bool
	// RequeueAt is the time from which something else may have to be done about a retained interface; zero if only an
	// event changes that.
	RequeueAt time.Time
}

// IsUnsettled reports whether a desired interface is not attached to the instance in its slot yet. One that cannot
// exist on the instance is not unsettled: it would block every replacement.
func (m Interface) IsUnsettled(instanceID string) bool {
	launched := m.Launched != nil && m.Launched.Ready()
	attached := m.Record != nil && m.Record.Ready() && m.Record.AttachedTo(instanceID)
	return m.Desired && m.Settings != nil && !launched && !attached
}

// DesiredInterface is one desired interface.
type DesiredInterface struct {
	Ordinal int
	// Subnets are the IDs of the allowed subnets, the preferred one first.
	Subnets []string
	Slot    eni.Slot
	Spec    eni.Spec
}

// Allows reports whether the interface may be in a subnet.
func (w DesiredInterface) Allows(subnetID string) bool { return slices.Contains(w.Subnets, subnetID) }

// Problem is a reason why the desired state cannot be reached, with a message for people: the object, the cause and the
// next step.
type Problem struct {
	Reason  Reason
	Message string
}
