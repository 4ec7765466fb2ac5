// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/fleet"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// maxRounds is more than any instance needs: a round serves every interface of the instance that does not wait for
// another one, and none needs more than six.
const maxRounds = 100

// Input is the observed state of an instance before the forecast.
type Input struct {
	Cluster string
	Look    eni.InstanceSnapshot
	Limits  eni.Limits
	// InstanceTags are tags; an instance without one of them gets no interface. If empty, every instance gets interfaces.
	InstanceTags []eni.InstanceTag
	// Node is what decides about the objects of the instance. Its NodeENIs and Objects are those below.
	Node     render.In
	NodeENIs []fleet.NodeENI
	Objects  []Object
}

// Object is an object, with what its status says about its interface.
type Object struct {
	render.Object
	Requested eni.Addresses
	ENA       plan.ENA
	// Granted are the prefixes of pods, and Wanted is the number that the agent asks for.
	Granted []netip.Prefix
	Wanted  int
	// Used is the number of addresses that pods have. Pods are their names, as NAMESPACE/NAME.
	Used  int
	Pods  []string
	Since time.Time
}

// Simulate renders the objects of one instance and executes the plans for them in a model until nothing is left to do.
// It assumes that everything happens that only takes time, and that a rollout may replace the interfaces of the
// instance.
func Simulate(in Input, now time.Time) Outcome {
	s := &simulation{Input: in, model: newModel(in.Cluster, in.Look, in.Limits, now), why: map[string]string{}}
	s.instanceTags = in.InstanceTags
	s.Objects = slices.Clone(in.Objects)
	for range maxRounds {
		changed := s.render()
		changed = s.decide() || changed
		changed = s.agent() || changed
		if changed = s.plan() || changed; !changed && !s.underway() {
			break
		}
		s.finishCalls()
	}
	return s.outcome
}

// Place executes the plans for fixed objects of one instance.
func Place(want []plan.Interface, look eni.InstanceSnapshot, limits eni.Limits, now time.Time) Outcome {
	cluster := ""
	if len(want) > 0 {
		cluster = want[0].Key.Cluster
	}
	m := newModel(cluster, look, limits, now)
	want = slices.Clone(want)
	var outcome Outcome
	for range maxRounds {
		p := plan.Compute(want, m.observe(), m.now)
		outcome.Calls, outcome.Interfaces = append(outcome.Calls, p.Calls...), nil
		for n, state := range p.Interfaces {
			outcome.Interfaces = append(outcome.Interfaces, Interface{State: state})
			if state.Interface != nil {
				want[n].ENIID = state.Interface.ID
			}
		}
		m.carryOut(p.Calls)
		if len(p.Calls) == 0 && !m.underway() {
			break
		}
		m.finishCalls()
	}
	return outcome
}

// simulation is the controller and the agent of the model.
type simulation struct {
	Input
	*model
	outcome Outcome
	made    int
	// stays has, by name, why objects keep interfaces that differ from what is declared.
	stays map[string]plan.Problem
	// why has, by name, why objects are deleted.
	why map[string]string
}

// render writes the objects as the reconciler of the Node does, and reports whether one changed.
func (s *simulation) render() bool {
	in := s.Node
	in.NodeENIs, in.Objects = nil, nil
	for _, n := range s.NodeENIs {
		in.NodeENIs = append(in.NodeENIs, n.NodeENI)
	}
	for _, o := range s.Objects {
		in.Objects = append(in.Objects, o.Object)
	}
	writes := render.Node(in)
	for _, w := range writes {
		s.write(w)
	}
	return len(writes) > 0
}

