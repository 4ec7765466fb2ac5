// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
)

// model is a model of one instance in EC2. All of it has been known for long, so that the planner waits for nothing.
type model struct {
	cluster      string
	instance     eni.Instance
	limits       eni.Limits
	instanceTags []eni.InstanceTag
	interfaces   map[string]eni.Interface
	// createdFor has the object that each new interface was created for, and requested the addresses in answers to calls.
	createdFor map[string]identity.UID
	requested  map[string]eni.Addresses
	phases     map[string]plan.Phase
	now        time.Time
	serial     int
}

func newModel(cluster string, look eni.InstanceSnapshot, limits eni.Limits, now time.Time) *model {
	m := &model{cluster: cluster, instance: look.Instance, limits: limits, now: now,
		interfaces: map[string]eni.Interface{}, createdFor: map[string]identity.UID{},
		requested: map[string]eni.Addresses{}, phases: map[string]plan.Phase{}}
	for _, i := range look.Interfaces {
		m.interfaces[i.ID] = i.Clone()
	}
	return m
}

// observe reads the model as a controller reads EC2.
func (m *model) observe() plan.Facts {
	known := inventory.New(m.cluster)
	look := eni.InstanceSnapshot{At: m.now, Instance: m.instance}
	for _, id := range slices.Sorted(maps.Keys(m.interfaces)) {
		look.Interfaces = append(look.Interfaces, m.interfaces[id].Clone())
	}
	known.ObserveInterfaces(m.now, look.Interfaces...)
	records := known.Of(m.instance.ID)
	for n := range records {
		id := records[n].ID
		records[n].CreatedFor, records[n].Requested = m.createdFor[id], m.requested[id]
	}
	return plan.Facts{Interfaces: records, Launched: known.Launched(m.instance.ID), Snapshot: &look, Limits: m.limits,
		InstanceTags: m.instanceTags}
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

func (m *model) carryOut(calls []plan.Call) {
	for _, call := range calls {
		switch c := call.(type) {
		case plan.Create:
			m.create(c)
		case plan.Attach:
			m.change(c.InterfaceID, func(i eni.Interface) eni.Interface {
				i.Status = eni.InUse
				i.Attachment = &eni.Attachment{ID: "attachment of " + i.ID, InstanceID: m.instance.ID, Slot: c.Slot,
					Status: eni.AttachmentAttaching, ENAExpress: c.ENAExpress}
				return i
			})
		case plan.Detach:
			m.change(c.InterfaceID, func(i eni.Interface) eni.Interface {
				leaving := *i.Attachment
				leaving.Status = eni.AttachmentDetaching
				i.Attachment = &leaving
				return i
			})
		case plan.Delete:
			delete(m.interfaces, c.InterfaceID)
		case plan.Change:
			m.change(c.InterfaceID, func(i eni.Interface) eni.Interface {
				if more, ok := c.To.(plan.AssignAddresses); ok {
					return m.assign(i, more)
				}
				return c.To.Apply(i)
			})
		}
	}
}

func (m *model) change(id string, to func(eni.Interface) eni.Interface) {
	if i, known := m.interfaces[id]; known {
		m.interfaces[id] = to(i)
	}
}

func (m *model) create(c plan.Create) {
	m.serial++
	i := eni.Interface{
		ID: fmt.Sprintf("new interface %d", m.serial), Type: eni.Standard, Status: eni.Available,
		Description: c.Spec.Description,
		SubnetID:    c.SubnetID, VPCID: m.instance.VPCID, Zone: m.instance.Zone, Groups: slices.Clone(c.Spec.Groups),
		SourceDestCheck: true, Tags: maps.Clone(c.Tags), ConnectionTracking: c.Spec.ConnectionTracking,
	}
	m.createdFor[i.ID] = c.Key.UID
	counts := c.Spec.AddressCounts
	i = m.assign(i, plan.AssignAddresses{Family: plan.IPv4, Addresses: counts.SecondaryIPv4,
		Prefixes: counts.IPv4Prefixes})
	m.interfaces[i.ID] = m.assign(i, plan.AssignAddresses{Family: plan.IPv6, Addresses: counts.IPv6,
		Prefixes: counts.IPv6Prefixes})
}

// assign adds placeholders for the addresses that EC2 would choose, because only their number matters.
func (m *model) assign(i eni.Interface, more plan.AssignAddresses) eni.Interface {
	had := i.Addresses
	i = i.Clone()
	for range more.Addresses {
		if more.Family == plan.IPv4 {
			i.SecondaryIPv4 = append(i.SecondaryIPv4, m.nextIPv4())
		} else {
			i.IPv6 = append(i.IPv6, m.nextIPv6())
		}
	}
	for range more.Prefixes {
		if more.Family == plan.IPv4 {
			i.IPv4Prefixes = append(i.IPv4Prefixes, netip.PrefixFrom(m.nextIPv4(), 32))
		} else {
			i.IPv6Prefixes = append(i.IPv6Prefixes, netip.PrefixFrom(m.nextIPv6(), 128))
		}
	}
	m.requested[i.ID] = m.requested[i.ID].With(i.Without(had))
	return i
}

func (m *model) nextIPv4() netip.Addr {
	m.serial++
	return netip.AddrFrom4([4]byte{0, byte(m.serial >> 16), byte(m.serial >> 8), byte(m.serial)})
}

func (m *model) nextIPv6() netip.Addr {
	m.serial++
	return netip.AddrFrom16([16]byte{13: byte(m.serial >> 16), 14: byte(m.serial >> 8), 15: byte(m.serial)})
}
