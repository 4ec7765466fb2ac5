// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podaddress finds the addresses that pods bring up themselves on links of interfaces, and decides what the
// agent of the node writes about them.
//
// A pod's link has exactly one interface's link as its lower link, which the kernel names. The mapping therefore needs
// no MAC addresses, which all links of an IPVLAN share, and no knowledge of pods. Only the link of an interface that is
// itself in a pod's namespace has no lower link: its MAC address tells, since no pod can make a physical link.
package podaddress

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/podnet"
)

// Namespace is the network namespace of a pod, as the kernel shows it to the node's namespace.
type Namespace struct {
	// ID is the node's ID of the namespace.
	ID    int
	Links []Link
}

// Link is a link in the namespace of a pod.
type Link struct {
	Index int
	// HostLink is the index of its lower link on the node; 0 for none.
	HostLink int
	// Lower is the index of its lower link in the same namespace; 0 for none.
	Lower int
	// OnNode is set if its lower link or its peer is on the node.
	OnNode bool
	// Physical is set for the link of a device. A pod with NET_ADMIN can make virtual links with any MAC address.
	Physical bool
	// MAC is the permanent MAC address, if the link has one.
	MAC string
	// Addresses are in the kernel's order.
	Addresses []netip.Addr
}

// Interface is an interface of the node whose addresses follow pods.
type Interface struct {
	ID string
	// Link is the index of its link on the node; 0 while the link is in a pod's namespace.
	Link int
	MAC  string
	// Ranges are the declared ranges.
	Ranges []netip.Prefix
	// Own are the addresses that the interface has anyway: its primary address and its prefixes.
	Own []netip.Prefix
	// Subnet is the subnet of the interface. No pod can have an address that EC2 reserves in it.
	Subnet netip.Prefix
}

// Address is an address that a pod has on a link of an interface.
type Address struct {
	Address netip.Addr
	// PodIP is the first address of the same namespace on a link that leads to the node and is on no interface; invalid if
	// there is none. It is what the pod says of itself: with NET_ADMIN it can change its addresses.
	PodIP netip.Addr
	// Namespace is the node's ID of the pod's namespace.
	Namespace int
}

// Find returns the IPv4 addresses that pods have on links of each interface, by its ID, in order. An address that
// several pods have is there once for each of them. It includes addresses outside the declared ranges, but not the
// interface's own and those that EC2 reserves. An interface on which pods have links without such an address is there
// without addresses.
func Find(namespaces []Namespace, interfaces []Interface) map[string][]Address {
	found := map[string][]Address{}
	for _, namespace := range namespaces {
		owners := map[int]string{}
		for _, link := range namespace.Links {
			if i := namespace.interfaceOf(link, interfaces); i != nil {
				owners[link.Index] = i.ID
			}
		}
		podIP := namespace.podIP(owners)
		for _, link := range namespace.Links {
			at := slices.IndexFunc(interfaces, func(i Interface) bool { return i.ID == owners[link.Index] })
			if at < 0 {
				continue
			}
			i := interfaces[at]
			if found[i.ID] == nil {
				found[i.ID] = []Address{}
			}
			for _, address := range link.Addresses {
				if address.Is4() && !containsAddress(i.Own, address) && !podnet.Reserved(i.Subnet, address) {
					found[i.ID] = append(found[i.ID], Address{address, podIP, namespace.ID})
				}
			}
		}
	}
	for id, addresses := range found {
		slices.SortFunc(addresses, func(a, b Address) int {
			return cmp.Or(a.Address.Compare(b.Address), a.PodIP.Compare(b.PodIP), cmp.Compare(a.Namespace, b.Namespace))
		})
		found[id] = slices.Compact(addresses)
	}
	return found
}

// interfaceOf returns the interface below a link, directly or through other links of its namespace, or nil.
func (n Namespace) interfaceOf(link Link, interfaces []Interface) *Interface {
	for range len(n.Links) { // a chain is no longer
		for at, i := range interfaces {
			if link.HostLink != 0 && link.HostLink == i.Link || link.Physical && i.Link == 0 && link.MAC == i.MAC {
				return &interfaces[at]
			}
		}
		lower := slices.IndexFunc(n.Links, func(other Link) bool { return link.Lower != 0 && other.Index == link.Lower })
		if lower < 0 {
			return nil
		}
		link = n.Links[lower]
	}
	return nil
}

// podIP returns the first address on a link to the node that is on no interface, IPv4 before IPv6. Links that end in
// the namespace have addresses of services, or any that the pod likes. The kernel appends an address that a link gets
// later.
func (n Namespace) podIP(owners map[int]string) (first netip.Addr) {
	for _, link := range n.Links {
		if owners[link.Index] != "" || !link.OnNode {
			continue
		}
		for _, address := range link.Addresses {
			if address.IsGlobalUnicast() && (!first.IsValid() || first.Is6() && address.Is4()) {
				first = address
			}
		}
	}
	return first
}

func containsAddress(ranges []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(address) })
}

// Presence is an address that a pod of the node has.
type Presence struct {
	Address netip.Addr
	// Arrival is larger than that of every earlier presence of the node.
	Arrival int64
	// Since is when the agent first saw the address.
	Since time.Time
	// Came is set until the agent has written that it saw the address come up. It is not set for addresses that pods had
	// when the agent started.
	Came bool
	// Declared is set if the ranges contain the address now.
	Declared bool
	PodIP    netip.Addr
	// Namespace is the node's ID of the pod's namespace. Presences of an earlier agent have none until the address is
	// found.
	Namespace int
	// Lease is that of the address; nil if a pod brought the address up itself.
	Lease *podnet.Lease
}

