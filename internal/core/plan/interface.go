// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// Goal says what to do about an interface.
type Goal int

const (
	// Keep leaves an interface as it is: its node is paused, its NodeENI is not resolved, or its removal waits for its
	// turn. The Problem of the interface says why.
	Keep Goal = iota
	// Serve creates an interface, attaches it and updates it in place.
	Serve
	// Release detaches an interface and deletes it. Its object is being deleted, and the deletion has its turn.
	Release
	goals
)

// Interface is one object: the desired state of an interface and what the object stores about it.
type Interface struct {
	Key  identity.Interface
	Goal Goal
	// Tags are all tags of the interface; see [identity.Interface.Tags].
	Tags map[string]string
	// Settings are the desired interface. Its counts include the minimum of prefixes for pods.
	Settings eni.Settings
	// Problem is the reason why the interface cannot be created, or why it is kept; nil for none.
	Problem *Problem
	// ENIID is the ID of the interface that the object records. It never changes once it is set.
	ENIID string
	// OfNetwork is set if no NodeENI declares the object: a lifecycle hook or the boot of the instance made its interface.
	OfNetwork bool
	// Launched is set if that is a launch interface, which is never detached or deleted.
	Launched bool
	// Registered is set if the API server has a Node for the instance: its kubelet and so the instance runs, although EC2
	// may return the state running a second or two later.
	Registered bool
	// Inherited is set if the object was in the first list of this process: an earlier leader may have called EC2 for it.
	Inherited bool
	// Held is set while pods or programs may use the interface, so that it must not be detached.
	Held bool
	// Requested are the addresses and prefixes that EC2 chose for our counts. The planner unassigns no others.
	Requested eni.Addresses
	// Prefixes is the demand of pods for prefixes.
	Prefixes PrefixDemand
	// Floating are the addresses that follow pods. They count neither as declared nor as surplus.
	Floating []netip.Addr
	// ENA is the record of the ENA settings.
	ENA ENA
	// Since is the time of the creation of the object.
	Since time.Time
}

// PrefixDemand is the demand of pods for the prefixes of one interface. The number of prefixes only grows.
type PrefixDemand struct {
	// Pods is set if the interface is a network for pods. The planner then unassigns nothing.
	Pods bool
	// Wanted is the number of IPv4 prefixes that the agent asks for, and Max the largest number that the NodeENI allows.
	Wanted, Max int
	// Granted are the prefixes that the object grants to pods.
	Granted []netip.Prefix
}

// Problem is a reason why the desired state cannot be reached, with a message for people: the object, the cause and the
// next step.
type Problem struct {
	Reason  Reason
	Message string
}

// Drift is a difference between an interface and the desired one that only a replacement can correct.
type Drift struct {
	Field, Want, Have string
}

// SubnetDrift and SlotDrift are the fields of [Drift].
const (
	SubnetDrift = "subnet"
	SlotDrift   = "slot"
)
