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

const (
	// IdleTime is how long a prefix must be without pods before it may drain.
	IdleTime = 10 * time.Minute
	// MaxPods bounds the pods that [Usage] names.
	MaxPods = 256
)

// Usage is the usage of a network.
type Usage struct {
	IPv4, IPv6 FamilyUsage
	// Pods are the pods with an address, by name and UID, at most [MaxPods]; MorePods is the number of further ones.
	Pods     []PodUsage
	MorePods int
	// Unreadable are the addresses of damaged leases. They count as used, because a pod may have them.
	Unreadable []netip.Addr
	// Capacity is the number of pods that the network can have at once: the addresses of prefixes that do not drain, plus
	// the used addresses of others. A pod needs an address of each family. With HostDevice one pod has the interface.
	// Capacity is 0 while the network drains.
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

// FamilyUsage counts addresses. Free excludes addresses at rest and those of draining prefixes.
type FamilyUsage struct {
	Used, Resting, Free int64
	Prefixes            []PrefixUsage
	// Capacity is the number of addresses that pods can have at once.
	Capacity int64
}

// PrefixUsage is the usage of one prefix.
type PrefixUsage struct {
	Prefix
	Used, Resting, Free int64
	// IdleSince is the time since which no pod has an address of it; zero while one has.
	IdleSince time.Time
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
	if n.Draining {
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
		one := f.prefixUsage(p, leases, now)
		use.Used += one.Used
		use.Resting += one.Resting
		use.Free += one.Free
		use.Prefixes = append(use.Prefixes, one)
		if p.Draining {
			use.Capacity += one.Used
		} else {
			use.Capacity += f.size(p)
		}
	}
	slices.SortFunc(use.Prefixes, func(a, b PrefixUsage) int { return a.CIDR.Compare(b.CIDR) })
	for _, l := range leases {
		if l.InUse() && f.Subnet.Contains(l.Address) && !f.holds(l.Address) {
			use.Used++
			use.Capacity++
		}
	}
	return use
}

func (f Family) holds(a netip.Addr) bool {
	return slices.ContainsFunc(f.Prefixes, func(p Prefix) bool { return p.CIDR.Contains(a) })
}

func (f Family) prefixUsage(p Prefix, leases []Lease, now time.Time) PrefixUsage {
	use := PrefixUsage{Prefix: p, IdleSince: p.Since}
	for _, l := range leases {
		switch {
		case !p.CIDR.Contains(l.Address):
		case l.InUse():
			use.Used++
		default:
			if l.Rests(now) {
				use.Resting++
			}
			if l.Freed.After(use.IdleSince) {
				use.IdleSince = l.Freed
			}
		}
	}
	if use.Used > 0 {
		use.IdleSince = time.Time{}
	}
	if !p.Draining {
		use.Free = max(f.size(p)-use.Used-use.Resting, 0)
	}
	return use
}

// size returns the number of addresses of the prefix that pods may have. Only its first ones, its last one and the
// gateway may be unusable.
func (f Family) size(p Prefix) int64 {
	bits := p.CIDR.Addr().BitLen() - p.CIDR.Bits()
	size := int64(math.MaxInt64)
	if bits < 63 {
		size = int64(1) << bits
	}
	edges := []netip.Addr{p.CIDR.Addr(), lastOf(p.CIDR), f.Gateway}
	for a := range f.first() {
		edges = append(edges, a)
	}
	slices.SortFunc(edges, netip.Addr.Compare)
	for _, a := range slices.Compact(edges) {
		if p.CIDR.Contains(a) && !f.usable(p, a) {
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

// Demand is the demand of a NodeENI for a family on each interface.
type Demand struct {
	// Min is the minimum number of prefixes, and Spare the minimum number of free addresses.
	Min, Spare int
	// Returnable are the prefixes that the controller unassigns once they are drained.
	Returnable []netip.Prefix
}

// Drain returns the prefixes to mark as draining, the highest first: those that have been idle for [IdleTime] and that
// neither Min nor Spare requires. A prefix without a known start is not idle. One that is not returnable never drains:
// a mark stays, so the interface would keep a prefix that no pod can use.
func (f Family) Drain(leases []Lease, demand Demand, now time.Time) []netip.Prefix {
	use := f.usage(leases, now)
	kept := 0
	for _, p := range use.Prefixes {
		if !p.Draining {
			kept++
		}
	}
	var drain []netip.Prefix
	for _, p := range slices.Backward(use.Prefixes) {
		if p.Draining || p.IdleSince.IsZero() || now.Sub(p.IdleSince) < IdleTime ||
			!slices.Contains(demand.Returnable, p.CIDR) {
			continue
		}
		if kept > demand.Min && use.Free-p.Free >= int64(demand.Spare) {
			drain = append(drain, p.CIDR)
			use.Free -= p.Free
			kept--
		}
	}
	return drain
}

// Drained returns the draining prefixes without an address in use or at rest. The result stays true if the caller read
// the leases under the lock, after the mark was in the network's file.
func (f Family) Drained(leases []Lease, now time.Time) []netip.Prefix {
	var drained []netip.Prefix
	for _, p := range f.usage(leases, now).Prefixes {
		if p.Draining && p.Used == 0 && p.Resting == 0 {
			drained = append(drained, p.CIDR)
		}
	}
	return drained
}