// Seen returns what the agent sees of the address, given its object. An address whose claim may be written did not come
// up since: the pod was the holder, and may have been displaced. A lease that is older than that of the holder did not
// come up either: the agent is late, because it or its node was away.
func (p Presence) Seen(o Object) Seen {
	seen := Seen{Present: true, Came: p.Came, Declared: p.Declared, Leased: p.Lease != nil}
	if !seen.Leased {
		return seen
	}
	if claim := p.Lease.Claim; claim != nil {
		seen.Came = seen.Came && o.Exists && o.UID == claim.Object && o.Sequence < claim.Sequence
	}
	seen.Came = seen.Came && (o.Holder.Node == "" || !o.Since.After(p.Since))
	return seen
}

// Leased returns the presences of addresses that pods asked for, given the last ones and the leases. A lease is proof
// that the pod has the address, also for an agent that has just started.
func Leased(last []Presence, leases []podnet.Lease, ranges []netip.Prefix, arrivals *Arrivals) (present []Presence) {
	for _, l := range leases {
		at := slices.IndexFunc(last, func(p Presence) bool { return p.Address == l.Address && p.Lease.Is(l.Holder) })
		var presence Presence
		if at >= 0 {
			presence = last[at]
		} else {
			arrivals.last++
			presence = Presence{Address: l.Address, Arrival: arrivals.last, Since: l.PodSince(), Came: true, Lease: &l}
		}
		presence.Declared = containsAddress(ranges, l.Address)
		present = append(present, presence)
	}
	return present
}

// Without returns the found addresses without those of the presences.
func Without(found []Address, present []Presence) []Address {
	return slices.DeleteFunc(slices.Clone(found), func(f Address) bool {
		return slices.ContainsFunc(present, func(p Presence) bool { return p.Address == f.Address })
	})
}

// of reports whether the address that a pod has is the one of the presence, and not of another pod with the same
// address.
func (p Presence) of(f Address) bool { return p.Namespace == f.Namespace && p.PodIP == f.PodIP }

// Admit returns the addresses without those that the agent does not write yet, and how many have to wait. The
// argument take decides about an address that came up; an address that several pods have needs the permission of one.
func Admit(
	last []Presence, found []Address, ranges []netip.Prefix, take func(Address) bool,
) (admitted []Address, waiting int) {
	live := map[netip.Addr]bool{}
	for _, presence := range last {
		live[presence.Address] = true
	}
	refused := map[netip.Addr]bool{}
	for _, f := range found {
		switch {
		case live[f.Address], !containsAddress(ranges, f.Address):
			admitted = append(admitted, f)
		case take(f):
			live[f.Address] = true
			delete(refused, f.Address)
			admitted = append(admitted, f)
		default:
			refused[f.Address] = true
		}
	}
	return admitted, len(refused)
}

// Arrivals numbers the presences of a node.
type Arrivals struct {
	last int64
	// Started is set once the agent has seen the addresses of all pods. Those that it sees later came up.
	Started bool
}

// Present returns the presences on one interface in numerical order, given the last ones and the addresses that pods
// have now. An address outside the ranges counts only if it was present before: an edit of the ranges takes no address
// from a pod. Of several pods with one address, the presence stays with the pod that it was of.
func Present(
	last []Presence, found []Address, ranges []netip.Prefix, arrivals *Arrivals, now time.Time,
) (present []Presence) {
	before := map[netip.Addr]Presence{}
	for _, presence := range last {
		before[presence.Address] = presence
	}
	pods := map[netip.Addr]Address{}
	for _, f := range found {
		if _, another := pods[f.Address]; !another || before[f.Address].of(f) {
			pods[f.Address] = f
		}
	}
	for _, address := range slices.SortedFunc(maps.Keys(pods), netip.Addr.Compare) {
		f := pods[address]
		presence, known := before[address]
		switch {
		case known:
			presence.PodIP, presence.Namespace = f.PodIP, f.Namespace
		case containsAddress(ranges, address):
			arrivals.last++
			presence = Presence{Address: address, Arrival: arrivals.last, Since: now, Came: arrivals.Started,
				PodIP: f.PodIP, Namespace: f.Namespace}
		default:
			continue
		}
		presence.Declared = containsAddress(ranges, address)
		present = append(present, presence)
	}
	return present
}

// Partial returns the presences after an observation that omits namespaces. An absent address proves nothing then, so
// presences that were not found stay as they were.
func Partial(last, present []Presence) []Presence {
	all := map[netip.Addr]Presence{}
	for _, presence := range slices.Concat(last, present) {
		all[presence.Address] = presence
	}
	return slices.SortedFunc(maps.Values(all), compareAddresses)
}

// Limit returns at most the given number of presences, in numerical order. It omits the newest of the pods with the
// most first, so that a pod with many addresses does not displace another pod's.
func Limit(present []Presence, most int) []Presence {
	kept := slices.SortedFunc(slices.Values(present), func(a, b Presence) int { return cmp.Compare(a.Arrival, b.Arrival) })
	type pod struct {
		namespace int
		ip        netip.Addr
	}
	earlier := map[pod]int{}
	rank := map[netip.Addr]int{}
	for _, presence := range kept {
		of := pod{presence.Namespace, presence.PodIP}
		rank[presence.Address] = earlier[of]
		earlier[of]++
	}
	slices.SortStableFunc(kept, func(a, b Presence) int { return cmp.Compare(rank[a.Address], rank[b.Address]) })
	kept = kept[:min(most, len(kept))]
	slices.SortFunc(kept, compareAddresses)
	return kept
}

func compareAddresses(a, b Presence) int { return a.Address.Compare(b.Address) }