func (s *simulation) write(w render.Write) {
	n := slices.IndexFunc(s.Objects, func(o Object) bool { return o.Name == w.Name })
	switch {
	case w.Verb == render.Create:
		s.made++
		s.Objects = append(s.Objects, Object{Since: s.now, Object: render.Object{
			Name: w.Name, UID: fmt.Sprintf("new object %d", s.made), Spec: w.Spec}})
	case n < 0:
	case w.Verb == render.Update:
		s.Objects[n].Spec = w.Spec
		s.why[w.Name] = w.Why
	case w.Verb == render.Report:
		s.Objects[n].Drift = w.Drift
	case w.Verb == render.LetGo:
		s.Objects = slices.Delete(s.Objects, n, n+1)
	default:
		s.Objects[n].Deleting = true
		s.why[w.Name] = w.Why
	}
}

// whyDeleted says why an object is deleted. Nothing else is known of one that was deleted before.
func (s *simulation) whyDeleted(name string) string {
	return cmp.Or(s.why[name], "its NetworkInterface is being deleted")
}

// explain returns the calls with the reasons of the removals.
func (s *simulation) explain(calls []plan.Call) []plan.Call {
	var all []plan.Call
	for _, call := range calls {
		switch c := call.(type) {
		case plan.Detach:
			c.Why = s.whyDeleted(c.Key.Name)
			call = c
		case plan.Delete:
			c.Why = s.whyDeleted(c.Key.Name)
			call = c
		}
		all = append(all, call)
	}
	return all
}

// decide deletes objects and evicts pods as the reconciler of each NodeENI does, and reports whether it did.
func (s *simulation) decide() (changed bool) {
	s.stays = map[string]plan.Problem{}
	for _, n := range s.NodeENIs {
		var objects []fleet.Object
		for _, o := range s.Objects {
			if o.Spec.NodeENI.Name == n.Name {
				objects = append(objects, s.status(o))
			}
		}
		n.MaxUnavailable = 1
		var selected []fleet.Instance
		if len(s.Node.Nodes) > 0 && n.Selects(s.Node.Nodes[0].Labels) {
			selected = []fleet.Instance{{ID: s.Node.Instance.ID, Zone: s.Node.Instance.Zone,
				Paused: s.Node.Nodes[0].Paused}}
		}
		decided := fleet.Compute(n, objects, selected, s.now)
		maps.Copy(s.stays, decided.Status.Drift)
		for _, d := range decided.Delete {
			s.write(render.Write{Verb: render.Delete, Name: d.Name, Why: d.Why})
		}
		evicted := s.evict(decided.Evict)
		changed = changed || evicted || len(decided.Delete) > 0
	}
	return changed
}

// status returns an object with the status that the plan gives it.
func (s *simulation) status(o Object) fleet.Object {
	i, known := s.interfaces[o.ENIID]
	attached := known && i.Ready()
	return fleet.Object{Object: o.Object, Version: "1", Phase: string(s.phases[o.Name]), Attached: attached,
		Ready: attached, Settled: true}
}

// evict ends the pods of objects, and reports whether there are any. Pods without a name cannot be evicted.
func (s *simulation) evict(all []fleet.Object) (evicted bool) {
	for _, o := range all {
		n := slices.IndexFunc(s.Objects, func(other Object) bool { return other.Name == o.Name })
		if len(s.Objects[n].Pods) == 0 {
			continue
		}
		s.outcome.Evictions = append(s.outcome.Evictions, Eviction{Key: o.Key(s.Cluster), InterfaceID: o.ENIID,
			Pods: s.Objects[n].Pods, Why: s.whyDeleted(o.Name)})
		s.Objects[n].Pods, s.Objects[n].Used = nil, 0
		evicted = true
	}
	return evicted
}

// agent lets go the interfaces that no pod uses and that must go, and reports whether there are any.
func (s *simulation) agent() (changed bool) {
	for n := range s.Objects {
		o := &s.Objects[n]
		ends := o.Deleting || o.Spec.Pods == nil && o.Spec.DPDK == nil || o.Spec.Pods != nil && o.Spec.Pods.Closed
		if o.Held && ends && o.Used == 0 {
			o.Held, changed = false, true
		}
	}
	return changed
}

