// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/fleet"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// maxRounds is more than any instance needs: a round serves every interface of the instance that does not wait for
// another one, and none needs more than six.
const maxRounds = 100

// Outcome is the predicted result of a plan.
type Outcome struct {
	// Actions are all calls to make, in a possible order.
	Actions []plan.Action
	// Evictions are the pods to evict before interfaces are removed.
	Evictions []plan.Eviction
	// Members is the final state of every interface: attached, or blocked with the reason.
	Members []plan.Member
}

// Of returns the part of the outcome that concerns NodeENIs, by name.
func (o Outcome) Of(nodeENIs []string) Outcome {
	isOther := func(m identity.Member) bool { return !slices.Contains(nodeENIs, m.NodeENI) }
	return Outcome{
		Actions:   slices.DeleteFunc(slices.Clone(o.Actions), func(a plan.Action) bool { return isOther(a.Of()) }),
		Evictions: slices.DeleteFunc(slices.Clone(o.Evictions), func(e plan.Eviction) bool { return isOther(e.Member) }),
		Members:   slices.DeleteFunc(slices.Clone(o.Members), func(m plan.Member) bool { return isOther(m.Member) }),
	}
}

// Input is the observed state of an instance before the forecast.
type Input struct {
	Look   eni.InstanceSnapshot
	Limits eni.Limits
	Ledger identity.Generations
	// Stored has, by interface ID, what the API server stores about interfaces.
	Stored map[string]plan.Stored
}

// Simulate executes the plans for one instance in a model until no action is left. It assumes that everything happens
// that only takes time.
func Simulate(d render.Declared, facts Input, now time.Time) Outcome {
	m := newModel(d, facts, now)
	var outcome Outcome
	for range maxRounds {
		p := m.plan()
		outcome.Members, m.ledger = p.Members, p.Ledger
		for _, action := range p.Actions {
			m.carryOut(action)
		}
		for _, eviction := range p.Evictions {
			m.evict(eviction.InterfaceID)
		}
		outcome.Actions, outcome.Evictions = append(outcome.Actions, p.Actions...), append(outcome.Evictions, p.Evictions...)
		if len(p.Actions) == 0 && len(p.Evictions) == 0 && !m.underway() {
			break
		}
		m.finishCalls()
	}
	return outcome
}

// model is a model of one instance.
type model struct {
	d          render.Declared
	instance   eni.Instance
	limits     eni.Limits
	ledger     identity.Generations
	interfaces map[string]eni.Interface
	stored     map[string]plan.Stored
	now        time.Time
	made       int
}

func newModel(d render.Declared, facts Input, now time.Time) *model {
	m := &model{
		d: d, instance: facts.Look.Instance, limits: facts.Limits, ledger: facts.Ledger,
		interfaces: map[string]eni.Interface{}, stored: map[string]plan.Stored{}, now: now,
	}
	for id, stored := range facts.Stored {
		if stored.Report != nil { // assume that the agent drains unused networks
			report := *stored.Report
			report.Drained = report.Used == 0
			stored.Report = &report
		}
		m.stored[id] = stored
	}
	for _, i := range facts.Look.Interfaces {
		m.interfaces[i.ID] = i.Clone()
	}
	return m
}

// observe reads the model as a controller reads EC2. All of it has been known for long, so that the planner waits for
// nothing.
func (m *model) observe() plan.Observed {
	known := inventory.New(m.d.Cluster)
	look := eni.InstanceSnapshot{At: m.now, Instance: m.instance}
	for _, id := range slices.Sorted(maps.Keys(m.interfaces)) {
		i := m.interfaces[id].Clone()
		stored := m.stored[id]
		stored.Listed = &plan.ListedNetwork{Draining: true} // assume that the controller has written this
		m.stored[id] = stored
		known.ObserveInterfaces(m.now.Add(-inventory.StaleReadWindow), i)
		known.ObserveInterfaces(m.now, i)
		look.Interfaces = append(look.Interfaces, i)
	}
	return plan.Observed{
		NodeRegistered: true, Owned: known.Of(m.d.InstanceID), Snapshot: &look, Limits: m.limits, Ledger: m.ledger,
		Stored: m.stored,
	}
}

