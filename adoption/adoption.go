// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package adoption finds out which member of a NodeENI an interface is that another controller made for the same NodeENI:
// the aws-multi-eni-controller, whose objects are of the same kind and whose interfaces carry the names of NodeENI and node
// in tags. Given our tags, such an interface is taken over as it is, attached and in use.
package adoption

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/multieni/multieni/eni"
	"github.com/multieni/multieni/ownership"
	"github.com/multieni/multieni/plan"
)

// The tags of the other controller's interfaces.
const (
	TagManagedBy = "kubernetes.io/cluster/managed-by"
	ManagedBy    = "nodeeni-controller"
	TagNodeENI   = "NodeENI"
	TagNode      = "Node"
)

// Match is an interface with the member it becomes.
type Match struct {
	Interface eni.Interface
	Member    ownership.Member
}

// Passed is an interface that stays as it is, and why.
type Passed struct {
	Interface eni.Interface
	Why       string
}

// Outcome is what becomes of interfaces.
type Outcome struct {
	Matches []Match
	Passed  []Passed
}

// Find says which members the interfaces attached to an instance become. The desired value holds the claims of all
// NodeENIs on the instance. Generation is given to every member that is found.
func Find(d plan.Desired, interfaces []eni.Interface, generation int64) Outcome {
	var o Outcome
	taken := map[ownership.Key]bool{}
	sorted := slices.SortedFunc(slices.Values(interfaces), func(a, b eni.Interface) int {
		return cmp.Or(eni.CompareSlots(slotOf(a), slotOf(b)), eni.CompareInterfaces(a, b))
	})
	for _, i := range sorted {
		if i.Tags[TagManagedBy] != ManagedBy {
			continue
		}
		member, why := find(d, i, taken)
		if why != "" {
			o.Passed = append(o.Passed, Passed{i, why})
			continue
		}
		member.Generation = generation
		taken[member.Key] = true
		o.Matches = append(o.Matches, Match{i, member})
	}
	return o
}

func find(d plan.Desired, i eni.Interface, taken map[ownership.Key]bool) (member ownership.Member, why string) {
	name := i.Tags[TagNodeENI]
	if i.Tags[ownership.TagCluster] != "" {
		return member, "it carries multieni's tags already"
	}
	if !i.AttachedTo(d.InstanceID) {
		return member, "it is not attached, so nothing says that it is this cluster's"
	}
	at := slices.IndexFunc(d.Claims, func(c plan.Claim) bool { return c.NodeENI == name })
	if at < 0 {
		return member, fmt.Sprintf("there is no NodeENI %q", name)
	}
	claim := d.Claims[at]
	if claim.Standing != plan.Wanted {
		return member, fmt.Sprintf("NodeENI %s does not want it: %s", name, claim.Why)
	}
	for _, wish := range claim.Wishes {
		key := ownership.Key{NodeENIUID: claim.NodeENIUID, Ordinal: wish.Ordinal}
		if slices.Contains(wish.Subnets, i.SubnetID) && !taken[key] {
			return ownership.Member{Cluster: d.Cluster, NodeENI: name, Node: d.Node, InstanceID: d.InstanceID, Key: key}, ""
		}
	}
	return member, fmt.Sprintf("NodeENI %s wants no further interface in %s", name, i.SubnetID)
}

func slotOf(i eni.Interface) eni.Slot {
	if i.Attachment == nil {
		return eni.Slot{}
	}
	return i.Attachment.Slot
}
