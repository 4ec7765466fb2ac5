// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/fleet"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

const (
	cluster  = "cluster-1"
	nodeName = "node-1"
	instance = "i-00000000000000001"
	zone     = "us-east-1a"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// minimalEC2 is an EC2 with one instance, enough to execute plans and check their result. Transitions of EC2 end in
// pass.
type minimalEC2 struct {
	now        time.Time
	instance   eni.Instance
	limits     eni.Limits
	interfaces map[string]eni.Interface
	tokens     map[string]string
	serial     int
	// verified are the interfaces that calls were made for, so that the process has evidence for them.
	verified map[string]bool
	// requested are the addresses in the answers to calls.
	requested map[string]eni.Addresses
	calls     int
}

func newMinimalEC2(limits eni.Limits, foreign ...eni.Slot) *minimalEC2 {
	w := &minimalEC2{
		now:        start,
		instance:   eni.Instance{ID: instance, Type: "m5.xlarge", Zone: zone, VPCID: "vpc-1", State: eni.InstanceRunning},
		limits:     limits,
		interfaces: map[string]eni.Interface{},
		tokens:     map[string]string{},
		verified:   map[string]bool{},
		requested:  map[string]eni.Addresses{},
	}
	for _, slot := range append([]eni.Slot{eni.Primary}, foreign...) {
		w.occupy(slot)
	}
	return w
}

// occupy attaches a foreign interface at a slot.
func (w *minimalEC2) occupy(slot eni.Slot) {
	i := w.make("subnet-node", nil)
	i.Status = eni.InUse
	i.Attachment = &eni.Attachment{ID: "attach-" + i.ID, InstanceID: instance, Slot: slot, Status: eni.AttachmentAttached}
	w.interfaces[i.ID] = i
}

func (w *minimalEC2) make(subnet string, tags map[string]string) eni.Interface {
	w.serial++
	return eni.Interface{
		ID: fmt.Sprintf("eni-%04d", w.serial), Type: eni.Standard, Status: eni.Available, SubnetID: subnet,
		Zone: zone, VPCID: "vpc-1", SourceDestCheck: true, Tags: maps.Clone(tags),
	}
}

// apply executes one action as EC2 would, and panics if EC2 would refuse it, because a plan must not request that.
func (w *minimalEC2) apply(action plan.Action) {
	w.calls++
	switch a := action.(type) {
	case plan.Create:
		if _, known := w.tokens[a.Member.Token()]; known {
			return
		}
		i := w.make(a.SubnetID, a.Member.Tags(w.now, a.Spec.Tags))
		i.Description, i.Groups = a.Spec.Description, slices.Clone(a.Spec.Groups)
		i.ConnectionTracking = a.Spec.ConnectionTracking
		i = w.assign(i, a.Spec.AddressCounts)
		w.tokens[a.Member.Token()] = i.ID
		w.requested[i.ID] = i.Addresses
		w.interfaces[i.ID] = i
	case plan.Attach:
		i := w.must(a.InterfaceID)
		if i.Attachment != nil || w.held(a.Slot) || w.limits.Known() && a.Slot.Device >= w.limits.MaxOnCard(a.Slot.Card) {
			panic("refused: " + a.String())
		}
		i.Status = eni.InUse
		i.Attachment = &eni.Attachment{ID: "attach-" + i.ID, InstanceID: instance, Slot: a.Slot, Status: eni.AttachmentAttaching, ENAExpress: a.ENAExpress}
		w.verified[i.ID] = true
		w.interfaces[i.ID] = i
	case plan.Detach:
		i := w.must(a.InterfaceID)
		leaving := *i.Attachment
		leaving.Status = eni.AttachmentDetaching
		i.Attachment = &leaving
		w.interfaces[i.ID] = i
	case plan.Delete:
		if i := w.must(a.InterfaceID); i.Attachment != nil {
			panic("refused: " + a.String())
		}
		delete(w.interfaces, a.InterfaceID)
	case plan.Change:
		i := w.must(a.InterfaceID)
		if more, ok := a.To.(plan.AssignAddresses); ok {
			had := i.Addresses
			i = w.more(i, more)
			w.requested[i.ID] = w.requested[i.ID].With(i.Without(had))
		}
		w.interfaces[i.ID] = a.To.Apply(i)
	}
}

func (w *minimalEC2) assign(i eni.Interface, c eni.AddressCounts) eni.Interface {
	i = w.more(i, plan.AssignAddresses{Family: plan.IPv4, Addresses: c.SecondaryIPv4, Prefixes: c.IPv4Prefixes})
	return w.more(i, plan.AssignAddresses{Family: plan.IPv6, Addresses: c.IPv6, Prefixes: c.IPv6Prefixes})
}

func (w *minimalEC2) more(i eni.Interface, m plan.AssignAddresses) eni.Interface {
	for range m.Addresses {
		w.serial++
		if m.Family == plan.IPv4 {
			i.SecondaryIPv4 = append(slices.Clone(i.SecondaryIPv4), netip.AddrFrom4([4]byte{10, 0, byte(w.serial >> 8), byte(w.serial)}))
		} else {
			i.IPv6 = append(slices.Clone(i.IPv6), netip.AddrFrom16([16]byte{0x20, 1, 14: byte(w.serial >> 8), 15: byte(w.serial)}))
		}
	}
	for range m.Prefixes {
		w.serial++
		if m.Family == plan.IPv4 {
			i.IPv4Prefixes = append(slices.Clone(i.IPv4Prefixes), netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(w.serial >> 8), byte(w.serial), 0}), 28))
		} else {
			i.IPv6Prefixes = append(slices.Clone(i.IPv6Prefixes), netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 2, 8: byte(w.serial >> 8), 9: byte(w.serial)}), 80))
		}
	}
	return i
}

