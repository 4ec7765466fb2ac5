// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// ensure adds the writes that make the objects of a NodeENI the declared ones.
func (r *renderer) ensure(n NodeENI, objects []Object) {
	placed := n.At(r.location())
	found := n.pair(placed.Interfaces, objects)
	// Others belong to their instance.
	surplus := slices.DeleteFunc(pick(objects, found.surplus), func(o Object) bool { return !o.isDeclared() })
	stranded := len(placed.Interfaces) == 0 && slices.ContainsFunc(surplus, func(o Object) bool { return o.ENIID != "" })
	for w := range placed.Interfaces {
		wanted := placed.Interfaces[w]
		i, paired := found.byWanted[w]
		if paired {
			r.serve(n, placed, wanted, objects[i])
		}
		if !paired || objects[i].ENIID == "" {
			r.awaited = append(r.awaited, awaited{wanted, n.Name})
		}
		if paired && objects[i].ENIID == "" {
			r.letGo(wanted)
		}
		if !paired && !r.letGo(wanted) {
			r.create(n.Name, r.spec(n, placed, wanted))
		}
	}
	left := r.blocked(n, placed, surplus, stranded)
	for _, o := range left {
		switch {
		case stranded && o.ENIID != "":
			r.strand(n, placed, o)
		case !placed.Complete || stranded:
		default:
			r.remove(o, n.Name, surplusReason(placed, o))
		}
	}
}

// serve adds the writes of an object that a declared interface has. A deleted one keeps its spec: its successor gets
// the new one.
func (r *renderer) serve(n NodeENI, placed Placed, w Wanted, o Object) {
	if o.Deleting {
		return
	}
	spec := r.spec(n, placed, w)
	spec.Ordinal, spec.InstanceID, spec.Zone = o.Spec.Ordinal, o.Spec.InstanceID, o.Spec.Zone
	r.updateFrom(n, o, r.keepFixed(spec, o, n))
	r.report(o, n.Drift(w, o))
}

// keepFixed returns the spec with what cannot change any more: EC2 binds an interface to its subnet, and an attachment
// to its slot. Subnets of an object without an interface change only if others are allowed, and not with the number of
// their free addresses.
func (r *renderer) keepFixed(spec Spec, o Object, n NodeENI) Spec {
	switch {
	case o.ENIID != "":
		spec.Subnets = r.fixed(o)
	case sameSubnets(spec.Subnets, o.Spec.Subnets):
		spec.Subnets = o.Spec.Subnets
	}
	if o.Slot != nil {
		spec.Slot = o.Spec.Slot
	}
	if len(spec.EC2.Groups) == 0 {
		spec.EC2.Groups = o.Spec.EC2.Groups
	}
	if spec.Pods != nil && o.SubnetID != "" {
		if at := slices.IndexFunc(spec.Subnets, func(s Subnet) bool { return s.ID == o.SubnetID }); at >= 0 {
			spec.Pods.Floating = n.floating(spec.Subnets[at])
		}
	}
	return spec
}

func sameSubnets(a, b []Subnet) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(s Subnet) bool { return !slices.Contains(b, s) })
}

// updateFrom writes a spec that was rendered from a NodeENI. The generation changes only together with something else:
// an edit that concerns no object writes none.
func (r *renderer) updateFrom(n NodeENI, o Object, spec Spec) {
	spec.NodeENI.Generation = n.Generation
	if o.Spec.NodeENI.UID == n.UID {
		before := spec
		before.NodeENI.Generation = o.Spec.NodeENI.Generation
		if before.NodeName = r.Nodes[0].Name; equal(before, o.Spec) {
			spec = before
		}
	}
	r.update(o, spec)
}

// spec returns the spec of a declared interface.
func (r *renderer) spec(n NodeENI, placed Placed, w Wanted) Spec {
	spec := r.bare(n, w.Ordinal, w.Slot)
	spec.Problem, spec.Template = placed.GroupProblem, w.Template
	for _, s := range w.Candidates {
		spec.Subnets = append(spec.Subnets, SubnetOf(s))
	}
	if spec.Pods != nil {
		pods := *spec.Pods
		if pods.Floating = nil; len(spec.Subnets) > 0 {
			pods.Floating = n.floating(spec.Subnets[0])
		}
		spec.Pods = &pods
	}
	return spec
}

// bare returns the spec of an interface without subnets.
func (r *renderer) bare(n NodeENI, ordinal int, slot eni.Slot) Spec {
	template := n.Template
	template.EC2.Description = describe(template.EC2.Description, slot)
	if template.Pods != nil {
		pods := *template.Pods
		pods.Floating = nil
		template.Pods = &pods
	}
	return Spec{
		InstanceID: r.Instance.ID, Zone: r.Instance.Zone, Ordinal: ordinal, Origin: OriginDeclared,
		NodeName: r.Nodes[0].Name, NodeENI: Reference{Name: n.Name, UID: n.UID, Generation: n.Generation},
		Revision: n.Revision(r.Instance.Zone), Slot: slot, ExactSlot: n.ExactSlot, Template: template,
	}
}

