// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podaddress

import "time"

// Owner is an interface of a node.
type Owner struct{ Node, InterfaceID string }

// Object is the object of an address, as the agent has read it.
type Object struct {
	Exists, Deleting bool
	// UID is that of the object, and Sequence its number of holders.
	UID      string
	Sequence int64
	// Holder has the address, and Contender is another one that has it too; the zero Owner for none.
	Holder, Contender Owner
	// Since is when the holder got the address, by the clock of its node and in whole seconds.
	Since time.Time
}

// Write is what an agent writes about an address.
type Write int

const (
	// WriteNothing leaves the object as it is.
	WriteNothing Write = iota
	// Create creates the object.
	Create
	// Hold makes the interface the holder, over the version that was read.
	Hold
	// LetGo ends that. Only the holder does so.
	LetGo
	// Contend names the interface as another one with the address.
	Contend
	// Yield ends that.
	Yield
)

// Seen is what the agent of a node sees of an address.
type Seen struct {
	// Present is set if a pod has the address, Came if the agent saw it come up, and Declared if the ranges contain it.
	Present, Came, Declared bool
	// Leased is set if the pod asked for the address.
	Leased bool
}

// Decide returns what the agent of a node writes about an address of its pods. The last writer is the holder, so an
// agent writes itself over another one only if it saw the address come up: one that starts cannot tell who was first.
// For a new lease an agent also writes itself over itself, so that the object says since when the pod has the address.
func Decide(me Owner, seen Seen, o Object) Write {
	holds, contends := o.Holder == me, o.Contender.Node == me.Node
	switch {
	case !o.Exists && seen.Present && seen.Declared:
		return Create // the controller deletes objects of other addresses
	case !o.Exists, o.Deleting:
		return WriteNothing // no pod becomes the holder of an object that is being deleted
	case !seen.Present && o.Holder.Node == me.Node:
		return LetGo
	case !seen.Present && contends, holds && contends:
		return Yield
	case !seen.Present, holds && (!seen.Leased || !seen.Came):
		return WriteNothing // the object says so already
	case seen.Came, o.Holder.Node == "", o.Holder.Node == me.Node:
		return Hold
	case o.Contender.Node == "":
		return Contend
	default:
		return WriteNothing
	}
}
