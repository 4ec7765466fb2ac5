// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	"github.com/multieni/multieni/internal/core/eni"
)

// networks adds an object for each interface of a network that no NodeENI declares. The object of a NodeENI without an
// interface takes one over instead (docs/decisions/0010).
func (r *renderer) networks() {
	if len(r.Nodes) == 0 || r.paused() {
		return
	}
	for _, made := range r.Made {
		if slices.ContainsFunc(r.Objects, made.isOf) || r.declared(made) {
			continue
		}
		spec := Spec{
			InstanceID: r.Instance.ID, Zone: r.Instance.Zone, Ordinal: made.Ordinal, Origin: OriginNetwork,
			NodeName: r.Nodes[0].Name, NodeENI: Reference{Name: made.Network}, Template: made.Template,
			Subnets: []Subnet{made.Subnet},
		}
		if made.Slot != nil {
			spec.Slot = *made.Slot
		}
		r.create(made.Network, spec)
	}
}

// isOf reports whether an object has an interface of a network, or is about to take it over.
func (m Made) isOf(o Object) bool {
	if o.ENIID != "" {
		return o.ENIID == m.ENIID
	}
	return !o.isDeclared() && o.Spec.NodeENI.Name == m.Network &&
		slices.ContainsFunc(o.Spec.Subnets, func(s Subnet) bool { return s.ID == m.Subnet.ID })
}

func (r *renderer) paused() bool {
	return slices.ContainsFunc(r.Nodes, func(n Registration) bool { return n.Paused })
}

// declared reports whether a NodeENI declares an interface of a network, or may do so: the NodeENI of its name, or one
// that asks for an interface in its slot. Each declared interface without one takes over one of the network.
func (r *renderer) declared(made Made) bool {
	named := r.named(made.Network)
	if named != nil {
		if mode, _ := named.ModeOf(r.Nodes); mode == Retain || mode == Ensure && named.Found == nil {
			return true // it may declare the interface
		}
	}
	at := slices.IndexFunc(r.awaited, func(a awaited) bool {
		fits := named != nil && a.nodeENI == named.Name || named == nil && fitsSlot(a.Wanted, made.Slot)
		return fits && a.Allows(made.Subnet.ID)
	})
	if at >= 0 {
		r.awaited = slices.Delete(r.awaited, at, at+1)
	}
	return at >= 0
}

func (r *renderer) named(network string) *NodeENI {
	at := slices.IndexFunc(r.NodeENIs, func(n NodeENI) bool { return n.Name == network })
	if at < 0 {
		return nil
	}
	return &r.NodeENIs[at]
}

// letGo reports whether a declared interface takes over the interface of a network that has an object, and lets go that
// object first. The next rendering creates the object of the NodeENI.
func (r *renderer) letGo(w Wanted) bool {
	for _, o := range r.Objects {
		if o.Spec.Origin != OriginNetwork || r.named(o.Spec.NodeENI.Name) != nil || !fits(w, o) {
			continue
		}
		if !o.Deleting && !r.Incomplete {
			r.writes = append(r.writes, Write{Verb: LetGo, Name: o.Name, UID: o.UID, NodeENI: o.Spec.NodeENI.Name,
				Why: "a NodeENI declares its interface"})
		}
		return true
	}
	return false
}

// fits reports whether the interface of an object, or the one that it is about to take over, is a declared one.
func fits(w Wanted, o Object) bool {
	if o.ENIID != "" {
		return fitsSlot(w, o.Slot) && w.Allows(o.SubnetID)
	}
	return fitsSlot(w, &o.Spec.Slot) &&
		slices.ContainsFunc(o.Spec.Subnets, func(s Subnet) bool { return w.Allows(s.ID) })
}

func fitsSlot(w Wanted, slot *eni.Slot) bool { return slot != nil && *slot == w.Slot }
