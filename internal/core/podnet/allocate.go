// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podnet

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"time"
)

// UnavailableError says that a pod cannot get its addresses now. Its text, which the pod's events show, names the
// NodeENI, the node, the limit and the next step.
type UnavailableError struct{ message string }

func (e *UnavailableError) Error() string { return e.message }

// reservedFirst is the number of addresses that EC2 reserves at the start of a subnet. It also reserves the last one
// (docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html).
const reservedFirst = 4

// Folder is the file of one interface of a network, with the leases of its addresses.
type Folder struct {
	Network
	Leases []Lease
}

// FolderOf returns the index of the folder from which a holder gets its addresses: the one that has a lease of it, else
// the one that is open, else any; -1 without folders. An interface that replaces another one is open while the other
// one keeps the leases of its pods.
func FolderOf(folders []Folder, holder Holder) int {
	mine := func(f Folder) bool {
		return slices.ContainsFunc(f.Leases, func(l Lease) bool { return l.InUse() && l.Is(holder) })
	}
	for _, is := range []func(Folder) bool{mine, func(f Folder) bool { return f.IsOpen() }} {
		if at := slices.IndexFunc(folders, is); at >= 0 {
			return at
		}
	}
	return len(folders) - 1
}

// Allocate returns the leases of a holder: existing ones, and new ones for the families without one. After an error the
// leases are unchanged; a [RequestError] lasts until the pod or the NodeENI changes. Allocate takes the address
// that the pod asks for, or the lowest free one, so that prefixes become idle. The argument others has the leases of
// other interfaces of the network: no address of them is free. A holder that attaches again can have another link than
// before.
func (n Network) Allocate(leases, others []Lease, holder Holder, request Request, now time.Time) ([]Lease, error) {
	mine, err := n.allocate(leases, others, holder, request, now)
	for i := range mine {
		if l := &mine[i]; l.Attachment != holder.Attachment || l.Link != holder.Link {
			l.Attachment, l.Link, l.Since, l.First = holder.Attachment, holder.Link, now, l.PodSince()
		}
	}
	return mine, err
}

func (n Network) allocate(leases, others []Lease, holder Holder, request Request, now time.Time) ([]Lease, error) {
	if n.Attachment == Observed {
		return nil, fmt.Errorf("NodeENI %s has pods.attachment Observed, so multieni gives its pods no addresses: name "+
			"another IPAM plugin in the NetworkAttachmentDefinition, or set pods.attachment: IPVLAN", n.NodeENI)
	}
	attached := slices.ContainsFunc(leases, func(l Lease) bool { return l.InUse() && l.Is(holder) })
	if err := n.Takes(); err != nil && !attached {
		return nil, err
	}
	if err := n.validateRequest(request); err != nil {
		return nil, err
	}
	if n.Attachment == HostDevice {
		return n.own(leases, others, holder, now)
	}
	var mine []Lease
	for _, l := range leases {
		if l.InUse() && l.Is(holder) {
			mine = append(mine, l)
		}
	}
	for _, family := range n.families() {
		if slices.ContainsFunc(mine, func(l Lease) bool { return family.Subnet.Contains(l.Address) }) {
			continue
		}
		lease, err := n.choose(family, known{leases, others}, holder, request, now)
		if err != nil {
			return nil, err
		}
		mine = append(mine, lease)
	}
	return mine, nil
}

// Takes returns nil if further pods can get addresses, or why they cannot.
func (n Network) Takes() error {
	if n.IsOpen() {
		return nil
	}
	return &UnavailableError{fmt.Sprintf("the interface of NodeENI %s on node %s takes no further pod, because it "+
		"is to be removed, or was attached a moment ago: start the pod on another node; kubectl eni why %s says why it is "+
		"removed", n.NodeENI, n.Node, n.Node)}
}

// own gives the interface's own address to one holder. It does not rest, because a pod that replaces another one has
// no other address to take. Any lease of another holder excludes the holder: a pod that attached before the NodeENI
// asked for HostDevice still has a link on the interface.
func (n Network) own(leases, others []Lease, holder Holder, now time.Time) ([]Lease, error) {
	var mine []Lease
	for _, l := range others {
		if l.InUse() && slices.Contains(n.Addresses, l.Address) {
			return nil, n.occupied(l)
		}
	}
	for _, l := range leases {
		switch {
		case !l.InUse():
		case !l.Is(holder):
			return nil, n.occupied(l)
		case slices.Contains(n.Addresses, l.Address):
			mine = append(mine, l)
		}
	}
	for _, address := range n.Addresses {
		if !slices.ContainsFunc(mine, func(l Lease) bool { return l.Address == address }) {
			mine = append(mine, Lease{Address: address, Holder: holder, Since: now})
		}
	}
	if len(mine) == 0 {
		return nil, &UnavailableError{fmt.Sprintf("the interface of NodeENI %s on node %s has no address; see kubectl eni "+
			"node %s",
			n.NodeENI, n.Node, n.Node)}
	}
	return mine, nil
}

