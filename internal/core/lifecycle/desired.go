// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"slices"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
	"github.com/multieni/multieni/internal/core/selector"
)

// Desired is what the networks request for one instance.
type Desired struct {
	render.Declared
	// Served are interfaces that already serve a network, so that no second one is created: those of NodeENIs, and
	// those without an owner.
	Served []eni.Interface
}

// Desired returns what the networks request for the instance of a snapshot. found holds the matches of the selectors of
// each network, in the order of the networks.
func (c Config) Desired(look eni.InstanceSnapshot, found []selector.Found) Desired {
	d := Desired{Declared: render.Declared{
		Cluster: c.Cluster, Node: cmp.Or(look.Instance.PrivateDNSName, look.Instance.ID), InstanceID: look.Instance.ID,
	}}
	taken := map[string]bool{}
	for n, network := range c.Networks {
		claim := network.claim(found[n], selector.Location{Zone: look.Instance.Zone, VPCID: look.Instance.VPCID})
		claim.Interfaces = slices.DeleteFunc(claim.Interfaces, func(w plan.DesiredInterface) bool {
			i := c.servedBy(look, claim.Owner, w, taken)
			if i == nil {
				return false
			}
			taken[i.ID] = true
			d.Served = append(d.Served, *i)
			return true
		})
		d.Claims = append(d.Claims, claim)
	}
	return d
}

// claim returns the claim of the network at a location.
func (n Network) claim(found selector.Found, at selector.Location) render.Claim {
	claim := render.Claim{
		NodeENI: n.Name, Owner: identity.NetworkOwner(n.Name), Mode: render.Ensure,
		FirstSlot: eni.Slot{Card: n.NetworkCardIndex, Device: n.DeviceIndex}, ExactSlot: n.DeviceIndexPolicy == "Exact",
	}
	claim.Resolve(found, at, n.spec)
	// An instance that joins keeps an interface in excess of the desired ones: no user error is certain here.
	claim.AllResolved = false
	return claim
}

// spec returns the desired interface of a placement.
func (n Network) spec(p selector.Placement, groupIDs []string) eni.Spec {
	spec := eni.Spec{
		Description: n.Description, Groups: groupIDs, Tags: n.tags(), SourceDestCheck: *n.SourceDestCheck,
		DeleteOnTermination: *n.DeleteOnTermination, LowestFree: n.IPv4Allocation == LowestFree,
	}
	without := func(s eni.Subnet) bool { return !s.HasIPv6 }
	if n.IPv6 && !slices.ContainsFunc(p.Candidates, without) {
		spec.IPv6, spec.MatchIPv4Suffix = 1, spec.LowestFree
	}
	return spec
}

// servedBy returns an interface that serves a network: one of a NodeENI that is attached or attaching, in a desired
// subnet; or one without an owner, unless the network has its own interface there already.
func (c Config) servedBy(
	look eni.InstanceSnapshot, network identity.Owner, w plan.DesiredInterface, taken map[string]bool,
) *eni.Interface {
	var unowned *eni.Interface
	own := false
	for n := range look.Interfaces {
		i := &look.Interfaces[n]
		if taken[i.ID] || !slices.Contains(w.Subnets, i.SubnetID) {
			continue
		}
		member, verdict := identity.Read(c.Cluster, i.Tags)
		switch ours := verdict == identity.Owned && member.InstanceID == look.Instance.ID; {
		case ours && !member.Owner.IsNetwork():
			return i
		case ours && member.Owner == network:
			own = true
		case w.FilledBy(*i, look.Instance.ID):
			unowned = i
		}
	}
	if own {
		return nil
	}
	return unowned
}

// required reports whether a network decides whether an instance is ready.
func (c Config) required(name string) bool {
	return slices.ContainsFunc(c.Networks, func(n Network) bool { return n.Name == name && *n.Required })
}
