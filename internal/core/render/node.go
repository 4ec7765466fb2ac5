// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"slices"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/selector"
)

// MaxObjects is the most objects that a NodeENI has on one node. No network card takes more interfaces.
const MaxObjects = 32

// maxSubnets is the most subnets that an object can name (its schema).
const maxSubnets = 64

// In is what decides about the objects of one instance.
type In struct {
	// Instance is the instance, and VPCID its VPC.
	Instance eni.InstanceRef
	VPCID    string
	// Nodes are the Nodes that name the instance, the oldest first: it is the node of the objects.
	Nodes []Registration
	// NodeENIs are all accepted NodeENIs, those that are being deleted among them.
	NodeENIs []NodeENI
	// Objects are the objects of the instance, and Made the interfaces that a lifecycle hook or the boot made there.
	Objects []Object
	Made    []Made
	// Own are the subnets of interfaces whose objects lack a range of these subnets.
	Own []Subnet
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
	// Template has no groups: they depend on the location.
	Template Template
	// Found has the matches of its selectors; nil if they could not be read, or if nothing needs them.
	Found *selector.Found
	// FloatingOf has, by subnet ID, the ranges in which addresses follow pods, if the template declares none.
	FloatingOf map[string][]string
}

// Selects reports whether a NodeENI selects a Node with the labels.
func (n NodeENI) Selects(labels map[string]string) bool {
	for key, value := range n.Selector {
		if has, ok := labels[key]; !ok || has != value {
			return false
		}
	}
	return len(n.Selector) > 0
}

// Made is an interface that a lifecycle hook or the boot of the instance made for a network.
type Made struct {
	Network string
	Ordinal int
	ENIID   string
	Subnet  Subnet
	Slot    *eni.Slot
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
	// NodeENI is the name of the NodeENI, and Why says in words why the object is closed or deleted.
	NodeENI, Why string
}

// Mode says what a NodeENI may do on an instance.
type Mode int

const (
	// Retain keeps the objects as they are.
	Retain Mode = iota
	// Ensure makes the objects those that the NodeENI declares.
	Ensure
	// Release removes the objects.
	Release
)

// ModeOf returns what a NodeENI may do on the instance of the Nodes, and why it may not ensure anything. Only the
// labels of present Nodes are a reason to remove an object here. The labels and the pause of each Node that names the
// instance count (docs/decisions/0018); objects of a NodeENI that is being deleted are removed together with it.
func (n NodeENI) ModeOf(nodes []Registration) (Mode, string) {
	selects := func(node Registration) bool { return n.Selects(node.Labels) }
	paused := func(node Registration) bool { return node.Paused }
	switch {
	case n.Paused:
		return Retain, "its NodeENI is paused"
	case slices.ContainsFunc(nodes, paused):
		return Retain, "its node is paused"
	case n.Deleting:
		return Retain, "its NodeENI is being deleted"
	case len(nodes) == 0:
		return Retain, "the API server has no Node for the instance"
	case selects(nodes[0]):
		return Ensure, ""
	case slices.ContainsFunc(nodes, selects):
		return Retain, "the labels of another Node that names the instance match its NodeENI"
	default:
		return Release, "the node's labels no longer match its NodeENI"
	}
}

// Node returns the writes that make the objects of an instance those that the NodeENIs declare for it, in the order in
// which they are due.
func Node(in In) []Write {
	r := &renderer{In: in, renamed: map[string]bool{}, taken: map[string]bool{}}
	for _, o := range in.Objects {
		r.taken[o.Name] = true
	}
	for _, n := range in.NodeENIs {
		r.nodeENI(n, r.objectsOf(n.Name))
	}
	r.networks()
	r.rename()
	slices.SortStableFunc(r.writes, func(a, b Write) int { return cmp.Compare(rank(a.Verb), rank(b.Verb)) })
	return r.writes
}