// occupied returns the reason why the lease of another holder excludes a pod with HostDevice.
func (n Network) occupied(l Lease) error {
	who, next := "pod "+l.PodName()+" has", "stop that pod"
	if l.Unreadable {
		who = fmt.Sprintf("the lease of %v is damaged, and a pod may have", l.Address)
		next = "kubectl eni node " + n.Node + " shows what to do"
	}
	return &UnavailableError{fmt.Sprintf("%s the interface of NodeENI %s on node %s; one pod can have it with attachment "+
		"HostDevice: %s, or start this one on another node", who, n.NodeENI, n.Node, next)}
}

// families returns the families of the network, IPv4 first.
func (n Network) families() []*Family {
	return slices.DeleteFunc([]*Family{n.IPv4, n.IPv6}, func(f *Family) bool { return f == nil })
}

// lowest returns the lowest usable address that is not taken.
func (f Family) lowest(taken map[netip.Addr]bool) (netip.Addr, bool) {
	prefixes := slices.SortedFunc(slices.Values(f.Prefixes), netip.Prefix.Compare)
	for _, p := range prefixes {
		for a := p.Addr(); p.Contains(a); a = a.Next() {
			if !taken[a] && f.usable(p, a) {
				return a, true
			}
		}
	}
	return netip.Addr{}, false
}

// usable reports whether a pod may have the address. EC2 reserves some addresses of each subnet. The first address of
// an IPv6 prefix is the anycast address of its routers (RFC 4291, 2.6.1), which a pod that forwards treats as its own.
func (f Family) usable(p netip.Prefix, a netip.Addr) bool {
	return a != f.Gateway && !f.reserved(a) && (a.Is4() || a != p.Addr())
}

func (f Family) reserved(a netip.Addr) bool { return Reserved(f.Subnet, a) }

// Reserved reports whether EC2 reserves an address in a subnet. Without a subnet it reserves none.
func Reserved(subnet netip.Prefix, a netip.Addr) bool {
	if !subnet.IsValid() {
		return false
	}
	for first := range (Family{Subnet: subnet}).first() {
		if a == first {
			return true
		}
	}
	return a == lastOf(subnet)
}

// first yields the addresses at the start of the subnet that EC2 reserves.
func (f Family) first() iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for a, i := f.Subnet.Addr(), 0; i < reservedFirst && yield(a); a, i = a.Next(), i+1 {
		}
	}
}

// exhausted returns the reason why no address is left.
func (n Network) exhausted(f Family, leases []Lease, now time.Time) error {
	kind, field := "IPv4", "spec.pods.ipv4.prefixes.max"
	if f.Subnet.Addr().Is6() {
		kind, field = "IPv6", "spec.pods.ipv6.prefixes"
	}
	if len(f.Prefixes) == 0 {
		return &UnavailableError{fmt.Sprintf("NodeENI %s has no %s prefix on node %s yet; EC2 assigns it soon, "+
			"or kubectl eni why %s says why not", n.NodeENI, kind, n.Node, n.Node)}
	}
	use := f.usage(leases, now)
	limit := fmt.Sprintf("%d prefixes", len(f.Prefixes))
	if f.MaxPrefixes > 0 {
		limit = fmt.Sprintf("%d of at most %d prefixes", len(f.Prefixes), f.MaxPrefixes)
	}
	next := "multieni assigns another prefix, or kubectl eni why " + n.Node + " says why not"
	if f.MaxPrefixes > 0 && len(f.Prefixes) >= f.MaxPrefixes {
		next = "raise " + field + " of the NodeENI, or start the pod on another node"
	}
	return &UnavailableError{fmt.Sprintf("no %s address of NodeENI %s is free on node %s: %s, %d addresses in use and %d "+
		"at rest for %v; %s",
		kind, n.NodeENI, n.Node, limit, use.Used, use.Resting, RestTime, next)}
}
