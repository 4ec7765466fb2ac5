// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"maps"
	"slices"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
)

// TerminationActions returns the actions for the interfaces of an instance that waits for its termination. Attached
// interfaces stay until the end, because workloads may still be leaving, and EC2 deletes them with the instance.
// Unattached ones are deleted.
func TerminationActions(owned []inventory.Record) []plan.Action {
	var actions []plan.Action
	for _, r := range owned {
		a := r.Attachment
		switch {
		case !r.Member.Owner.IsNetwork():
		case a != nil && r.AttachedTo(r.Member.InstanceID) && !a.DeleteOnTermination:
			actions = append(actions, plan.Change{
				Member: r.Member, InterfaceID: r.ID, To: plan.DeleteOnTermination{AttachmentID: a.ID, Enabled: true},
			})
		case a == nil && r.Status == eni.Available:
			actions = append(actions, plan.Delete{Member: r.Member, InterfaceID: r.ID, Why: "its instance is being terminated"})
		}
	}
	return actions
}

// IsRemoved reports whether an interface belongs to a network under Removed.
func (c Config) IsRemoved(r inventory.Record) bool {
	return slices.ContainsFunc(c.Removed, func(name string) bool { return r.Member.Owner == identity.NetworkOwner(name) })
}

// Unlisted counts the interfaces of networks that the configuration does not name, by network.
func (c Config) Unlisted(networks map[string]int) map[string]int {
	unlisted := maps.Clone(networks)
	maps.DeleteFunc(unlisted, func(name string, _ int) bool {
		return slices.Contains(c.Removed, name) || slices.ContainsFunc(c.Networks, func(n Network) bool {
			return n.Name == name
		})
	})
	return unlisted
}

// RollbackActions returns the actions that remove interfaces: those that an instance cannot use without the others, or
// those under Removed. Each interface gets the one call that EC2 can execute next, if any.
func RollbackActions(owned []inventory.Record, undone func(inventory.Record) bool, why string) []plan.Action {
	var actions []plan.Action
	for _, r := range owned {
		a := r.Attachment
		switch {
		case !r.Member.Owner.IsNetwork() || !undone(r):
		case a == nil && r.Status == eni.Available:
			actions = append(actions, plan.Delete{Member: r.Member, InterfaceID: r.ID, Why: why})
		case a != nil && r.AttachedTo(r.Member.InstanceID) && a.Status != eni.AttachmentDetaching:
			actions = append(actions, plan.Detach{Member: r.Member, InterfaceID: r.ID, AttachmentID: a.ID, Why: why})
		}
	}
	return actions
}