func (w *minimalEC2) must(id string) eni.Interface {
	i, ok := w.interfaces[id]
	if !ok {
		panic("no interface " + id)
	}
	return i
}

func (w *minimalEC2) held(slot eni.Slot) bool {
	for _, i := range w.interfaces {
		if i.AttachedTo(instance) && i.Attachment.Slot == slot {
			return true
		}
	}
	return false
}

// end terminates the instance and detaches its interfaces.
func (w *minimalEC2) end() {
	w.instance.State = eni.InstanceTerminated
	for id, i := range w.interfaces {
		i.Attachment, i.Status = nil, eni.Available
		w.interfaces[id] = i
	}
}

// pass lets time pass, in which EC2 completes its transitions.
func (w *minimalEC2) pass(d time.Duration) {
	w.now = w.now.Add(d)
	for id, i := range w.interfaces {
		if i.Attachment == nil {
			continue
		}
		switch a := *i.Attachment; a.Status {
		case eni.AttachmentAttaching:
			a.Status = eni.AttachmentAttached
			i.Attachment = &a
		case eni.AttachmentDetaching:
			i.Attachment, i.Status = nil, eni.Available
		}
		w.interfaces[id] = i
	}
}

// observe reads the complete state, with the evidence from calls.
func (w *minimalEC2) observe(ledger identity.Generations) plan.Observed {
	known := inventory.New(cluster)
	look := &eni.InstanceSnapshot{At: w.now, Instance: w.instance}
	for _, id := range slices.Sorted(maps.Keys(w.interfaces)) {
		i := w.interfaces[id].Clone()
		known.ObserveInterfaces(w.now.Add(-inventory.StaleReadWindow), i)
		known.ObserveInterfaces(w.now, i)
		if i.AttachedTo(instance) || i.Tags[identity.TagInstanceID] == instance {
			look.Interfaces = append(look.Interfaces, i)
		}
	}
	known.Judged(w.now, instance, slices.Sorted(maps.Keys(w.verified)), nil)
	return plan.Observed{
		Owned: known.Of(instance), Launched: known.Launched(instance), Snapshot: look, Limits: w.limits, Ledger: ledger,
		Stored: requested(w.requested), UsedGenerations: identity.Generations{},
	}
}