// evict ends the pods that use an interface.
func (m *model) evict(id string) {
	stored := m.stored[id]
	stored.Report = nil
	m.stored[id] = stored
}

// plan plans as a controller that has every permission.
func (m *model) plan() plan.Plan {
	o, granted := m.observe(), fleet.Permission{Granted: true}
	desired := render.Interfaces(m.d, render.Evidence{}, o, m.now).Desired
	p := plan.Compute(fleet.Next(desired, o, m.now).Decide(desired, granted), o, m.now)
	return fleet.Evict(p, granted, nil, true, m.now)
}

// underway reports whether EC2 would still be changing an interface.
func (m *model) underway() bool {
	for _, i := range m.interfaces {
		if i.InTransition() {
			return true
		}
	}
	return false
}

// finishCalls completes all calls that EC2 still works on.
func (m *model) finishCalls() {
	m.now = m.now.Add(time.Second)
	for id, i := range m.interfaces {
		if i.Attachment == nil {
			if i.InTransition() {
				i.Status = eni.Available
			}
			m.interfaces[id] = i
			continue
		}
		switch attachment := *i.Attachment; attachment.Status {
		case eni.AttachmentAttaching:
			attachment.Status = eni.AttachmentAttached
			i.Attachment = &attachment
		case eni.AttachmentDetaching, eni.AttachmentDetached:
			i.Attachment, i.Status = nil, eni.Available
		}
		m.interfaces[id] = i
	}
}

func (m *model) carryOut(action plan.Action) {
	switch a := action.(type) {
	case plan.Create:
		m.create(a)
	case plan.Attach:
		m.change(a.InterfaceID, func(i eni.Interface) eni.Interface {
			i.Status = eni.InUse
			i.Attachment = &eni.Attachment{ID: "attachment of " + i.ID, InstanceID: m.d.InstanceID, Slot: a.Slot,
				Status: eni.AttachmentAttaching, ENAExpress: a.ENAExpress}
			return i
		})
	case plan.Detach:
		m.change(a.InterfaceID, func(i eni.Interface) eni.Interface {
			leaving := *i.Attachment
			leaving.Status = eni.AttachmentDetaching
			i.Attachment = &leaving
			return i
		})
	case plan.Delete:
		delete(m.interfaces, a.InterfaceID)
	case plan.Change:
		m.change(a.InterfaceID, func(i eni.Interface) eni.Interface {
			if more, ok := a.To.(plan.AssignAddresses); ok {
				return m.assign(i, more)
			}
			return a.To.Apply(i)
		})
	}
}

func (m *model) change(id string, to func(eni.Interface) eni.Interface) {
	if i, known := m.interfaces[id]; known {
		m.interfaces[id] = to(i)
	}
}

func (m *model) create(a plan.Create) {
	m.made++
	i := eni.Interface{
		ID: fmt.Sprintf("new interface %d", m.made), Type: eni.Standard, Status: eni.Available,
		Description: a.Spec.Description,
		SubnetID:    a.SubnetID, VPCID: m.instance.VPCID, Zone: m.instance.Zone, Groups: slices.Clone(a.Spec.Groups),
		SourceDestCheck: true, Tags: a.Member.Tags(m.now, a.Spec.Tags), ConnectionTracking: a.Spec.ConnectionTracking,
	}
	c := a.Spec.AddressCounts
	i = m.assign(i, plan.AssignAddresses{Family: plan.IPv4, Addresses: c.SecondaryIPv4, Prefixes: c.IPv4Prefixes})
	m.interfaces[i.ID] = m.assign(i, plan.AssignAddresses{Family: plan.IPv6, Addresses: c.IPv6, Prefixes: c.IPv6Prefixes})
}
