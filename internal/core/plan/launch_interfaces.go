// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// Launch interfaces belong to their instance: they are updated in place, and never detached or deleted. A launch
// interface in the slot and an allowed subnet of a desired interface serves that one; see package render.

// InPlaceUpdate is the desired attributes of a launch interface; nil attributes stay as they are.
type InPlaceUpdate struct {
	InterfaceID string
	// Owner is the AWSNodeTemplate, by name and UID.
	Owner, OwnerUID            string
	Description                *string
	Groups                     []string
	DeleteOnTermination        *bool
	IPv4Prefixes, IPv6Prefixes *int
	// ConnectionTracking and ENAExpress leave as they are what they do not set.
	ConnectionTracking eni.ConnectionTracking
	ENAExpress         eni.ENAExpress
	// Tags are added to those of the interface.
	Tags map[string]string
}

// retainLaunchInterface updates an adopted launch interface in place, except its tags: they say that EC2 deletes it
// with its instance.
func (p *planner) retainLaunchInterface(s step) step {
	m, i := s.m, *s.m.Launched
	s = s.record()
	if backoff := p.backoff(m); backoff != nil {
		return s.wait(*backoff)
	}
	desired := *m.Settings
	if m.SecurityGroupProblem != nil {
		desired.Spec.Groups = nil
	}
	todo := slices.DeleteFunc(p.attributes(m, desired, nil, i), isTags)
	s = p.update(s.explainGroups(i), i, p.now, todo)
	s = s.explainAddresses(p.demandFor(m, i)).explainENA()
	if s.Phase != Attached {
		return s.requeue(p.now.Add(pollRecheck))
	}
	return s
}

// updateLaunchInterface updates the attributes that differ from the AWSNodeTemplate. For an adopted interface, the
// NodeENI decides instead.
func (p *planner) updateLaunchInterface(update InPlaceUpdate) step {
	n := slices.IndexFunc(p.Launched, func(i eni.Interface) bool {
		return i.ID == update.InterfaceID && i.AttachedTo(p.InstanceID)
	})
	isAdopted := slices.ContainsFunc(p.members, func(m *Interface) bool {
		return m.Launched != nil && m.Launched.ID == update.InterfaceID
	})
	if n < 0 || isAdopted || p.ended {
		return step{}
	}
	i := p.Launched[n]
	m := &Interface{Member: Member{Member: identity.Member{
		Cluster: p.Cluster, NodeENI: update.Owner, Node: p.Node, InstanceID: p.InstanceID,
		Key: identity.Key{Owner: identity.Owner(update.OwnerUID),
			Ordinal: i.Attachment.Slot.Card<<8 | i.Attachment.Slot.Device},
	}}}
	s := m.begin(phaseOf(i))
	if backoff := p.backoff(m); backoff != nil {
		return s.wait(*backoff)
	}
	// A NodeENI may have adopted the interface as a network for pods before.
	d := addressDemand{requested: p.Stored[i.ID].Requested, countedAt: p.countedAt(m)}
	d.network, d.recheckAt = p.usedNetwork(i.ID, false)
	if !d.recheckAt.IsZero() {
		s = s.requeue(d.recheckAt)
	}
	if !d.countedAt.IsZero() && (update.IPv4Prefixes != nil || update.IPv6Prefixes != nil) {
		s = s.requeue(d.countedAt)
	}
	return p.update(s, i, p.now, update.attributes(i, d))
}

// attributes returns the attributes of the interface that differ from the update. The argument addresses has the counts
// of the update.
func (d InPlaceUpdate) attributes(i eni.Interface, addresses addressDemand) []Attribute {
	var wanted, todo []Attribute
	if d.DeleteOnTermination != nil {
		wanted = append(wanted, DeleteOnTermination{AttachmentID: i.Attachment.ID, Enabled: *d.DeleteOnTermination})
	}
	if d.Description != nil {
		wanted = append(wanted, Description(*d.Description))
	}
	if len(d.Groups) > 0 {
		wanted = append(wanted, Groups(d.Groups))
	}
	if !d.ConnectionTracking.IsZero() {
		wanted = append(wanted, ConnectionTracking{To: d.ConnectionTracking})
	}
	if d.ENAExpress != "" {
		wanted = append(wanted, ENAExpress{AttachmentID: i.Attachment.ID, Setting: d.ENAExpress})
	}
	if len(d.Tags) > 0 {
		wanted = append(wanted, Tags(d.Tags))
	}
	counts := i.Counts()
	if d.IPv4Prefixes != nil {
		counts.IPv4Prefixes = *d.IPv4Prefixes
	}
	if d.IPv6Prefixes != nil {
		counts.IPv6Prefixes = *d.IPv6Prefixes
	}
	addresses.want = counts
	for _, a := range append(wanted, addresses.changes(i.Addresses)...) {
		if !a.IsSatisfiedBy(i) {
			todo = append(todo, a)
		}
	}
	return todo
}
