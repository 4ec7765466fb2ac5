// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package importer finds the NetworkInterface of a NodeENI or a network that can take over an interface of another
// program. The program is the aws-multi-eni-controller, whose objects have the same kind and whose interfaces have the
// names of NodeENI and node in tags; or it is the published Multus functions, whose interfaces name no owner. The
// import writes our tags, among them the name of the object. The interface stays attached and in use.
package importer

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// The tags of the other controller's interfaces.
const (
	TagManagedBy = "kubernetes.io/cluster/managed-by"
	ManagedBy    = "nodeeni-controller"
	TagNodeENI   = "NodeENI"
	TagNode      = "Node"
)

// Declared is what NodeENIs or networks declare for one instance.
type Declared struct {
	Cluster, Node, InstanceID string
	NodeENIs                  []NodeENI
	// DecidedAt is when the import, or the attempt to create the interfaces, was decided; see [identity.NetworkUID].
	DecidedAt time.Time
}

// NodeENI is a NodeENI, or a network, with the interfaces that it declares for the instance.
type NodeENI struct {
	Name string
	// Why says why it wants no interface there; empty if it does.
	Why        string
	Interfaces []Wanted
}

// Wanted is one declared interface. If an object without an interface exists for it, Ordinal is that of the object.
type Wanted struct {
	Ordinal int
	eni.Settings
}

// Key returns the identity of an interface of a NodeENI or a network that has no object of its own yet.
func (d Declared) Key(name string, ordinal int) identity.Interface {
	return identity.Interface{
		Cluster: d.Cluster, UID: identity.NetworkUID(name, ordinal, d.DecidedAt), NodeENI: name, Node: d.Node,
		Name: identity.ObjectName(name, d.InstanceID, ordinal), InstanceID: d.InstanceID, Ordinal: ordinal,
	}
}

// Match is an interface with the identity that its tags get.
type Match struct {
	Interface eni.Interface
	Key       identity.Interface
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

// Find returns the identities that interfaces of the other controller on an instance get.
func Find(d Declared, interfaces []eni.Interface) Result {
	f := finder{Declared: d, taken: map[string]bool{}}
	for _, i := range bySlot(interfaces) {
		if i.Tags[TagManagedBy] == ManagedBy {
			f.named(i)
		}
	}
	return f.Result
}

// FindUnowned returns the identities that interfaces without an owner can get. Interfaces of the published Multus
// functions are an example: their tags only make the VPC CNI ignore them. An interface at the declared subnet and slot
// comes before one in the subnet alone. The interfaces must be all that are attached to the instance: interfaces of
// ours serve what they are for.
func FindUnowned(d Declared, interfaces []eni.Interface) Result {
	f := finder{Declared: d, taken: map[string]bool{}}
	var unowned []eni.Interface
	for _, i := range bySlot(interfaces) {
		switch tagged, verdict := identity.Read(d.Cluster, i.Tags); {
		case verdict == identity.Owned && tagged.InstanceID == d.InstanceID:
			f.skip(tagged, i.SubnetID)
		case identity.HasNoOwner(i.Tags) && i.Tags[TagManagedBy] == "" && i.AttachedTo(d.InstanceID) &&
			slotOf(i) != eni.Primary:
			unowned = append(unowned, i)
		}
	}
	var elsewhere []eni.Interface
	for _, i := range unowned {
		if !f.match(i, func(w Wanted) bool { return plan.FilledBy(w.Settings, i, d.InstanceID) }) {
			elsewhere = append(elsewhere, i)
		}
	}
	for _, i := range elsewhere {
		if !f.match(i, func(w Wanted) bool { return w.Allows(i.SubnetID) }) {
			f.Passed = append(f.Passed, Skipped{i,
				fmt.Sprintf("nothing wants a further interface in %s on %s", i.SubnetID, d.Node)})
		}
	}
	return f.Result
}

// finder is one search on an instance.
type finder struct {
	Declared
	Result
	// taken are the names of the objects that have an interface.
	taken map[string]bool
}

// skip removes the declared interface for which an interface of ours already exists.
func (f *finder) skip(tagged identity.Interface, subnetID string) {
	for _, n := range f.NodeENIs {
		for _, w := range n.Interfaces {
			name := f.Key(n.Name, w.Ordinal).Name
			if n.Name == tagged.NodeENI && w.Allows(subnetID) && !f.taken[name] {
				f.taken[name] = true
				return
			}
		}
	}
	f.taken[tagged.Name] = true
}

// match assigns the interface to the first declared one that fits, and reports whether there is one.
func (f *finder) match(i eni.Interface, fits func(Wanted) bool) bool {
	for _, n := range f.NodeENIs {
		if n.Why == "" && f.assign(n, i, fits) {
			return true
		}
	}
	return false
}

func (f *finder) assign(n NodeENI, i eni.Interface, fits func(Wanted) bool) bool {
	for _, w := range n.Interfaces {
		key := f.Key(n.Name, w.Ordinal)
		if f.taken[key.Name] || !fits(w) {
			continue
		}
		f.taken[key.Name] = true
		f.Matches = append(f.Matches, Match{i, key})
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
	at := slices.IndexFunc(f.NodeENIs, func(n NodeENI) bool { return n.Name == name })
	if at < 0 {
		return fmt.Sprintf("there is no NodeENI %q", name)
	}
	if n := f.NodeENIs[at]; n.Why != "" {
		return fmt.Sprintf("NodeENI %s does not want it: %s", name, n.Why)
	}
	if !f.assign(f.NodeENIs[at], i, func(w Wanted) bool { return w.Allows(i.SubnetID) }) {
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
