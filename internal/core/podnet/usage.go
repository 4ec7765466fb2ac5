// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podnet

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
	"time"
)

// MaxPods bounds the pods that [Usage] names.
const MaxPods = 256

// Usage is the usage of a network.
type Usage struct {
	IPv4, IPv6 FamilyUsage
	// Pods are the pods with an address, by name and UID, at most [MaxPods]; MorePods is the number of further ones.
	Pods     []PodUsage
	MorePods int
	// Unreadable are the addresses of damaged leases. They count as used, because a pod may have them.
	Unreadable []netip.Addr
	// Capacity is the number of pods that the network can have at once: the addresses of its prefixes, plus the used
	// addresses of others. A pod needs an address of each family. With HostDevice one pod has the interface. Capacity is 0
	// while the network is closed.
	Capacity int64
}

// PodUsage is a pod with its addresses.
type PodUsage struct {
	// Name is NAMESPACE/NAME, or the container's ID if the runtime named no pod.
	Name string
	// UID distinguishes pods of one name; empty if the runtime did not pass it.
	UID       string
	Addresses []netip.Addr
}

// FamilyUsage counts addresses. Free excludes addresses at rest.
type FamilyUsage struct {
	Used, Resting, Free int64
	// Capacity is the number of addresses that pods can have at once.
	Capacity int64
}

// Usage counts the addresses of the leases. Addresses with HostDevice count as IPv4 or IPv6, without prefixes.
func (n Network) Usage(leases []Lease, now time.Time) Usage {
	var u Usage
	capacity := int64(math.MaxInt64)
	for i, family := range []*Family{n.IPv4, n.IPv6} {
		if family == nil {
			continue
		}
		use := family.usage(leases, now)
		if n.Attachment == HostDevice {
			use = n.ownUsage(*family, leases)
		}
		*[]*FamilyUsage{&u.IPv4, &u.IPv6}[i] = use
		capacity = min(capacity, use.Capacity)
	}
	for _, l := range leases {
		if f := n.family(l.Address); l.InUse() && (f == nil || !f.Subnet.Contains(l.Address)) { // its range is not known
			u.IPv4.Used++
		}
		if l.InUse() && l.Unreadable {
			u.Unreadable = append(u.Unreadable, l.Address)
		}
	}
	if n.IPv4 != nil || n.IPv6 != nil {
		u.Capacity = capacity
	}
	if !n.IsOpen() {
		u.Capacity = 0
	}
	u.Pods = pods(leases)
	if len(u.Pods) > MaxPods {
		u.MorePods = len(u.Pods) - MaxPods
		u.Pods = u.Pods[:MaxPods]
	}
	return u
}

// ownUsage counts the addresses of an interface that one pod has. While a pod has a lease, no other pod gets one.
func (n Network) ownUsage(f Family, leases []Lease) FamilyUsage {
	var use FamilyUsage
	for _, l := range leases {
		if l.InUse() && f.Subnet.Contains(l.Address) {
			use.Used++
		}
	}
	for _, a := range n.Addresses {
		if f.Subnet.Contains(a) && !slices.ContainsFunc(leases, Lease.InUse) {
			use.Free++
		}
	}
	use.Capacity = min(use.Used+use.Free, 1)
	return use
}

// usage counts the addresses of the family's prefixes, and leased addresses that no prefix has any more.
func (f Family) usage(leases []Lease, now time.Time) FamilyUsage {
	var use FamilyUsage
	for _, p := range f.Prefixes {
		used, resting := count(p, leases, now)
		use.Used += used
		use.Resting += resting
		use.Free += max(f.size(p)-used-resting, 0)
		use.Capacity += f.size(p)
	}
	for _, l := range leases {
		if l.InUse() && f.Subnet.Contains(l.Address) && !f.holds(l.Address) {
			use.Used++
			use.Capacity++
		}
	}
	return use
}

func (f Family) holds(a netip.Addr) bool {
	return slices.ContainsFunc(f.Prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// count returns how many addresses of a prefix are in use and at rest.
func count(p netip.Prefix, leases []Lease, now time.Time) (used, resting int64) {
	for _, l := range leases {
		switch {
		case !p.Contains(l.Address):
		case l.InUse():
			used++
		case l.Rests(now):
			resting++
		}
	}
	return used, resting
}

// size returns the number of addresses of the prefix that pods may have. Only its first ones, its last one and the
// gateway may be unusable.
func (f Family) size(p netip.Prefix) int64 {
	bits := p.Addr().BitLen() - p.Bits()
	size := int64(math.MaxInt64)
	if bits < 63 {
		size = int64(1) << bits
	}
	edges := []netip.Addr{p.Addr(), lastOf(p), f.Gateway}
	for a := range f.first() {
		edges = append(edges, a)
	}
	slices.SortFunc(edges, netip.Addr.Compare)
	for _, a := range slices.Compact(edges) {
		if p.Contains(a) && !f.usable(p, a) {
			size--
		}
	}
	return size
}

// lastOf returns the last address of a prefix.
func lastOf(p netip.Prefix) netip.Addr {
	bytes := p.Addr().AsSlice()
	for bit := p.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 1 << (7 - bit%8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
}

// pods returns the pods with an address, by name and UID.
func pods(leases []Lease) []PodUsage {
	type pod struct{ name, uid string }
	addresses := map[pod][]netip.Addr{}
	for _, l := range leases {
		if l.InUse() && !l.Unreadable {
			of := pod{l.PodName(), l.PodUID}
			addresses[of] = append(addresses[of], l.Address)
		}
	}
	var all []PodUsage
	for of, its := range addresses {
		slices.SortFunc(its, netip.Addr.Compare)
		all = append(all, PodUsage{of.name, of.uid, its})
	}
	slices.SortFunc(all, func(a, b PodUsage) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID)) })
	return all
}

// Demand is the demand of a NodeENI for IPv4 prefixes on each interface.
type Demand struct {
	// Min and Max bound the number of prefixes, and Spare is the minimum number of free addresses.
	Min, Max, Spare int
}

// Wanted returns the number of IPv4 prefixes that the pods of the network need: those with the addresses in use and at
// rest, and with as many free ones as the demand says. A further prefix is one of 16 addresses.
func (n Network) Wanted(leases []Lease, demand Demand, now time.Time) int {
	if n.IPv4 == nil || n.Attachment != IPVLAN {
		return 0
	}
	var needed int64
	for _, l := range leases {
		if n.IPv4.holds(l.Address) && (l.InUse() || l.Rests(now)) {
			needed++
		}
	}
	needed += int64(demand.Spare)
	wanted := 0
	for _, p := range n.IPv4.Prefixes {
		if needed <= 0 {
			break
		}
		needed -= n.IPv4.size(p)
		wanted++
	}
	const size = 1 << (32 - IPv4PrefixBits)
	if needed > 0 {
		wanted += int((needed + size - 1) / size)
	}
	return min(max(wanted, demand.Min), demand.Max)
}
