// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// Launch interfaces belong to their instance: they are updated in place, and never detached or deleted. One in the slot
// and an allowed subnet of a desired interface serves as that.

// InPlaceUpdate is the desired attributes of a launch interface; nil attributes stay as they are.
type InPlaceUpdate struct {
	InterfaceID string
	// Owner is the AWSNodeTemplate, by name and UID.
	Owner, OwnerUID            string
	Description                *string
	Groups                     []string
	DeleteOnTermination        *bool
	IPv4Prefixes, IPv6Prefixes *int
	// Tags are added to those of the interface.
	Tags map[string]string
}

// adoptedGeneration is the generation of a member with an adopted launch interface. Generations that are times are
// later.
const adoptedGeneration = 1

// launchedFor returns the launch interface in the slot of the desired one, if no other desired one has it.
func (p *planner) launchedFor(wish *DesiredInterface) *eni.Interface {
	for n := range p.Launched {
		i := &p.Launched[n]
		taken := slices.ContainsFunc(p.members, func(m *member) bool { return m.launchInterface != nil && m.launchInterface.ID == i.ID })
		if !taken && i.AttachedTo(p.InstanceID) && i.Attachment.Slot == wish.Slot && i.Attachment.Slot != eni.Primary && wish.allows(i.SubnetID) {
			return i
		}
	}
	return nil
}

// adoptLaunchInterfaces makes launch interfaces members. Their entry in the ledger keeps the node's state.
func (p *planner) adoptLaunchInterfaces(claim *Claim, wish *DesiredInterface, key identity.Key, born *eni.Interface) {
	m := &member{claim: claim, desired: wish, launchInterface: born, Member: Member{
		Member: p.identity(claim, key), Desired: true, Interface: born, RequestedSlot: wish.Slot, Slot: wish.Slot,
	}}
	if m.Generation == 0 {
		m.Generation = adoptedGeneration
	}
	p.add(m)
}

// retainLaunchInterfaces updates an adopted launch interface in place. Its tags stay as they are: they say that it is
// deleted with its instance.
func (p *planner) retainLaunchInterfaces(m *member) {
	if p.plan.Ledger[m.Key] < m.Generation {
		p.plan.Ledger[m.Key] = m.Generation
	}
	m.Phase = phaseOf(*m.launchInterface)
	if p.mustWait(m) {
		return
	}
	wish := *m.desired
	if m.claim.SecurityGroupProblem != nil {
		wish.Spec.Groups = nil
	}
	m.explainGroups(*m.launchInterface)
	todo := slices.DeleteFunc(changes(wish, nil, *m.launchInterface, p.demandFor(m, *m.launchInterface)), isTags)
	p.plan.Actions = append(p.plan.Actions, p.withoutReverted(m, *m.launchInterface, p.now, todo)...)
	m.explainAddresses(p.demandFor(m, *m.launchInterface))
	if m.Phase != Attached {
		p.requeueAt(p.now.Add(pollRecheck))
	}
}

// updateLaunchInterfaces updates what differs from the AWSNodeTemplate. The attributes of an adopted interface are the
// NodeENI's.
func (p *planner) updateLaunchInterfaces() {
	for _, mend := range p.InPlaceUpdates {
		n := slices.IndexFunc(p.Launched, func(i eni.Interface) bool { return i.ID == mend.InterfaceID && i.AttachedTo(p.InstanceID) })
		isAdopted := slices.ContainsFunc(p.members, func(m *member) bool { return m.launchInterface != nil && m.launchInterface.ID == mend.InterfaceID })
		if n < 0 || isAdopted || p.ended {
			continue
		}
		slot := p.Launched[n].Attachment.Slot
		m := &member{Member: Member{Member: identity.Member{
			Cluster: p.Cluster, NodeENI: mend.Owner, Node: p.Node, InstanceID: p.InstanceID,
			Key: identity.Key{NodeENIUID: mend.OwnerUID, Ordinal: slot.Card<<8 | slot.Device},
		}}}
		if p.mustWait(m) {
			continue
		}
		todo := p.withoutThrottledTags(m, mend.attributes(p.Launched[n], addressDemand{requested: p.Requested[p.Launched[n].ID], network: p.podNetwork(p.Launched[n].ID)}))
		p.plan.Actions = append(p.plan.Actions, p.withoutReverted(m, p.Launched[n], p.now, todo)...)
	}
}

// attributes are those of the interface that differ from the update. The counts of the addresses are those of the
// update.
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
