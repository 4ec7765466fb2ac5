// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podaddress

// Owner is an interface of a node.
type Owner struct{ Node, InterfaceID string }

// Object is the object of an address, as the agent has read it.
type Object struct {
	Exists, Deleting bool
	// Holder has the address, and Contender is another one that has it too; the zero Owner for none.
	Holder, Contender Owner
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

// Decide returns what the agent of a node writes about an address of its pods. The last writer is the holder, so an
// agent writes itself over another one only if it saw the address come up: one that starts cannot tell who was first.
func Decide(me Owner, present, came bool, o Object) Write {
	holds, contends := o.Holder == me, o.Contender.Node == me.Node
	switch {
	case !o.Exists && present:
		return Create
	case !o.Exists, o.Deleting:
		return WriteNothing // no pod becomes the holder of an object that is being deleted
	case !present && o.Holder.Node == me.Node:
		return LetGo
	case !present && contends, holds && contends:
		return Yield
	case !present, holds:
		return WriteNothing // the object says so already
	case came, o.Holder.Node == "", o.Holder.Node == me.Node:
		return Hold
	case o.Contender.Node == "":
		return Contend
	default:
		return WriteNothing
	}
}