// plan plans the interfaces of the objects and makes the calls. It reports whether something changed.
func (s *simulation) plan() (changed bool) {
	slices.SortFunc(s.Objects, func(a, b Object) int { return strings.Compare(a.Name, b.Name) })
	var want []plan.Interface
	for _, o := range s.Objects {
		want = append(want, s.wanted(o))
	}
	p := plan.Compute(want, s.observe(), s.now)
	s.outcome.Calls, s.outcome.Interfaces = append(s.outcome.Calls, s.explain(p.Calls)...), nil
	s.phases = map[string]plan.Phase{}
	for n, state := range p.Interfaces {
		o := &s.Objects[n]
		s.phases[o.Name] = state.Phase
		s.outcome.Interfaces = append(s.outcome.Interfaces, Interface{State: state, Drift: o.Drift, Kept: s.stays[o.Name]})
		changed = o.record(state) || changed
	}
	s.carryOut(p.Calls)
	for _, uid := range p.Spent {
		changed = s.end(uid, func(o *Object) bool { was := o.Deleting; o.Deleting = true; return !was }) || changed
	}
	for _, uid := range p.Gone {
		n := slices.IndexFunc(s.Objects, func(o Object) bool { return o.UID == string(uid) })
		if s.Objects[n].Deleting {
			s.Objects, changed = slices.Delete(s.Objects, n, n+1), true
		}
	}
	return changed || len(p.Calls) > 0
}

func (s *simulation) end(uid identity.UID, change func(*Object) bool) bool {
	n := slices.IndexFunc(s.Objects, func(o Object) bool { return o.UID == string(uid) })
	return change(&s.Objects[n])
}

// record writes the state of the interface into the object, and reports whether it has its interface only now.
func (o *Object) record(state plan.State) bool {
	if state.Interface == nil {
		return false
	}
	isNew := o.ENIID == ""
	o.ENIID, o.SubnetID = state.Interface.ID, state.Interface.SubnetID
	o.Launched = o.Launched || state.Evidence == plan.Launched
	o.Slot = nil
	if a := state.Interface.Attachment; a != nil {
		slot := a.Slot
		o.Slot = &slot
	}
	o.Requested, o.Granted, o.ENA = state.Requested, state.Granted, state.ENA
	return isNew
}

// wanted returns an object as the planner sees it.
func (s *simulation) wanted(o Object) plan.Interface {
	key := o.Key(s.Cluster)
	i := plan.Interface{
		Key: key, Goal: plan.Serve, Tags: key.Tags(o.Since, o.Spec.EC2.Tags), Settings: o.Spec.Settings(),
		Problem: o.Spec.Problem, ENIID: o.ENIID, Launched: o.Launched, Registered: true, Held: o.Held,
		Requested: o.Requested, ENA: o.ENA, Since: o.Since.Add(-plan.RecreateAfter),
	}
	if pods := o.Spec.Pods; pods != nil {
		i.Prefixes = plan.PrefixDemand{Pods: true, Wanted: o.Wanted, Granted: o.Granted}
		if pods.IPv4 != nil {
			i.Prefixes.Max = pods.IPv4.Max
		}
	}
	why, isKept := s.kept(o)
	switch {
	case isKept:
		i.Goal, i.Problem = plan.Keep, &plan.Problem{Reason: plan.Retained, Message: why}
	case o.Deleting:
		i.Goal = plan.Release
	}
	return i
}

// kept reports whether an object is left as it is, and says why.
func (s *simulation) kept(o Object) (string, bool) {
	for _, n := range s.NodeENIs {
		if n.Name == o.Spec.NodeENI.Name {
			mode, why := n.ModeOf(s.Node.Nodes)
			isPaused := n.Paused || slices.ContainsFunc(s.Node.Nodes, func(r render.Registration) bool { return r.Paused })
			return why, isPaused || mode != render.Ensure && !o.Deleting
		}
	}
	return "no NodeENI declares it", !o.Deleting && o.Spec.Origin == render.OriginDeclared
}