// requested returns what the API server stores about interfaces whose addresses were requested.
func requested(addresses map[string]eni.Addresses) map[string]plan.Stored {
	stored := map[string]plan.Stored{}
	for id, a := range addresses {
		stored[id] = plan.Stored{Requested: a}
	}
	return stored
}

// store changes what the API server stores about an interface.
func store(o *plan.Observed, id string, change func(*plan.Stored)) {
	stored := o.Stored[id]
	change(&stored)
	o.Stored[id] = stored
}

// ours returns the interfaces created for NodeENIs, ordered by ID.
func (w *minimalEC2) ours() []eni.Interface {
	var ours []eni.Interface
	for _, id := range slices.Sorted(maps.Keys(w.interfaces)) {
		if i := w.interfaces[id]; i.Tags[identity.TagCluster] == cluster {
			ours = append(ours, i)
		}
	}
	return ours
}

// compute renders and plans, as a node's reconciler does that may replace no interface.
func compute(d render.Declared, o plan.Observed, now time.Time) plan.Plan {
	return computeWith(d, o, fleet.Permission{}, now)
}

// granted is the permission to replace an interface.
var granted = fleet.Permission{Granted: true}

func computeWith(d render.Declared, o plan.Observed, replace fleet.Permission, now time.Time) plan.Plan {
	rendered := render.Interfaces(d, render.Evidence{}, o, now).Desired
	return plan.Compute(fleet.Next(rendered, o, now).Decide(rendered, replace), o, now)
}

// drive plans and executes until a plan has no actions and no requeue, and returns the last plan.
func (w *minimalEC2) drive(d render.Declared, ledger identity.Generations) (plan.Plan, identity.Generations) {
	for range 50 {
		p := compute(d, w.observe(ledger), w.now)
		ledger = p.Ledger
		for _, action := range p.Actions {
			w.apply(action)
		}
		if len(p.Actions) == 0 && p.RequeueAt.IsZero() {
			return p, ledger
		}
		w.pass(5 * time.Second)
		if len(p.Actions) == 0 {
			w.now = w.now.Add(inventory.VisibilityWindow)
		}
	}
	panic("the plan never settles:\n" + compute(d, w.observe(ledger), w.now).Explain())
}

// follow plans and executes the given number of times with a pause in between, and returns the last plan. Interfaces
// may be replaced.
func (w *minimalEC2) follow(d render.Declared, ledger identity.Generations, times int, pause time.Duration) plan.Plan {
	var p plan.Plan
	for range times {
		p = computeWith(d, w.observe(ledger), granted, w.now)
		ledger = p.Ledger
		for _, action := range p.Actions {
			w.apply(action)
		}
		w.pass(pause)
	}
	return p
}

func spec(groups ...string) eni.Spec {
	if len(groups) == 0 {
		groups = []string{"sg-1"}
	}
	return eni.Spec{Description: "d", Groups: groups, SourceDestCheck: true, DeleteOnTermination: true}
}

func desiredInterface(ordinal, device int, subnets ...string) plan.DesiredInterface {
	return plan.DesiredInterface{Ordinal: ordinal, Subnets: subnets, Slot: eni.Slot{Device: device}, Spec: spec()}
}

func claim(name string, interfaces ...plan.DesiredInterface) render.Claim {
	c := render.Claim{NodeENI: name, Owner: identity.Owner("uid-" + name), Mode: render.Ensure, Interfaces: interfaces, AllResolved: true}
	if len(interfaces) > 0 {
		c.FirstSlot = interfaces[0].Slot
	}
	return c
}

func desired(claims ...render.Claim) render.Declared {
	return render.Declared{Cluster: cluster, Node: nodeName, InstanceID: instance, Claims: claims}
}

func limits(n int) eni.Limits { return eni.Limits{Cards: []int{n}, Interfaces: n, IPv4: 15, IPv6: 15} }
