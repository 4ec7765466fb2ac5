// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"maps"
	"slices"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
)

// TerminationCalls returns the calls for the interfaces of an instance that waits for its termination. Attached
// interfaces stay until the end, because workloads may still be leaving, and EC2 deletes them with the instance.
// Unattached ones are deleted.
func TerminationCalls(owned []inventory.Record) []plan.Call {
	var calls []plan.Call
	for _, r := range owned {
		a := r.Attachment
		switch {
		case !r.Tagged.UID.IsNetwork():
		case a != nil && r.AttachedTo(r.Tagged.InstanceID) && !a.DeleteOnTermination:
			calls = append(calls, plan.Change{
				Key: r.Tagged, InterfaceID: r.ID, To: plan.DeleteOnTermination{AttachmentID: a.ID, Enabled: true},
			})
		case a == nil && r.Status == eni.Available:
			calls = append(calls, plan.Delete{Key: r.Tagged, InterfaceID: r.ID, Why: "its instance is being terminated"})
		}
	}
	return calls
}

// IsRemoved reports whether an interface belongs to a network under Removed.
func (c Config) IsRemoved(r inventory.Record) bool {
	return slices.ContainsFunc(c.Removed, func(name string) bool { return isOf(r, name) })
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

// RollbackCalls returns the calls that remove interfaces: those that an instance cannot use without the others, or
// those under Removed. Each interface gets the one call that EC2 can execute next, if any.
func RollbackCalls(owned []inventory.Record, undone func(inventory.Record) bool, why string) []plan.Call {
	var calls []plan.Call
	for _, r := range owned {
		a := r.Attachment
		switch {
		case !r.Tagged.UID.IsNetwork() || !undone(r):
		case a == nil && r.Status == eni.Available:
			calls = append(calls, plan.Delete{Key: r.Tagged, InterfaceID: r.ID, Why: why})
		case a != nil && r.AttachedTo(r.Tagged.InstanceID) && a.Status != eni.AttachmentDetaching:
			calls = append(calls, plan.Detach{Key: r.Tagged, InterfaceID: r.ID, AttachmentID: a.ID, Why: why})
		}
	}
	return calls
}
