// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podnet

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxRequested bounds each list of a [Request], like the routes of a NodeENI.
const maxRequested = 16

// Request is what a pod asks of a network, in Multus' annotation. The zero value asks for any address.
type Request struct {
	// IPs are addresses that the pod gets instead of free ones of its families.
	IPs []netip.Addr
	// Fixed are IPv4 ranges. A pod of a StatefulSet gets the address whose number, among those of the ranges in the subnet
	// of its node, is the pod's ordinal.
	Fixed []netip.Prefix
	// Routes are destinations that the pod reaches through the gateway of the subnet, in addition to those of the network.
	Routes []netip.Prefix
}

// RequestError says that no network of the pod's node can ever fulfill the pod's request. Its text names the pod, the
// ranges and the next step.
type RequestError struct{ message string }

func (e *RequestError) Error() string { return e.message }

func refuse(format string, values ...any) error { return &RequestError{fmt.Sprintf(format, values...)} }

// ParseRequest parses the lists of a pod's request. An address may have a prefix length, as Multus allows.
func ParseRequest(ips, fixed, routes []string) (Request, error) {
	var r Request
	if len(ips) > 0 && len(fixed) > 0 {
		return r, refuse("the pod asks for ips and for fixed addresses: set one of them")
	}
	if most := max(len(ips), len(fixed), len(routes)); most > maxRequested {
		return r, refuse("the pod asks for %d entries of ips, fixed or routes, at most %d are allowed", most, maxRequested)
	}
	for _, text := range ips {
		bare, _, _ := strings.Cut(text, "/")
		address, err := netip.ParseAddr(bare)
		if err != nil || !isAddress(address) {
			return r, refuse("ips has %q, which is no address: write an address such as 10.0.64.210", text)
		}
		if slices.ContainsFunc(r.IPs, func(other netip.Addr) bool { return other.Is4() == address.Is4() }) {
			return r, refuse("ips has two addresses of one family, %s: a pod gets one address of each family per network",
				strings.Join(ips, " and "))
		}
		r.IPs = append(r.IPs, address)
	}
	var err error
	if r.Fixed, err = parseRanges("fixed", fixed); err != nil {
		return r, err
	}
	for _, one := range r.Fixed {
		if !one.Addr().Is4() {
			return r, refuse("fixed has %v: EC2 cannot move IPv6 addresses, so only IPv4 ranges have fixed addresses", one)
		}
	}
	r.Routes, err = parseRanges("routes", routes)
	return r, err
}

func parseRanges(of string, texts []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range texts {
		one, err := netip.ParsePrefix(text)
		if err != nil || !isNetwork(one) {
			return nil, refuse("%s has %q, which is no range without bits beyond its prefix length: write a range such as "+
				"10.0.64.192/28", of, text)
		}
		all = append(all, one)
	}
	return all, nil
}

// asksForAddress reports whether the pod asks for an address of its own choice.
func (r Request) asksForAddress() bool { return len(r.IPs) > 0 || len(r.Fixed) > 0 }

// validateRequest refuses what no family of the network can serve.
func (n Network) validateRequest(r Request) error {
	if r.asksForAddress() && n.Attachment == HostDevice {
		return refuse("NodeENI %s has pods.attachment HostDevice: the pod gets the interface with its own addresses, and "+
			"can ask for no other; remove ips and fixed from the annotation of the pod", n.NodeENI)
	}
	if len(r.Fixed) > 0 && n.IPv4 == nil {
		return refuse("the pod asks for a fixed address, and NodeENI %s gives pods no IPv4 address: set pods.ipv4", n.NodeENI)
	}
	for _, a := range r.IPs {
		if n.family(a) == nil {
			return refuse("the pod asks for %v, and NodeENI %s gives pods no address of that family", a, n.NodeENI)
		}
	}
	for _, to := range r.Routes {
		if n.family(to.Addr()) == nil {
			return refuse("the pod asks for a route to %v, and NodeENI %s gives pods no address of that family", to, n.NodeENI)
		}
	}
	return nil
}

// known are the leases of a network: those of the interface, and those of its other interfaces.
type known struct{ own, others []Lease }

