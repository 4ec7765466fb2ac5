// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import "github.com/multieni/multieni/internal/core/plan"

// Status is the state of all interfaces of a NodeENI.
type Status struct {
	// Desired is the number of objects that the NodeENI declares, and of interfaces beyond those that a node can have.
	// Attached, Ready, Blocked and Drifted are numbers of these.
	Desired, Attached, Ready, Blocked, Drifted int
	// Omitted is the number of interfaces beyond those that a node can have.
	Omitted int
	// Waiting is the number of selected instances with an object that is missing, or that is not about the present
	// declaration.
	Waiting int
	// Drift says, by name, what happens to objects that only a replacement can correct.
	Drift map[string]plan.Problem
	// Leaving are the names of the objects that the NodeENI no longer declares.
	Leaving map[string]bool
}

func (s survey) status() Status {
	st := Status{Drift: map[string]plan.Problem{}, Leaving: map[string]bool{}}
	for at := range s.instances {
		i := &s.instances[at]
		st.Omitted += i.placed.Omitted
		if s.waits(i) {
			st.Waiting++
		}
		for _, o := range i.objects {
			if !s.isDesired(i, o) {
				st.Leaving[o.Name] = true
				continue
			}
			s.count(&st, i, o)
		}
	}
	selected := map[string]bool{}
	for _, i := range s.instances {
		selected[i.ID] = true
	}
	for _, o := range s.objects {
		if !selected[o.Spec.InstanceID] {
			st.Leaving[o.Name] = true
		}
	}
	st.Desired += st.Omitted
	st.Blocked += st.Omitted
	return st
}

// isDesired reports whether the NodeENI still declares the interface of an object. One without a declared interface is
// desired if it is there for a problem, or while nothing may be removed.
func (s survey) isDesired(i *surveyed, o Object) bool {
	if s.wanted[o.Name] {
		return true
	}
	return !o.Deleting && (o.Spec.Problem != nil || s.n.Paused || i.Paused)
}

// waits reports whether an instance has an object that is missing, or that is not about the present declaration.
func (s survey) waits(i *surveyed) bool {
	if i.missing > 0 || len(i.objects) == 0 {
		return true
	}
	if s.n.Paused || i.Paused {
		return false
	}
	for _, o := range i.objects {
		outdated := s.n.Found != nil && o.Spec.Revision != i.revision || !o.Settled || o.Spec.NodeENI.UID != s.n.UID
		if outdated && !o.Deleting && s.isDesired(i, o) {
			return true
		}
	}
	return false
}

// count counts one object.
func (s survey) count(st *Status, i *surveyed, o Object) {
	st.Desired++
	drifted := len(i.drift[o.Name]) > 0
	if drifted && !o.Deleting {
		st.Drift[o.Name] = s.explainDrift(i, o)
		st.Drifted++
	}
	switch o.Phase {
	case attached:
		st.Attached++
		if !drifted && o.Ready && !o.Deleting {
			st.Ready++
		}
	case blocked:
		st.Blocked++
	}
}
