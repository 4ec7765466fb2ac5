// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podnet_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/podnet"
)

// node is a node whose pods start and stop, whose agent drains prefixes, and whose controller unassigns those that the
// agent reported.
type node struct {
	network podnet.Network
	leases  map[netip.Addr]podnet.Lease
	now     time.Time
	pods    int
	// running are the addresses of running pods, and drained the prefixes that the agent reported.
	running map[string][]netip.Addr
	drained []netip.Prefix
}

func newNode() *node {
	n := network(ipv4("10.0.4.16/28", "10.0.4.32/28", "10.0.4.48/28"), ipv6())
	return &node{network: n, leases: map[netip.Addr]podnet.Lease{}, now: start, running: map[string][]netip.Addr{}}
}

func (n *node) all() []podnet.Lease {
	var all []podnet.Lease
	for _, l := range n.leases {
		all = append(all, l)
	}
	return all
}

func (n *node) start(t *rapid.T) {
	n.pods++
	name := fmt.Sprintf("pod-%d", n.pods)
	leases, err := n.network.Allocate(n.all(), holder(name), podnet.Request{}, n.now)
	if err != nil {
		return
	}
	if len(leases) != 2 {
		t.Fatalf("%s gets %d addresses, not one of each family", name, len(leases))
	}
	for _, l := range leases {
		n.check(t, name, l.Address)
		n.leases[l.Address] = l
		n.running[name] = append(n.running[name], l.Address)
	}
}

// check fails if the address may not go to a pod.
func (n *node) check(t *rapid.T, name string, a netip.Addr) {
	for other, its := range n.running {
		if slices.Contains(its, a) {
			t.Fatalf("%s gets %v, which %s has", name, a, other)
		}
	}
	if former, is := n.leases[a]; is && n.now.Sub(former.Freed) < podnet.RestTime {
		t.Fatalf("%s gets %v, which was freed %v ago", name, a, n.now.Sub(former.Freed))
	}
	prefixes := append(slices.Clone(n.network.IPv4.Prefixes), n.network.IPv6.Prefixes...)
	if !slices.ContainsFunc(prefixes, func(p podnet.Prefix) bool { return p.CIDR.Contains(a) && !p.Draining }) {
		t.Fatalf("%s gets %v, which is of no prefix, or of a draining one", name, a)
	}
}

func (n *node) stop(t *rapid.T) {
	if len(n.running) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(n.running))
	name := rapid.SampledFrom(names).Draw(t, "pod")
	for _, l := range podnet.End(n.all(), n.now, func(l podnet.Lease) bool { return l.ContainerID == name }) {
		n.leases[l.Address] = l
	}
	delete(n.running, name)
}

func (n *node) drain(t *rapid.T) {
	family := n.network.IPv4
	demand := podnet.Demand{
		Min: rapid.IntRange(0, 2).Draw(t, "min"), Spare: rapid.IntRange(0, 16).Draw(t, "spare"), Returnable: cidrs(family),
	}
	for _, cidr := range family.Drain(n.all(), demand, n.now) {
		i := slices.IndexFunc(family.Prefixes, func(p podnet.Prefix) bool { return p.CIDR == cidr })
		family.Prefixes[i].Draining = true
	}
	n.drained = family.Drained(n.all(), n.now)
}

// unassign unassigns, at any later time, the prefixes that the agent reported.
func (n *node) unassign(t *rapid.T) {
	for _, cidr := range n.drained {
		for name, its := range n.running {
			if slices.ContainsFunc(its, cidr.Contains) {
				t.Fatalf("%v goes while %s has %v", cidr, name, its)
			}
		}
		n.network.IPv4.Prefixes = slices.DeleteFunc(n.network.IPv4.Prefixes, func(p podnet.Prefix) bool { return p.CIDR == cidr })
	}
	n.drained = nil
}

// grow assigns the unassigned prefixes again.
func (n *node) grow(*rapid.T) {
	for _, cidr := range []string{"10.0.4.16/28", "10.0.4.32/28", "10.0.4.48/28"} {
		if !slices.ContainsFunc(n.network.IPv4.Prefixes, func(p podnet.Prefix) bool { return p.CIDR == prefix(cidr) }) {
			n.network.IPv4.Prefixes = append(n.network.IPv4.Prefixes, podnet.Prefix{CIDR: prefix(cidr), Since: n.now})
		}
	}
}

func TestNoAddressIsTwoPodsAndNoUsedPrefixGoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newNode()
		t.Repeat(map[string]func(*rapid.T){
			"start": n.start, "start another": n.start, "stop": n.stop, "drain": n.drain, "unassign": n.unassign, "grow": n.grow,
			"wait": func(t *rapid.T) {
				n.now = n.now.Add(time.Duration(rapid.IntRange(1, 900).Draw(t, "seconds")) * time.Second)
			},
			"": func(t *rapid.T) { n.count(t) },
		})
	})
}

// count compares the usage with the pods that run.
func (n *node) count(t *rapid.T) {
	u := n.network.Usage(n.all(), n.now)
	if int(u.IPv4.Used) != len(n.running) || int(u.IPv6.Used) != len(n.running) || len(u.Pods) != len(n.running) {
		t.Fatalf("%d pods run, the usage says %d, %d and %d", len(n.running), u.IPv4.Used, u.IPv6.Used, len(u.Pods))
	}
	for _, p := range u.IPv4.Prefixes {
		if size := p.Used + p.Resting + p.Free; !p.Draining && size != 16 {
			t.Fatalf("%v has %d addresses", p.CIDR, size)
		}
	}
}
