// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
)

// PodPrefixSize is the number of addresses of an IPv4 prefix that EC2 delegates to an interface: a /28 (EC2 user guide,
// "Assign prefixes to network interfaces").
const PodPrefixSize = 16

// PrefixDemand is how the number of IPv4 prefixes of an interface follows the pods that use them. The count of the
// interface's spec is the least number.
type PrefixDemand struct {
	// Pods is set if the NodeENI is a network for pods. Without a report of the agent its interfaces then keep their
	// prefixes.
	Pods bool
	// Max is the largest number of IPv4 prefixes; 0 if pods need none.
	Max int
	// Spare is the number of free addresses below which the interface gets another prefix.
	Spare int
}

// PodNetwork is the pod network of an interface, as the agent of the node reports it.
type PodNetwork struct {
	// Used and Free are numbers of addresses. Free excludes the addresses of draining prefixes.
	Used, Free int
	// Prefixes has the prefixes that the agent knows.
	Prefixes map[netip.Prefix]PodPrefix
	// Pods are pods with an address, as NAMESPACE/NAME; PodsOmitted is the number of further ones.
	Pods        []string
	PodsOmitted int
}

// PodPrefix is a prefix of a pod network.
type PodPrefix struct {
	Used int
	// Draining is set if new pods get no address of the prefix, Drained if no pod uses the prefix or can start to.
	Draining, Drained bool
}

// Prefixes returns the number of prefixes that an interface with the given ones must have: as many as the free addresses
// require, and not more than Max. A prefix that the report does not list yet counts as free, so that one shortage
// leads to one call.
func (d PrefixDemand) Prefixes(have []netip.Prefix, network PodNetwork) int {
	free := network.Free
	for _, prefix := range have {
		if _, known := network.Prefixes[prefix]; !known {
			free += PodPrefixSize
		}
	}
	if free >= d.Spare {
		return len(have)
	}
	missing := (d.Spare - free + PodPrefixSize - 1) / PodPrefixSize
	return max(len(have), min(len(have)+missing, d.Max))
}

// releasable returns the addresses that no pod uses or can start to use: with a report of the agent, the drained prefixes
// only.
func releasable(all eni.Addresses, network *PodNetwork) eni.Addresses {
	if network == nil {
		return all
	}
	inUse := func(prefix netip.Prefix) bool {
		known := network.Prefixes[prefix]
		return !known.Drained || known.Used > 0
	}
	all = all.Without(eni.Addresses{}) // the caller's stay as they are
	all.IPv4Prefixes = slices.DeleteFunc(all.IPv4Prefixes, inUse)
	all.IPv6Prefixes = slices.DeleteFunc(all.IPv6Prefixes, inUse)
	if network.Used > 0 && len(network.Prefixes) == 0 { // a pod has the interface itself
		all.SecondaryIPv4, all.IPv6 = nil, nil
	}
	return all
}

// pods names the pods with an address.
func (n PodNetwork) pods() string {
	names := strings.Join(n.Pods, ", ")
	switch {
	case names == "":
		return fmt.Sprintf("pods with %d addresses", n.Used)
	case n.PodsOmitted > 0:
		return fmt.Sprintf("%s and %d more", names, n.PodsOmitted)
	default:
		return names
	}
}

// podNetwork returns the report about an interface; nil without one.
func (o Observed) podNetwork(id string) *PodNetwork {
	if network, reported := o.PodNetworks[id]; reported {
		return &network
	}
	return nil
}

// demandFor returns the demand for addresses of a member's interface.
func (p *planner) demandFor(m *member, i eni.Interface) addressDemand {
	d := addressDemand{want: m.desired.Spec.AddressCounts, requested: p.Requested[i.ID], network: p.podNetwork(i.ID)}
	d.most = m.claim.PodPrefixes
	switch {
	case d.most.Pods && d.network == nil:
		d.network = &PodNetwork{}
		return d
	case d.most.Max == 0 || d.network == nil:
		return d
	}
	if limit := p.Limits.IPv4; limit > 0 {
		d.most.Max = min(d.most.Max, limit-1-len(i.SecondaryIPv4))
	}
	d.grown = d.most.Prefixes(i.IPv4Prefixes, *d.network)
	return d
}

// waitsForPods reports whether pods use an interface that is being removed, and sets the member's reason.
func (p *planner) waitsForPods(m *member) bool {
	network := p.podNetwork(m.record.ID)
	if p.ended || network == nil || network.Used == 0 {
		return false
	}
	m.Why = Problem{InUseByPods, fmt.Sprintf("%s is to be removed (%s), and is not detached while pods have addresses of it: %s; delete or move the pods",
		m.record.ID, m.removeReason, network.pods())}
	p.requeueAt(p.now.Add(foreignSlotRecheck))
	return true
}
