// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/message"
)

// OutsideCluster returns the problem of an instance that has none of the tags, and so gets no interfaces. If tags is
// empty, every instance belongs to the cluster.
func OutsideCluster(instance eni.Instance, tags []eni.InstanceTag) *Problem {
	if len(tags) == 0 || slices.ContainsFunc(tags, func(t eni.InstanceTag) bool { return t.On(instance.Tags) }) {
		return nil
	}
	return &Problem{InstanceOutsideCluster, message.OutsideCluster(instance.ID, tags)}
}

// outsideCluster is [OutsideCluster] for the plan's instance. Only a fresh read has its tags.
func (p *planner) outsideCluster() *Problem {
	if p.Snapshot == nil {
		return nil
	}
	return OutsideCluster(p.Snapshot.Instance, p.InstanceTags)
}

// FilledBy reports whether an interface of the instance that has no owner is in a subnet and at the slot of the desired
// one, as the published Multus functions leave interfaces. Creating another would give the node two in one subnet.
func FilledBy(want eni.Settings, i eni.Interface, instanceID string) bool {
	return identity.HasNoOwner(i.Tags) && i.AttachedTo(instanceID) && i.Attachment.Slot == want.Slot &&
		want.Slot != eni.Primary && want.Allows(i.SubnetID)
}

// notImported returns the problem of an interface without an owner that fills the desired one, or nil. The planner
// never changes foreign interfaces, so a person must import the interface or remove it.
func (p *planner) notImported(want eni.Settings) *Problem {
	if p.Snapshot == nil {
		return nil
	}
	n := slices.IndexFunc(p.Snapshot.Interfaces, func(i eni.Interface) bool { return FilledBy(want, i, p.instanceID) })
	if n < 0 {
		return nil
	}
	i := p.Snapshot.Interfaces[n]
	return &Problem{NotImported, message.NotImported(i.ID, i.SubnetID, want.Slot)}
}
