// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"time"

	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// Object is an object of a NodeENI with its status.
type Object struct {
	render.Object
	// Version is the resource version that was read, and DeletedAt the deletionTimestamp.
	Version   string
	DeletedAt time.Time
	// Attached is set if EC2 shows the interface as attached, and Ready if it is as its present spec declares.
	Attached, Ready bool
	// Reason and Message say why it is not, and Stalled that a user must act.
	Reason, Message string
	Stalled         bool
	// Wanted is set if the NodeENI still declares the interface of an object that is being deleted.
	Wanted bool
	// Pods are the pods that use the interface, as far as the agent reports them.
	Pods []Pod
	// OrphanedAt is when the object became an orphan; zero for never.
	OrphanedAt time.Time
}

// Pod is a pod that uses an interface.
type Pod struct{ Namespace, Name, UID string }

// Instance is an instance whose Node a NodeENI selects.
type Instance struct {
	ID, Node, Zone, VPCID string
}

// NodeENI is a NodeENI, or the name of one that does not exist.
type NodeENI struct {
	render.NodeENI
	// Absent is set if two live reads found no NodeENI of the name.
	Absent bool
	// Replace allows the replacement of a live interface, and EvictPods the eviction of its pods.
	Replace, EvictPods bool
	MaxUnavailable     int
}

// Outcome is what happens next to the objects of one NodeENI.
type Outcome struct {
	// Delete are the objects to delete, each with its version and the reason in words.
	Delete []Deletion
	// Evict are the objects whose pods are evicted now.
	Evict []Object
	// Orphan are the objects to mark as orphans.
	Orphan []Object
	// Status is the sum of the interfaces.
	Status Status
	// Done is set if the NodeENI is being deleted and no object of it is known.
	Done bool
	// Next is when to compute again; zero if only an event changes something.
	Next time.Time
}

// Deletion is an object to delete. With Version it is deleted only as it was read.
type Deletion struct {
	Name, UID, Version, Why string
}

// Status is the state of all interfaces of a NodeENI.
type Status struct {
	Desired, Attached, Ready, Blocked, Drifted int
	// Waiting is the number of selected instances whose objects are not all those of today.
	Waiting int
	// Replacing is set if interfaces wait for their replacement.
	Replacing bool
}

// Compute decides about the objects of one NodeENI on all of its instances.
func Compute(nodeENI NodeENI, objects []Object, instances []Instance, now time.Time) Outcome {
	return Outcome{}
}

// Turns returns, by the name of each object that is being deleted although its NodeENI still declares it, whether its
// interface may be removed now.
func Turns(nodeENI NodeENI, objects []Object, instances []Instance) map[string]bool { return nil }

var _ plan.Drift
