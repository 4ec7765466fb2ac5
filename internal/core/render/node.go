// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/selector"
)

// MaxObjects is the most objects that a NodeENI has on one node. No network card takes more interfaces.
const MaxObjects = 32

// In is what decides about the objects of one instance.
type In struct {
	// Instance is the instance, and VPCID its VPC; empty while it is not known.
	Instance eni.InstanceRef
	VPCID    string
	// Nodes are the Nodes that name the instance, the oldest first: it is the node of the objects.
	Nodes []Registration
	// NodeENIs are all accepted NodeENIs, those that are being deleted among them.
	NodeENIs []NodeENI
	// Objects are the objects of the instance, and Made the interfaces that a lifecycle hook or the boot made there.
	Objects []Object
	Made    []Made
	// Incomplete is set if a list failed: then nothing is deleted.
	Incomplete bool
}

// Registration is a Node that names the instance.
type Registration struct {
	Name   string
	Labels map[string]string
	// Paused is set if a user paused the node.
	Paused bool
}

// NodeENI is a NodeENI with the matches of its selectors.
type NodeENI struct {
	Name, UID        string
	Generation       int64
	Deleting, Paused bool
	// Selector are the labels of its nodes; empty selects none.
	Selector  map[string]string
	FirstSlot eni.Slot
	ExactSlot bool
	Template  Template
	// Found has the matches of its selectors; nil if they could not be read, or if nothing needs them.
	Found *selector.Found
	// FloatingOf has, by subnet ID, the ranges in which addresses follow pods, in addition to those of the template.
	FloatingOf map[string][]string
}

// Made is an interface that a lifecycle hook or the boot of the instance made for a network.
type Made struct {
	Network         string
	Ordinal         int
	ENIID, SubnetID string
	Slot            *eni.Slot
	// Template has what the tags of the interface say about its link.
	Template Template
}

// Verb is what a write does.
type Verb string

const (
	// Create creates an object.
	Create Verb = "Create"
	// Update changes the spec of an object; pods.closed is among it.
	Update Verb = "Update"
	// Report changes what an object says about its differences from the declaration.
	Report Verb = "Report"
	// Delete deletes an object, after a live read of the Nodes and of the NodeENI.
	Delete Verb = "Delete"
	// LetGo deletes an object and lets its interface stay: another object takes it over.
	LetGo Verb = "LetGo"
)

// Write is one write of one object.
type Write struct {
	Verb Verb
	// Name and UID are those of the object. A new one has no UID.
	Name, UID string
	// Spec is the whole spec, for Create and Update.
	Spec Spec
	// Drift is for Report; empty for none.
	Drift []plan.Drift
	// NodeENI is the name of the NodeENI, and Why says in words why the object is deleted.
	NodeENI, Why string
}

// Node returns the writes that make the objects of an instance those that the NodeENIs declare for it.
func Node(in In) []Write { return nil }