// Names returns the names of the objects of a node and of those that the writes create, sorted.
func Names(objects []Object, writes []Write) (names []string) {
	for _, o := range objects {
		names = append(names, o.Name)
	}
	for _, w := range writes {
		if w.Verb == Create {
			names = append(names, w.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// rank orders writes: a new interface waits for the slot of one that is being removed, if its object says so before.
func rank(v Verb) int {
	if v == Create {
		return 1
	}
	return 0
}

// renderer is the state of one rendering.
type renderer struct {
	In
	writes []Write
	// renamed are the objects whose spec has the name of the node, after the writes. taken are the names of objects.
	renamed, taken map[string]bool
	// awaited are the declared interfaces without an object that has an interface.
	awaited []awaited
}

// awaited is a declared interface that can take over an interface of a network.
type awaited struct {
	Wanted
	nodeENI string
}

// objectsOf returns the objects of a NodeENI, and of the network of its name.
func (r *renderer) objectsOf(name string) []Object {
	return slices.DeleteFunc(slices.Clone(r.Objects), func(o Object) bool { return o.Spec.NodeENI.Name != name })
}

// nodeENI adds the writes for one NodeENI.
func (r *renderer) nodeENI(n NodeENI, objects []Object) {
	mode, why := n.ModeOf(r.Nodes)
	switch {
	case mode == Release:
		for _, o := range objects {
			if o.Spec.Origin == OriginDeclared {
				r.remove(o, n.Name, why)
			}
		}
	case n.Found == nil:
	case mode == Ensure:
		r.ensure(n, objects)
	default:
		r.reportAll(n, objects)
	}
}

// reportAll reports the differences of the objects of a NodeENI that may change nothing.
func (r *renderer) reportAll(n NodeENI, objects []Object) {
	placed := n.At(r.location())
	found := n.pair(placed.Interfaces, objects)
	for w, wanted := range placed.Interfaces {
		if i, paired := found.byWanted[w]; paired {
			r.report(objects[i], n.Drift(wanted, objects[i]))
		}
	}
}

// location returns where the instance is.
func (in In) location() selector.Location {
	return selector.Location{Zone: in.Instance.Zone, VPCID: in.VPCID}
}

// AttachedVPC returns the VPC of an attached interface, from its object and the matches of selectors; empty for none. A
// new leader knows the objects of a fleet before the first list of EC2.
func (in In) AttachedVPC() string {
	for _, n := range in.NodeENIs {
		if n.Found == nil {
			continue
		}
		for _, subnet := range n.Found.Subnets.Subnets() {
			is := func(o Object) bool { return o.Slot != nil && o.SubnetID == subnet.ID }
			if slices.ContainsFunc(in.Objects, is) {
				return subnet.VPCID
			}
		}
	}
	return ""
}

// remove removes an object that nothing declares. An object with pods is closed first: that can be taken back, and a
// deletion cannot. It is deleted when nothing holds it any more.
func (r *renderer) remove(o Object, nodeENI, why string) {
	switch {
	case o.Deleting:
	case o.Spec.Pods != nil && !o.Spec.Pods.Closed:
		spec := o.Spec
		pods := *spec.Pods
		pods.Closed = true
		spec.Pods = &pods
		r.update(o, spec)
		r.writes[len(r.writes)-1].Why = why // to close it changes the spec, so that there is a write
	case o.Spec.Pods != nil && o.Held, r.Incomplete:
	default:
		r.writes = append(r.writes, Write{Verb: Delete, Name: o.Name, UID: o.UID, NodeENI: nodeENI, Why: why})
	}
}

// update adds the write of a spec that differs from that of the object.
func (r *renderer) update(o Object, spec Spec) {
	if len(r.Nodes) > 0 {
		spec.NodeName = r.Nodes[0].Name
	}
	if o.ENIID != "" {
		spec.Subnets = r.fixed(o)
	}
	r.renamed[o.Name] = true
	if !equal(spec, o.Spec) {
		r.writes = append(r.writes, Write{Verb: Update, Name: o.Name, UID: o.UID, Spec: spec, NodeENI: spec.NodeENI.Name})
	}
}

// fixed returns the subnets of an object with an interface: those that it has, and that of the interface with its
// ranges. The object can lack it if the NodeENI changed between the creation of the interface and its record.
func (r *renderer) fixed(o Object) []Subnet {
	all := o.Spec.Subnets
	own := slices.IndexFunc(r.Own, func(s Subnet) bool { return s.ID == o.SubnetID })
	at := slices.IndexFunc(all, func(s Subnet) bool { return s.ID == o.SubnetID })
	switch {
	case own < 0, at < 0 && len(all) >= maxSubnets:
		return all
	case at < 0:
		return append(slices.Clone(all), r.Own[own])
	}
	all = slices.Clone(all)
	all[at] = r.Own[own]
	return all
}

// report adds the write of differences that the object does not state.
func (r *renderer) report(o Object, drift []plan.Drift) {
	if !slices.Equal(drift, o.Drift) {
		r.writes = append(r.writes, Write{Verb: Report, Name: o.Name, UID: o.UID, Drift: drift,
			NodeENI: o.Spec.NodeENI.Name})
	}
}

// rename writes the name of the node into all other objects: their agent is that of the node.
func (r *renderer) rename() {
	if len(r.Nodes) == 0 {
		return
	}
	for _, o := range r.Objects {
		if !r.renamed[o.Name] {
			r.update(o, o.Spec)
		}
	}
}
