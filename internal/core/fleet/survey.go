// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"slices"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
	"github.com/multieni/multieni/internal/core/selector"
)

// survey is the state of the interfaces of one NodeENI.
type survey struct {
	n         NodeENI
	objects   []Object
	instances []surveyed
	// wanted are the objects that the NodeENI still declares, by name, and paused the instances with a paused Node.
	wanted, paused map[string]bool
}

// surveyed is an instance that the NodeENI selects.
type surveyed struct {
	Instance
	placed  render.Placed
	objects []Object
	// serving are the objects that declared interfaces have, and missing is the number of declared interfaces without one.
	serving []Object
	missing int
	// drift has the differences of the objects that serve, by name; nil for none.
	drift map[string][]plan.Drift
	// revision is the one that each object has after a rendering.
	revision string
}

func surveyOf(n NodeENI, objects []Object, instances []Instance) survey {
	instances = slices.SortedFunc(slices.Values(instances), func(a, b Instance) int { return cmp.Compare(a.ID, b.ID) })
	s := survey{n: n, objects: objects, instances: make([]surveyed, 0, len(instances)),
		wanted: make(map[string]bool, len(objects)), paused: make(map[string]bool, len(instances))}
	byInstance, revisions, known := make(map[string][]Object, len(instances)), map[string]string{}, places{}
	for _, o := range objects {
		byInstance[o.Spec.InstanceID] = append(byInstance[o.Spec.InstanceID], o)
	}
	for _, i := range instances {
		if _, has := revisions[i.Zone]; !has {
			revisions[i.Zone] = n.Revision(i.Zone)
		}
		one := surveyed{Instance: i, objects: byInstance[i.ID], revision: revisions[i.Zone]}
		one.pair(n, known)
		for _, o := range one.serving {
			s.wanted[o.Name] = true
		}
		s.paused[i.ID] = s.paused[i.ID] || i.Paused
		s.instances = append(s.instances, one)
	}
	return s
}

// places has what a NodeENI declares at each location.
type places map[selector.Location]render.Placed

func (p places) at(n NodeENI, at selector.Location) render.Placed {
	placed, known := p[at]
	if !known {
		placed = n.At(at)
		p[at] = placed
	}
	return placed
}

// pair finds the object of each declared interface. While the selectors are not resolved, every object has one.
func (i *surveyed) pair(n NodeENI, known places) {
	if n.Found == nil {
		i.serving = i.objects
		return
	}
	vpc := i.vpc(n)
	if vpc == "" && !i.isRendered() { // the next rendering says whether the subnets are in the VPC of the instance
		i.serving = i.objects
		return
	}
	i.placed = known.at(n, selector.Location{Zone: i.Zone, VPCID: vpc})
	if problem := i.stranded(); problem != nil {
		i.placed.Interfaces, i.placed.Problems = nil, []plan.Problem{*problem}
	}
	bare := make([]render.Object, len(i.objects))
	for at, o := range i.objects {
		bare[at] = o.Object
	}
	found := n.Pair(i.placed.Interfaces, bare)
	for w, wanted := range i.placed.Interfaces {
		at, paired := found[w]
		if !paired {
			i.missing++
			continue
		}
		o := i.objects[at]
		i.serving = append(i.serving, o)
		if drift := n.Drift(wanted, o.Object); len(drift) > 0 {
			i.differs(o.Name, drift...)
		}
	}
	i.keepStranded()
}

// isRendered reports whether all interfaces in use were rendered from the present NodeENI.
func (i *surveyed) isRendered() bool {
	return !slices.ContainsFunc(i.objects, func(o Object) bool {
		return o.ENIID != "" && !o.Deleting && o.Spec.Revision != i.revision
	})
}

// stranded returns why the NodeENI has no subnet for the instance, if an interface in use was rendered with that; else
// nil. The rendering knows the VPC of the instance also if all subnets of the NodeENI are in another one.
func (i *surveyed) stranded() *plan.Problem {
	for _, o := range i.objects {
		problem := o.Spec.Problem
		if o.ENIID != "" && !o.Deleting && o.Spec.Revision == i.revision && problem != nil &&
			problem.Reason == plan.NoSubnetInZone {
			return problem
		}
	}
	return nil
}

