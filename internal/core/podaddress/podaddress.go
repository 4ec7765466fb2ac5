// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podaddress finds the addresses that pods bring up themselves on links of interfaces, and keeps the node's
// claims on them.
//
// A pod's link has exactly one interface's link as its lower link, which the kernel names. The mapping therefore needs
// no MAC addresses, which all links of an IPVLAN share, and no knowledge of pods.
package podaddress

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/podnet"
)

// Retention is how long a claim stays after the pod no longer has its address. A pod that restarts thus keeps its
// address in EC2.
const Retention = time.Minute

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
	Lower     int
	MAC       string
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
	// PodIP is an address of the same namespace on a link of no interface; invalid if there is none.
	PodIP netip.Addr
	// Namespace is the node's ID of the pod's namespace.
	Namespace int
}

// Find returns the IPv4 addresses that pods have on links of each interface, by its ID, in order. An address that
// several pods have is there once for each of them. It includes addresses outside the declared ranges, but not the
// interface's own and those that EC2 reserves.
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
			for _, address := range link.Addresses {
				i := interfaces[at]
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
			if link.HostLink != 0 && link.HostLink == i.Link || link.HostLink == 0 && link.Lower == 0 && i.Link == 0 &&
				link.MAC == i.MAC {
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

// podIP returns the first address on a link of no interface, IPv4 before IPv6.
func (n Namespace) podIP(owners map[int]string) netip.Addr {
	var first netip.Addr
	for _, link := range n.Links {
		if owners[link.Index] != "" {
			continue
		}
		for _, address := range link.Addresses {
			if !address.IsGlobalUnicast() {
				continue
			}
			if !first.IsValid() || address.Compare(first) < 0 {
				first = address
			}
		}
	}
	return first
}

func containsAddress(ranges []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(address) })
}

// Claim is the node's claim on an address.
type Claim struct {
	Address  netip.Addr
	Sequence int64
	Since    time.Time
	// ReleasedAt is the time from which no pod had the address; zero while a pod has it.
	ReleasedAt time.Time
	PodIP      netip.Addr
	// Namespace is the node's ID of the pod's namespace. Claims that were read from an earlier report have none until the
	// address is found.
	Namespace int
}

// of reports whether the address that a pod has is the one of the claim, and not of another pod with the same address.
func (c Claim) of(f Address) bool { return c.Namespace == f.Namespace && c.PodIP == f.PodIP }

// Admit returns the addresses without those whose new claim has to wait, and how many have to. The argument take
// decides about a new claim; an address that several pods have needs the permission of one.
func Admit(
	last []Claim, found []Address, ranges []netip.Prefix, take func(Address) bool,
) (admitted []Address, waiting int) {
	known, live := map[netip.Addr]bool{}, map[netip.Addr]bool{}
	for _, claim := range last {
		known[claim.Address], live[claim.Address] = true, claim.ReleasedAt.IsZero()
	}
	refused := map[netip.Addr]bool{}
	for _, f := range found {
		switch {
		case live[f.Address], !known[f.Address] && !containsAddress(ranges, f.Address):
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

// Claims returns the claims on the addresses of one interface in numerical order, given the last claims and the
// addresses that pods have now. An address outside the ranges is claimed only if it was claimed before. Of several pods
// with one address, the claim stays with the pod that it was of.
func Claims(
	last []Claim, found []Address, ranges []netip.Prefix, sequences *Sequences, now time.Time,
) (claims []Claim) {
	before := map[netip.Addr]Claim{}
	for _, claim := range last {
		before[claim.Address] = claim
	}
	pods := map[netip.Addr]Address{}
	for _, f := range found {
		if _, another := pods[f.Address]; !another || before[f.Address].of(f) {
			pods[f.Address] = f
		}
	}
	for _, address := range slices.SortedFunc(maps.Keys(pods), netip.Addr.Compare) {
		f := pods[address]
		claim, known := before[address]
		delete(before, address)
		switch {
		case known && claim.ReleasedAt.IsZero():
			claim.PodIP, claim.Namespace = f.PodIP, f.Namespace
		case known, containsAddress(ranges, address):
			claim = Claim{Address: address, Sequence: sequences.next(now), Since: now, PodIP: f.PodIP,
				Namespace: f.Namespace}
		default:
			continue
		}
		claims = append(claims, claim)
	}
	for _, claim := range before {
		if claim.ReleasedAt.IsZero() {
			claim.ReleasedAt = now
		}
		if now.Sub(claim.ReleasedAt) < Retention {
			claims = append(claims, claim)
		}
	}
	slices.SortFunc(claims, compareAddresses)
	return claims
}

// Unreleased returns the claims after an observation that omits namespaces. An absent address proves nothing then, so
// claims that were not found stay as they were.
func Unreleased(last, claims []Claim) []Claim {
	found := map[netip.Addr]Claim{}
	for _, claim := range last {
		found[claim.Address] = claim
	}
	for _, claim := range claims {
		if claim.ReleasedAt.IsZero() {
			found[claim.Address] = claim
		}
	}
	return slices.SortedFunc(maps.Values(found), compareAddresses)
}

// Limit returns at most the given number of claims, in numerical order, and the number of omitted claims on addresses
// that pods have. It omits released claims first, then the newest of the pods with the most claims, so that a pod with
// many addresses does not displace another pod's.
func Limit(claims []Claim, most int) (kept []Claim, omitted int) {
	kept = slices.SortedFunc(slices.Values(claims), func(a, b Claim) int { return cmp.Compare(a.Sequence, b.Sequence) })
	type pod struct {
		namespace int
		ip        netip.Addr
	}
	earlier := map[pod]int{}
	rank := map[netip.Addr]int{}
	for _, claim := range kept {
		if claim.ReleasedAt.IsZero() {
			of := pod{claim.Namespace, claim.PodIP}
			rank[claim.Address] = earlier[of]
			earlier[of]++
		}
	}
	slices.SortStableFunc(kept, func(a, b Claim) int {
		return cmp.Or(boolCompare(a.ReleasedAt.IsZero(), b.ReleasedAt.IsZero()),
			cmp.Compare(rank[a.Address], rank[b.Address]))
	})
	most = min(most, len(kept))
	omitted = Live(kept[most:])
	kept = kept[:most]
	slices.SortFunc(kept, compareAddresses)
	return kept, omitted
}

func compareAddresses(a, b Claim) int { return a.Address.Compare(b.Address) }

// boolCompare orders true before false.
func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// Live returns the number of claims on addresses that pods have.
func Live(claims []Claim) (n int) {
	for _, claim := range claims {
		if claim.ReleasedAt.IsZero() {
			n++
		}
	}
	return n
}

// Sequences numbers the claims of a node. The numbers start at the time in microseconds, so that they grow even if all
// earlier claims are forgotten.
type Sequences struct {
	last int64
}

// Use records the number of an earlier claim.
func (s *Sequences) Use(sequence int64) { s.last = max(s.last, sequence) }

func (s *Sequences) next(now time.Time) int64 {
	s.last = max(s.last+1, now.UnixMicro())
	return s.last
}
