// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package importer finds the member of a NodeENI or a network that an interface of another program can become. The
// program is the aws-multi-eni-controller, whose objects have the same kind and whose interfaces have the names of
// NodeENI and node in tags; or it is the published Multus functions, whose interfaces name no owner. The import writes
// our tags. The interface stays attached and in use.
package importer

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// The tags of the other controller's interfaces.
const (
	TagManagedBy = "kubernetes.io/cluster/managed-by"
	ManagedBy    = "nodeeni-controller"
	TagNodeENI   = "NodeENI"
	TagNode      = "Node"
)

// Match is an interface with the member that it becomes.
type Match struct {
	Interface eni.Interface
	Member    identity.Member
}

// Skipped is an interface that the import does not change, and why.
type Skipped struct {
	Interface eni.Interface
	Why       string
}

// Result is the outcome for the interfaces.
type Result struct {
	Matches []Match
	Passed  []Skipped
}

// Find returns the members that interfaces of the other controller on an instance become. The declared state has the
// claims of all NodeENIs on the instance. Every member that is found gets the generation.
func Find(d render.Declared, interfaces []eni.Interface, generation identity.Generation) Result {
	f := finder{Declared: d, generation: generation, taken: map[identity.Key]bool{}}
	for _, i := range bySlot(interfaces) {
		if i.Tags[TagManagedBy] == ManagedBy {
			f.named(i)
		}
	}
	return f.Result
}

// FindUnowned returns the members that interfaces without an owner can become. Interfaces of the published Multus
// functions are an example: their tags only make the VPC CNI ignore them. An interface at the desired subnet and slot
// comes before one in the subnet alone. The interfaces must be all that are attached to the instance: interfaces of
// ours occupy their members.
func FindUnowned(d render.Declared, interfaces []eni.Interface, generation identity.Generation) Result {
	f := finder{Declared: d, generation: generation, taken: map[identity.Key]bool{}}
	var unowned []eni.Interface
	for _, i := range bySlot(interfaces) {
		switch member, verdict := identity.Read(d.Cluster, i.Tags); {
		case verdict == identity.Owned && member.InstanceID == d.InstanceID:
			f.skip(member, i.SubnetID)
		case identity.HasNoOwner(i.Tags) && i.Tags[TagManagedBy] == "" && i.AttachedTo(d.InstanceID) &&
			slotOf(i) != eni.Primary:
			unowned = append(unowned, i)
		}
	}
	var elsewhere []eni.Interface
	for _, i := range unowned {
		if !f.match(i, func(w plan.DesiredInterface) bool { return w.FilledBy(i, d.InstanceID) }) {
			elsewhere = append(elsewhere, i)
		}
	}
	for _, i := range elsewhere {
		if !f.match(i, func(w plan.DesiredInterface) bool { return slices.Contains(w.Subnets, i.SubnetID) }) {
			f.Passed = append(f.Passed, Skipped{i,
				fmt.Sprintf("nothing wants a further interface in %s on %s", i.SubnetID, d.Node)})
		}
	}
	return f.Result
}

// finder is one search on an instance.
type finder struct {
	render.Declared
	Result
	generation identity.Generation
	taken      map[identity.Key]bool
}

// skip removes the desired interface for which an interface of ours already exists.
func (f *finder) skip(member identity.Member, subnetID string) {
	for _, claim := range f.Claims {
		for _, w := range claim.Interfaces {
			key := identity.Key{Owner: claim.Owner, Ordinal: w.Ordinal}
			if claim.Owner == member.Owner && slices.Contains(w.Subnets, subnetID) && !f.taken[key] {
				f.taken[key] = true
				return
			}
		}
	}
	f.taken[member.Key] = true
}

// match assigns the interface to the first free member that fits, and reports whether there is one.
func (f *finder) match(i eni.Interface, fits func(plan.DesiredInterface) bool) bool {
	for _, claim := range f.Claims {
		if claim.Mode == render.Ensure && f.adoptFor(claim, i, fits) {
			return true
		}
	}
	return false
}

func (f *finder) adoptFor(claim render.Claim, i eni.Interface, fits func(plan.DesiredInterface) bool) bool {
	for _, desired := range claim.Interfaces {
		key := identity.Key{Owner: claim.Owner, Ordinal: desired.Ordinal}
		if f.taken[key] || !fits(desired) {
			continue
		}
		f.taken[key] = true
		f.Matches = append(f.Matches, Match{i, identity.Member{
			Cluster: f.Cluster, NodeENI: claim.NodeENI, Node: f.Node, InstanceID: f.InstanceID, Key: key,
			Generation: f.generation,
		}})
		return true
	}
	return false
}

// named imports an interface whose tags name its NodeENI, or returns why not.
func (f *finder) named(i eni.Interface) {
	if why := f.namedOr(i); why != "" {
		f.Passed = append(f.Passed, Skipped{i, why})
	}
}

func (f *finder) namedOr(i eni.Interface) (why string) {
	name := i.Tags[TagNodeENI]
	if i.Tags[identity.TagCluster] != "" {
		return "it carries multieni's tags already"
	}
	if !i.AttachedTo(f.InstanceID) {
		return "it is not attached, so nothing says that it is this cluster's"
	}
	at := slices.IndexFunc(f.Claims, func(c render.Claim) bool { return c.NodeENI == name })
	if at < 0 {
		return fmt.Sprintf("there is no NodeENI %q", name)
	}
	claim := f.Claims[at]
	if claim.Mode != render.Ensure {
		return fmt.Sprintf("NodeENI %s does not want it: %s", name, claim.Why)
	}
	if !f.adoptFor(claim, i, func(w plan.DesiredInterface) bool { return slices.Contains(w.Subnets, i.SubnetID) }) {
		return fmt.Sprintf("NodeENI %s wants no further interface in %s", name, i.SubnetID)
	}
	return ""
}

// bySlot returns the interfaces with the lowest slot first.
func bySlot(interfaces []eni.Interface) []eni.Interface {
	return slices.SortedFunc(slices.Values(interfaces), func(a, b eni.Interface) int {
		return cmp.Or(eni.CompareSlots(slotOf(a), slotOf(b)), eni.CompareInterfaces(a, b))
	})
}

func slotOf(i eni.Interface) eni.Slot {
	if i.Attachment == nil {
		return eni.Slot{}
	}
	return i.Attachment.Slot
}