// SubnetOf converts a subnet.
func SubnetOf(s eni.Subnet) Subnet {
	subnet := Subnet{ID: s.ID}
	if s.CIDR.IsValid() {
		subnet.CIDR = s.CIDR.String()
	}
	if s.IPv6CIDR.IsValid() { // also without pods: the ranges of an object with an interface are fixed
		subnet.IPv6CIDR = s.IPv6CIDR.String()
	}
	return subnet
}

// create adds a new object under its own ordinal or, if an object has that, under the lowest free one.
func (r *renderer) create(nodeENI string, spec Spec) {
	name := identity.ObjectName(nodeENI, r.Instance.ID, spec.Ordinal)
	for ordinal := 0; r.taken[name]; ordinal++ {
		spec.Ordinal = ordinal
		name = identity.ObjectName(nodeENI, r.Instance.ID, ordinal)
	}
	if spec.Ordinal > identity.MaxOrdinal {
		return
	}
	r.taken[name] = true
	r.writes = append(r.writes, Write{Verb: Create, Name: name, Spec: spec, NodeENI: nodeENI})
}

// blocked gives each problem of the selectors an object, so that users see it: one without an interface, or a new one.
// It returns the other objects. While interfaces are stranded, they give the reason, and no object is added.
func (r *renderer) blocked(n NodeENI, placed Placed, surplus []Object, stranded bool) (left []Object) {
	problems := placed.Problems
	for _, o := range surplus {
		if len(problems) == 0 || o.ENIID != "" || o.Deleting {
			left = append(left, o)
			continue
		}
		spec := r.bare(n, o.Spec.Ordinal, o.Spec.Slot)
		spec.Zone, spec.InstanceID, spec.Problem = o.Spec.Zone, o.Spec.InstanceID, &problems[0]
		r.updateFrom(n, o, spec)
		r.report(o, nil)
		problems = problems[1:]
	}
	ordinal := 0
	for _, o := range r.objectsOf(n.Name) {
		ordinal = max(ordinal, o.Spec.Ordinal+1)
	}
	ordinal = max(ordinal, len(placed.Interfaces))
	for i := range problems {
		if stranded || len(placed.Interfaces)+len(placed.Problems) > MaxObjects {
			break
		}
		slot := eni.Slot{Card: n.FirstSlot.Card, Device: n.FirstSlot.Device + ordinal}
		spec := r.bare(n, ordinal, slot)
		spec.Problem = &problems[i]
		r.create(n.Name, spec)
		ordinal++
	}
	return left
}

// strand keeps an interface of a NodeENI without a subnet for the instance. A selector that matches only other zones or
// another VPC blocks new interfaces, but is no reason to remove one in use (docs/decisions/0021).
func (r *renderer) strand(n NodeENI, placed Placed, o Object) {
	if o.Deleting {
		return
	}
	spec := o.Spec
	spec.NodeENI = Reference{Name: n.Name, UID: n.UID, Generation: n.Generation}
	spec.Revision = n.Revision(r.Instance.Zone)
	spec.Origin = OriginDeclared
	if len(placed.Problems) > 0 {
		spec.Problem = &placed.Problems[0]
	}
	r.updateFrom(n, o, spec)
	r.report(o, []plan.Drift{{Field: plan.SubnetDrift, Want: Nowhere, Have: o.SubnetID}})
}

// Nowhere is the subnet in the drift of an interface whose NodeENI has no subnet for its node. No interface could
// replace it.
const Nowhere = "one that a new interface of the node can be in"

// surplusReason says why an object is surplus.
func surplusReason(placed Placed, o Object) string {
	if slices.ContainsFunc(placed.Interfaces, func(w Wanted) bool { return w.Allows(o.SubnetID) }) {
		return "another interface of the NodeENI is in its subnet"
	}
	if o.SubnetID == "" {
		return "the NodeENI declares fewer interfaces for the node"
	}
	return fmt.Sprintf("its subnet %s is no longer in the NodeENI", o.SubnetID)
}

func pick(objects []Object, indices []int) (picked []Object) {
	for _, i := range indices {
		picked = append(picked, objects[i])
	}
	return picked
}

// equal reports whether two specs say the same. Empty and absent lists do.
func equal(a, b Spec) bool { return reflect.DeepEqual(normal(a), normal(b)) }

// normal returns a spec in which nothing that is empty is present.
func normal(s Spec) Spec {
	if len(s.Subnets) == 0 {
		s.Subnets = nil
	}
	if len(s.EC2.Groups) == 0 {
		s.EC2.Groups = nil
	}
	if len(s.EC2.Tags) == 0 {
		s.EC2.Tags = nil
	}
	if s.Link != nil && len(s.Link.Sysctls) == 0 {
		link := *s.Link
		link.Sysctls = nil
		s.Link = &link
	}
	if s.Pods != nil {
		pods := *s.Pods
		if len(pods.Routes) == 0 {
			pods.Routes = nil
		}
		if len(pods.Floating) == 0 {
			pods.Floating = nil
		}
		s.Pods = &pods
	}
	return s
}