// keepStranded adds the objects whose NodeENI has no subnet for the instance: they stay.
func (i *surveyed) keepStranded() {
	if len(i.placed.Interfaces) > 0 {
		return
	}
	for _, o := range i.objects {
		if o.Deleting {
			continue
		}
		i.serving = append(i.serving, o)
		if o.ENIID != "" {
			i.differs(o.Name, plan.Drift{Field: plan.SubnetDrift, Want: render.Nowhere, Have: o.SubnetID})
		}
	}
}

// differs notes the differences of an object. Few instances of a fleet have any.
func (i *surveyed) differs(name string, drift ...plan.Drift) {
	if i.drift == nil {
		i.drift = map[string][]plan.Drift{}
	}
	i.drift[name] = drift
}

// vpc returns the VPC of the subnets that the objects of the instance were rendered with, or else that of the instance;
// "" if neither is known.
func (i *surveyed) vpc(n NodeENI) string {
	all := n.Found.Subnets.Subnets()
	for _, o := range i.objects {
		for _, s := range o.Spec.Subnets {
			at := slices.IndexFunc(all, func(other eni.Subnet) bool { return other.ID == s.ID })
			if at >= 0 {
				return all[at].VPCID
			}
		}
	}
	return i.VPCID
}

// down reports whether the instance lacks an interface: it is missing, not ready, or already being removed.
func (i *surveyed) down() bool { return i.missing > 0 || slices.ContainsFunc(i.serving, lacking) }

// lacking reports whether an object does not serve. One that never could does not count.
func lacking(o Object) bool {
	if never(o) && !o.Deleting {
		return false
	}
	return !o.Attached || !o.Deleting && !o.Ready
}

// never reports whether an interface was never possible. It would block every rollout.
func never(o Object) bool {
	problem := o.Spec.Problem
	return o.ENIID == "" && problem != nil &&
		(problem.Reason == plan.NoSubnetInZone || problem.Reason == plan.SubnetNotFound)
}

// deleting reports whether an object of the instance that is still declared is being deleted.
func (i *surveyed) deleting() bool {
	return slices.ContainsFunc(i.serving, func(o Object) bool { return o.Deleting })
}

// notReady reports whether the state of the instance allows no attachment, for example because it has ended.
func (i *surveyed) notReady() bool {
	return slices.ContainsFunc(i.objects, func(o Object) bool { return o.InstanceNotReady })
}

// replaceable returns the object of the instance that a rollout replaces first, or nil. No other NodeENI may have a
// turn on the instance.
func (i *surveyed) replaceable() *Object {
	all := i.outdated()
	if i.Busy || len(all) == 0 {
		return nil
	}
	return &all[0]
}

// outdated returns the objects of the instance that a rollout may replace now, one at a time. An instance that lacks an
// interface loses no other one, and that one only if a replacement alone can correct all that it lacks. Everything must
// be known that the new interface needs.
func (i *surveyed) outdated() []Object {
	if i.Paused || !i.placed.Complete || i.placed.GroupProblem != nil || i.missing > 0 || i.deleting() {
		return nil
	}
	all := slices.Clone(i.serving)
	if i.down() {
		all = slices.DeleteFunc(all, func(o Object) bool { return !lacking(o) })
		if slices.ContainsFunc(all, func(o Object) bool { return !i.isDrifted(o) || !waitsForPerson(o) }) {
			return nil
		}
	}
	return slices.DeleteFunc(all, func(o Object) bool { return !i.isDrifted(o) })
}

// waitsForPerson reports whether an attached interface gets as declared only if a person changes something.
func waitsForPerson(o Object) bool { return o.Attached && o.Settled && o.Stalled }

// isDrifted reports whether only a replacement can correct an object. It was rendered from the present NodeENI, so that
// no older one replaces what a newer one declares. A launch interface stays with its instance.
func (i *surveyed) isDrifted(o Object) bool {
	drift, current := i.drift[o.Name], o.Spec.Revision == i.revision
	return len(drift) > 0 && drift[0].Want != render.Nowhere && current && !o.Launched && !o.Deleting
}

// unavailable returns the instances that lack an interface or are about to.
func (s survey) unavailable() map[string]bool {
	all := map[string]bool{}
	for at := range s.instances {
		if i := &s.instances[at]; i.down() || i.deleting() {
			all[i.ID] = true
		}
	}
	return all
}