// choose returns the address of the family for the holder: the requested one, or the lowest free one. The error names
// who has the requested one.
func (n Network) choose(f *Family, leases known, holder Holder, r Request, now time.Time) (Lease, error) {
	mine := Lease{Holder: holder, Since: now}
	wanted, err := n.requested(f, holder, r)
	if err != nil {
		return Lease{}, err
	}
	taken := map[netip.Addr]bool{}
	for _, l := range slices.Concat(leases.own, leases.others) {
		taken[l.Address] = taken[l.Address] || l.InUse() || l.Rests(now)
		if l.Address != wanted {
			continue
		}
		if err := n.isFreeFor(l, holder, now); err != nil {
			return Lease{}, err
		}
		if l.PodUID == holder.PodUID && holder.PodUID != "" {
			// The same pod, whose sandbox started again, makes no new claim, and is no later than before.
			mine.Claim, mine.First = l.Claim, l.PodSince()
		}
	}
	if mine.Address = wanted; wanted.IsValid() {
		return mine, nil
	}
	lowest, found := f.lowest(taken)
	if !found {
		return Lease{}, n.exhausted(*f, leases.own, now)
	}
	mine.Address = lowest
	return mine, nil
}

// isFreeFor returns why a holder cannot get the address of another lease now, or nil. An address does not rest for a
// pod of the same name: peers mean that pod.
func (n Network) isFreeFor(l Lease, holder Holder, now time.Time) error {
	switch {
	case l.Unreadable:
		return n.occupied(l)
	case l.InUse():
		return &UnavailableError{fmt.Sprintf("pod %s asks for %v of NodeENI %s, and pod %s on node %s still has it; "+
			"the pod starts once that one has ended", holder.PodName(), l.Address, n.NodeENI, l.PodName(), n.Node)}
	case l.Rests(now) && l.PodName() != holder.PodName():
		return &UnavailableError{fmt.Sprintf("pod %s asks for %v of NodeENI %s, which rests for %v after pod %s on node %s "+
			"released it", holder.PodName(), l.Address, n.NodeENI, RestTime, l.PodName(), n.Node)}
	}
	return nil
}

// requested returns the address of the family that the pod asks for; the zero address for none.
func (n Network) requested(f *Family, holder Holder, r Request) (netip.Addr, error) {
	if f.Subnet.Addr().Is4() && len(r.Fixed) > 0 {
		return n.fixed(f, holder, r.Fixed)
	}
	for _, a := range r.IPs {
		if a.Is4() == f.Subnet.Addr().Is4() {
			return a, n.mayHave(f, holder, a)
		}
	}
	return netip.Addr{}, nil
}

// mayHave returns why no pod on this node can have an address, or nil.
func (n Network) mayHave(f *Family, holder Holder, a netip.Addr) error {
	next := fmt.Sprintf("ask for an address of %s, or let an administrator add a range to pods.floating of the NodeENI",
		f.choices())
	within := func(p netip.Prefix) bool { return p.Contains(a) }
	at := slices.IndexFunc(f.Prefixes, within)
	switch {
	case !f.Subnet.Contains(a):
		return refuse("pod %s asks for %v, and node %s is in subnet %v of NodeENI %s: %s", holder.PodName(), a, n.Node,
			f.Subnet, n.NodeENI, next)
	case a == f.Gateway || f.reserved(a), at >= 0 && !f.usable(f.Prefixes[at], a):
		return refuse("pod %s asks for %v, which is reserved in subnet %v: %s", holder.PodName(), a, f.Subnet, next)
	case at < 0 && !f.grants(a):
		return refuse("pod %s asks for %v, which is neither in a prefix of NodeENI %s on node %s nor in pods.floating: %s",
			holder.PodName(), a, n.NodeENI, n.Node, next)
	}
	return nil
}

