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

// node is a node whose pods start and stop.
type node struct {
	network podnet.Network
	leases  map[netip.Addr]podnet.Lease
	now     time.Time
	pods    int
	// running are the addresses of running pods.
	running map[string][]netip.Addr
}

func newNode() *node {
	n := network(ipv4("10.0.4.32/28"), ipv6())
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
	leases, err := n.network.Allocate(n.all(), nil, holder(name), podnet.Request{}, n.now)
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
	if !slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) }) {
		t.Fatalf("%s gets %v, which is of no prefix", name, a)
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

// grow assigns a further prefix.
func (n *node) grow(*rapid.T) {
	for _, cidr := range []string{"10.0.4.16/28", "10.0.4.32/28", "10.0.4.48/28"} {
		if !slices.Contains(n.network.IPv4.Prefixes, prefix(cidr)) {
			n.network.IPv4.Prefixes = append(n.network.IPv4.Prefixes, prefix(cidr))
			return
		}
	}
}

func TestNoAddressIsOfTwoPods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newNode()
		t.Repeat(map[string]func(*rapid.T){
			"start": n.start, "start another": n.start, "stop": n.stop, "grow": n.grow,
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
	if size := u.IPv4.Used + u.IPv4.Resting + u.IPv4.Free; int(size) != 16*len(n.network.IPv4.Prefixes) {
		t.Fatalf("%d prefixes have %d addresses", len(n.network.IPv4.Prefixes), size)
	}
}