// fixed returns the address whose number is the pod's ordinal. All ranges in the subnet must be granted: a grant that
// came later would renumber the pods.
func (n Network) fixed(f *Family, holder Holder, ranges []netip.Prefix) (netip.Addr, error) {
	number, ok := ordinal(holder.Pod)
	if !ok {
		return netip.Addr{}, refuse("pod %s asks for a fixed address, and its name does not end with an ordinal: let a "+
			"StatefulSet create it, or ask for an address in ips", holder.PodName())
	}
	var here []netip.Prefix
	for _, one := range ranges {
		if !contains(f.Subnet, one) {
			continue
		}
		if !slices.ContainsFunc(f.Granted, func(g netip.Prefix) bool { return contains(g, one) }) {
			return netip.Addr{}, refuse("pod %s asks for a fixed address of %v, which is not in pods.floating of NodeENI %s: "+
				"let an administrator add the range there, and reserve it in the subnet", holder.PodName(), one, n.NodeENI)
		}
		here = append(here, one)
	}
	if len(here) == 0 {
		return netip.Addr{}, refuse("pod %s asks for a fixed address of %s, and none of these ranges is in subnet %v of "+
			"NodeENI %s on node %s: add one for the zone of the node, or give the pod affinity to the zones that have one",
			holder.PodName(), join(ranges), f.Subnet, n.NodeENI, n.Node)
	}
	left := number
	for _, one := range here {
		size := uint64(1) << (one.Addr().BitLen() - one.Bits())
		if left >= size {
			left -= size
			continue
		}
		a := addressOf(one, uint32(left))
		if slices.ContainsFunc(f.Prefixes, func(p netip.Prefix) bool { return p.Contains(a) }) {
			return netip.Addr{}, refuse("pod %s asks for the fixed address %v, which EC2 has assigned to an interface with a "+
				"prefix and does not move: reserve %v in the subnet with a SubnetReservation of type Explicit",
				holder.PodName(), a, one)
		}
		return a, n.mayHave(f, holder, a)
	}
	return netip.Addr{}, refuse("%s of pod %s has no address for ordinal %d: add a range behind the last one", join(here),
		holder.PodName(), number)
}

// ordinal returns the number at the end of the name of a StatefulSet's pod.
func ordinal(pod string) (uint64, bool) {
	at := strings.LastIndexByte(pod, '-')
	if at < 1 {
		return 0, false
	}
	number, err := strconv.ParseUint(pod[at+1:], 10, 31)
	return number, err == nil && strconv.FormatUint(number, 10) == pod[at+1:]
}

// addressOf returns the address of an IPv4 range with a number, from 0.
func addressOf(r netip.Prefix, number uint32) netip.Addr {
	b := r.Addr().As4()
	first := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	a := first + number
	return netip.AddrFrom4([4]byte{byte(a >> 24), byte(a >> 16), byte(a >> 8), byte(a)})
}

// Grant sets the granted ranges: the parts of the given IPv4 ranges that are in the subnet. A family that is nil has
// none.
func (f *Family) Grant(ranges []netip.Prefix) {
	if f == nil {
		return
	}
	f.Granted = nil
	for _, r := range ranges {
		switch {
		case contains(f.Subnet, r):
			f.Granted = append(f.Granted, r)
		case contains(r, f.Subnet):
			f.Granted = []netip.Prefix{f.Subnet}
			return
		}
	}
}

// validateGranted returns the first granted range that is no IPv4 range of the subnet.
func (f *Family) validateGranted() error {
	if len(f.Granted) > maxGranted {
		return fmt.Errorf("%d granted ranges, at most %d are allowed", len(f.Granted), maxGranted)
	}
	for _, g := range f.Granted {
		if !isNetwork(g) || !g.Addr().Is4() || !contains(f.Subnet, g) {
			return fmt.Errorf("granted: %v is no IPv4 range of subnet %v", g, f.Subnet)
		}
	}
	return nil
}

// grants reports whether a pod may ask for the address.
func (f Family) grants(a netip.Addr) bool {
	return slices.ContainsFunc(f.Granted, func(g netip.Prefix) bool { return g.Contains(a) })
}

// choices names the ranges: a pod can ask for an address in them.
func (f Family) choices() string {
	all := slices.Concat(f.Granted, f.Prefixes)
	if len(all) == 0 {
		return "no range, since none is granted or assigned yet"
	}
	return join(all)
}

func join(ranges []netip.Prefix) string {
	var texts []string
	for _, r := range ranges {
		texts = append(texts, r.String())
	}
	return strings.Join(texts, ", ")
}

// Granted returns the leases in use of addresses that pods asked for and that follow them: addresses of granted ranges
// and, since an edit of the NodeENI takes no address from a pod, those that the agent has claimed.
func (n Network) Granted(leases []Lease) []Lease {
	var granted []Lease
	for _, l := range leases {
		grants := n.IPv4 != nil && n.Attachment == IPVLAN && n.IPv4.grants(l.Address)
		ofPrefix := n.IPv4 != nil && n.IPv4.holds(l.Address)
		if l.InUse() && (l.Claim != nil || grants) && !ofPrefix {
			granted = append(granted, l)
		}
	}
	return granted
}
