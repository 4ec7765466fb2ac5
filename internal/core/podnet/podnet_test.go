// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podnet_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/podnet"
)

var (
	start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	// addresses compares values of net/netip, which have unexported fields.
	addresses = cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func address(s string) netip.Addr { return netip.MustParseAddr(s) }

// ipv4 returns an IPv4 family with the prefixes, which have existed for an hour.
func ipv4(cidrs ...string) *podnet.Family {
	f := &podnet.Family{Subnet: prefix("10.0.4.0/24"), Gateway: address("10.0.4.1"), MaxPrefixes: 4}
	for _, c := range cidrs {
		f.Prefixes = append(f.Prefixes, podnet.Prefix{CIDR: prefix(c), Since: start.Add(-time.Hour)})
	}
	return f
}

// cidrs returns the prefixes of a family.
func cidrs(f *podnet.Family) (all []netip.Prefix) {
	for _, p := range f.Prefixes {
		all = append(all, p.CIDR)
	}
	return all
}

func ipv6() *podnet.Family {
	return &podnet.Family{
		Subnet: prefix("2001:db8:0:4::/64"), Gateway: address("fe80:ec2::1"),
		Prefixes: []podnet.Prefix{{CIDR: prefix("2001:db8:0:4:5::/80")}},
	}
}

func network(v4, v6 *podnet.Family) podnet.Network {
	return podnet.Network{
		Name: "n3", NodeENI: "n3", Node: "node-1", Link: "net-n3", ENI: "eni-1", MAC: "02:00:00:00:00:01",
		MTU: 9001, Attachment: podnet.IPVLAN, IPv4: v4, IPv6: v6,
	}
}

func holder(name string) podnet.Holder {
	return podnet.Holder{ContainerID: name, Interface: "net1", Config: "n3", PodNamespace: "upf", Pod: name, Netns: "/run/netns/" + name, BootID: "b"}
}

// used returns leases in use, one holder each.
func used(all ...string) []podnet.Lease {
	var leases []podnet.Lease
	for _, a := range all {
		leases = append(leases, podnet.Lease{Address: address(a), Holder: holder("pod-" + a), Since: start})
	}
	return leases
}

// all returns the addresses of a /28.
func all(cidr string) []string {
	var texts []string
	for a := prefix(cidr).Addr(); prefix(cidr).Contains(a); a = a.Next() {
		texts = append(texts, a.String())
	}
	return texts
}

func freed(leases []podnet.Lease, at time.Time) []podnet.Lease {
	return podnet.End(leases, at, func(podnet.Lease) bool { return true })
}

func TestAllocate(t *testing.T) {
	draining := ipv4("10.0.4.16/28", "10.0.4.32/28")
	draining.Prefixes[0].Draining = true
	own := network(ipv4(), nil)
	own.Attachment, own.Addresses = podnet.HostDevice, []netip.Addr{address("10.0.4.70"), address("10.0.4.71")}
	for name, c := range map[string]struct {
		network podnet.Network
		leases  []podnet.Lease
		want    string
	}{
		"the lowest address of the lowest prefix": {network(ipv4("10.0.4.32/28", "10.0.4.16/28"), nil), nil, "10.0.4.16"},
		"the first free one":                      {network(ipv4("10.0.4.16/28"), nil), used("10.0.4.16", "10.0.4.18"), "10.0.4.17"},
		"none that rests":                         {network(ipv4("10.0.4.16/28"), nil), freed(used("10.0.4.16"), start.Add(-59*time.Second)), "10.0.4.17"},
		"one that has rested":                     {network(ipv4("10.0.4.16/28"), nil), freed(used("10.0.4.16"), start.Add(-time.Minute)), "10.0.4.16"},
		"one freed by a clock far ahead":          {network(ipv4("10.0.4.16/28"), nil), freed(used("10.0.4.16"), start.Add(time.Hour)), "10.0.4.16"},
		"none of a draining prefix":               {network(draining, nil), nil, "10.0.4.32"},
		"none that EC2 reserves":                  {network(ipv4("10.0.4.0/28"), nil), nil, "10.0.4.4"},
		"both families":                           {network(ipv4("10.0.4.16/28"), ipv6()), nil, "10.0.4.16 2001:db8:0:4:5::1"},
		"HostDevice: those of the interface":      {own, freed(used("10.0.4.70"), start), "10.0.4.70 10.0.4.71"},
	} {
		t.Run(name, func(t *testing.T) {
			leases, err := c.network.Allocate(c.leases, holder("a"), podnet.Request{}, start)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, l := range leases {
				got = append(got, l.Address.String())
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %v, want %s", got, c.want)
			}
		})
	}
}

func TestAllocateAgainReturnsTheLeasesOfTheHolder(t *testing.T) {
	n := network(ipv4("10.0.4.16/28"), ipv6())
	first, err := n.Allocate(nil, holder("a"), podnet.Request{}, start)
	if err != nil {
		t.Fatal(err)
	}
	n.Draining = true
	again, err := n.Allocate(first, holder("a"), podnet.Request{}, start.Add(time.Minute))
	if diff := cmp.Diff(first, again, addresses); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestUnavailable(t *testing.T) {
	full := used(all("10.0.4.16/28")...)
	limited := network(ipv4("10.0.4.16/28"), nil)
	limited.IPv4.MaxPrefixes = 1
	own := network(ipv4(), nil)
	own.Attachment, own.Addresses = podnet.HostDevice, []netip.Addr{address("10.0.4.70")}
	removing := network(ipv4("10.0.4.16/28"), nil)
	removing.Draining = true
	addressless := own
	addressless.Addresses = nil
	for name, c := range map[string]struct {
		network podnet.Network
		leases  []podnet.Lease
		want    string
	}{
		"no prefix yet": {network(ipv4(), nil), nil, "NodeENI n3 has no IPv4 prefix on node node-1 yet; EC2 assigns it soon, or kubectl eni why node-1 says why not"},
		"full, may grow": {network(ipv4("10.0.4.16/28"), nil), full, "no IPv4 address of NodeENI n3 is free on node node-1: 1 of at most 4 prefixes, " +
			"16 addresses in use and 0 at rest for 1m0s; multieni assigns another prefix, or kubectl eni why node-1 says why not"},
		"full for good": {limited, full, "no IPv4 address of NodeENI n3 is free on node node-1: 1 of at most 1 prefixes, 16 addresses in use and 0 at rest for 1m0s; " +
			"raise spec.pods.ipv4.prefixes.max of the NodeENI, or start the pod on another node"},
		"HostDevice twice": {own, used("10.0.4.70"), "pod upf/pod-10.0.4.70 has the interface of NodeENI n3 on node node-1; one pod can have it with attachment HostDevice: " +
			"stop that pod, or start this one on another node"},
		"HostDevice beside a pod that attached with IPVLAN": {own, used("10.0.4.17"), "pod upf/pod-10.0.4.17 has the interface of NodeENI n3 on node node-1; " +
			"one pod can have it with attachment HostDevice: stop that pod, or start this one on another node"},
		"HostDevice beside a pod of a family that the network lacks": {own, used("2001:db8:0:4:5::1"), "pod upf/pod-2001:db8:0:4:5::1 has the interface of NodeENI n3 " +
			"on node node-1; one pod can have it with attachment HostDevice: stop that pod, or start this one on another node"},
		"HostDevice beside a damaged lease": {own, []podnet.Lease{{Address: address("10.0.4.17"), Unreadable: true}}, "the lease of 10.0.4.17 is damaged, and a pod may have " +
			"the interface of NodeENI n3 on node node-1; one pod can have it with attachment HostDevice: kubectl eni node node-1 shows what to do, or start this one on another node"},
		"the interface is to be removed": {removing, used("10.0.4.16"), "the interface of NodeENI n3 on node node-1 takes no further pod, because it is to be removed, or was attached " +
			"a moment ago: start the pod on another node; kubectl eni why node-1 says why it is removed"},
		"HostDevice without an address": {addressless, nil, "the interface of NodeENI n3 on node node-1 has no address; see kubectl eni node node-1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.network.Allocate(c.leases, holder("a"), podnet.Request{}, start)
			if unavailable := (*podnet.UnavailableError)(nil); !errors.As(err, &unavailable) || err.Error() != c.want {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestConfigure(t *testing.T) {
	n := network(ipv4("10.0.4.16/28"), ipv6())
	n.Routes = []netip.Prefix{prefix("10.60.0.0/16"), prefix("::/0")}
	got, err := n.Configure(used("2001:db8:0:4:5::1", "10.0.4.16"), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := podnet.Configuration{
		Addresses: []podnet.Assignment{
			{Address: prefix("10.0.4.16/24"), Gateway: address("10.0.4.1")},
			{Address: prefix("2001:db8:0:4:5::1/80"), Gateway: address("fe80:ec2::1")},
		},
		Routes: []podnet.Route{
			{To: prefix("10.60.0.0/16"), Gateway: address("10.0.4.1")},
			{To: prefix("2001:db8:0:4::/64"), Gateway: address("fe80:ec2::1")},
			{To: prefix("::/0"), Gateway: address("fe80:ec2::1")},
		},
	}
	if diff := cmp.Diff(want, got, addresses); diff != "" {
		t.Error(diff)
	}
}

// Every link of a pod takes packets from anywhere, and nothing from routers; one without IPv6 has no settings of it.
func TestSettings(t *testing.T) {
	loose := hostnet.Set{Link: 7, Setting: hostnet.RPFilter, Value: 2}
	for name, c := range map[string]struct {
		present map[hostnet.Setting]int
		want    []hostnet.Set
		igmp    int
	}{
		"the defaults of a namespace": {
			map[hostnet.Setting]int{hostnet.RPFilter: 1, hostnet.AcceptRA: 1, hostnet.Autoconf: 1, hostnet.ARPIgnore: 1},
			[]hostnet.Set{loose, {Link: 7, Setting: hostnet.AcceptRA}, {Link: 7, Setting: hostnet.Autoconf}}, 0,
		},
		"no IPv6": {map[hostnet.Setting]int{hostnet.RPFilter: 0}, []hostnet.Set{loose}, 0},
		"a version of IGMP": {
			map[hostnet.Setting]int{hostnet.RPFilter: 2, hostnet.ForceIGMP: 0}, []hostnet.Set{{Link: 7, Setting: hostnet.ForceIGMP, Value: 2}}, 2,
		},
		"the kernel's version of IGMP": {map[hostnet.Setting]int{hostnet.RPFilter: 2, hostnet.ForceIGMP: 3}, nil, 0},
		"a namespace that forwards": {
			map[hostnet.Setting]int{hostnet.RPFilter: 2, hostnet.AcceptRA: 2, hostnet.Autoconf: 0}, []hostnet.Set{{Link: 7, Setting: hostnet.AcceptRA}}, 0,
		},
		"all made": {map[hostnet.Setting]int{hostnet.RPFilter: 2, hostnet.AcceptRA: 0, hostnet.Autoconf: 0}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, podnet.Settings(hostnet.LinkFacts{Index: 7, Settings: c.present}, c.igmp)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUsage(t *testing.T) {
	n := network(ipv4("10.0.4.16/28", "10.0.4.32/28"), ipv6())
	n.IPv4.Prefixes[1].Draining = true
	gone := start.Add(-30 * time.Second)
	leases := append(used("10.0.4.16", "2001:db8:0:4:5::1", "10.0.4.99"), freed(used("10.0.4.32"), gone)...)
	got := n.Usage(leases, start)
	want := podnet.Usage{
		Capacity: 17,
		IPv4: podnet.FamilyUsage{Used: 2, Resting: 1, Free: 15, Capacity: 17, Prefixes: []podnet.PrefixUsage{
			{Prefix: n.IPv4.Prefixes[0], Used: 1, Free: 15},
			{Prefix: n.IPv4.Prefixes[1], Resting: 1, IdleSince: gone},
		}},
		IPv6: podnet.FamilyUsage{Used: 1, Free: 1<<48 - 2, Capacity: 1<<48 - 1, Prefixes: []podnet.PrefixUsage{{Prefix: n.IPv6.Prefixes[0], Used: 1, Free: 1<<48 - 2}}},
		Pods: []podnet.PodUsage{
			{Name: "upf/pod-10.0.4.16", Addresses: []netip.Addr{address("10.0.4.16")}},
			{Name: "upf/pod-10.0.4.99", Addresses: []netip.Addr{address("10.0.4.99")}},
			{Name: "upf/pod-2001:db8:0:4:5::1", Addresses: []netip.Addr{address("2001:db8:0:4:5::1")}},
		},
	}
	if diff := cmp.Diff(want, got, addresses); diff != "" {
		t.Error(diff)
	}
}

func TestUsageNamesABoundedNumberOfPods(t *testing.T) {
	n := network(nil, ipv6())
	var leases []podnet.Lease
	for i := range podnet.MaxPods + 3 {
		leases = append(leases, used(fmt.Sprintf("2001:db8:0:4:5::%x", i+1))...)
	}
	if u := n.Usage(leases, start); len(u.Pods) != podnet.MaxPods || u.MorePods != 3 {
		t.Errorf("%d pods and %d more", len(u.Pods), u.MorePods)
	}
}

func TestCapacity(t *testing.T) {
	draining := func(f *podnet.Family) *podnet.Family {
		f.Prefixes[0].Draining = true
		return f
	}
	for name, c := range map[string]struct {
		network podnet.Network
		leases  []podnet.Lease
		want    int64
	}{
		"no prefix yet":                   {network(ipv4(), nil), nil, 0},
		"two prefixes":                    {network(ipv4("10.0.4.16/28", "10.0.4.32/28"), nil), nil, 32},
		"pods do not change it":           {network(ipv4("10.0.4.16/28"), nil), used("10.0.4.16", "10.0.4.17"), 16},
		"an address at rest neither":      {network(ipv4("10.0.4.16/28"), nil), freed(used("10.0.4.16"), start), 16},
		"a draining prefix takes no pods": {network(draining(ipv4("10.0.4.16/28", "10.0.4.32/28")), nil), used("10.0.4.17"), 17},
		"a pod needs both families":       {network(ipv4("10.0.4.16/28"), ipv6()), nil, 16},
		"one family has no prefix yet":    {network(ipv4(), ipv6()), nil, 0},
		"IPv6 alone has more than enough": {network(nil, ipv6()), nil, 1<<48 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.network.Usage(c.leases, start).Capacity; got != c.want {
				t.Errorf("the capacity is %d, want %d", got, c.want)
			}
		})
	}
}

// A draining network can lack its ranges or addresses. Pods that have addresses still count, because otherwise the
// interface would be detached.
func TestUsageOfUnknownRanges(t *testing.T) {
	host := network(ipv4(), nil)
	host.Attachment = podnet.HostDevice
	for name, n := range map[string]podnet.Network{
		"no range":                      network(nil, nil),
		"the range of another subnet":   network(&podnet.Family{Subnet: prefix("10.0.9.0/24"), Gateway: address("10.0.9.1")}, nil),
		"the own address of the device": host,
	} {
		t.Run(name, func(t *testing.T) {
			n.Draining = true
			if err := n.Validate(); err != nil {
				t.Fatal(err)
			}
			if got := n.Usage(used("10.0.4.17"), start); got.IPv4.Used != 1 || len(got.Pods) != 1 {
				t.Errorf("got %+v, want the pod", got)
			}
		})
	}
}

func TestUsageOfHostDevice(t *testing.T) {
	n := network(ipv4(), nil)
	n.Attachment, n.Addresses = podnet.HostDevice, []netip.Addr{address("10.0.4.70")}
	if u := n.Usage(nil, start).IPv4; u.Used != 0 || u.Free != 1 || u.Capacity != 1 {
		t.Errorf("before: %+v", u)
	}
	if u := n.Usage(used("10.0.4.70"), start).IPv4; u.Used != 1 || u.Free != 0 || u.Capacity != 1 {
		t.Errorf("after: %+v", u)
	}
	if u := n.Usage(used("10.0.4.17"), start).IPv4; u.Used != 1 || u.Free != 0 || u.Capacity != 1 {
		t.Errorf("with a pod that attached with IPVLAN: %+v", u)
	}
}

func TestDrain(t *testing.T) {
	family := ipv4("10.0.4.16/28", "10.0.4.32/28")
	both := cidrs(family)
	lower := both[:1]
	for name, c := range map[string]struct {
		leases     []podnet.Lease
		min, spare int
		returnable []netip.Prefix
		want       string
	}{
		"the highest idle one":                  {nil, 1, 8, both, "[10.0.4.32/28]"},
		"none that min wants":                   {nil, 2, 0, both, "[]"},
		"none that spare wants":                 {nil, 0, 17, both, "[]"},
		"none in use":                           {used("10.0.4.32"), 1, 8, both, "[10.0.4.16/28]"},
		"none that was in use five minutes ago": {freed(used("10.0.4.32", "10.0.4.16"), start.Add(-5*time.Minute)), 1, 0, both, "[]"},
		"all that nothing wants":                {nil, 0, 0, both, "[10.0.4.32/28 10.0.4.16/28]"},
		"none that stays":                       {nil, 1, 8, lower, "[10.0.4.16/28]"},
		"none if all stay":                      {nil, 0, 0, nil, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			demand := podnet.Demand{Min: c.min, Spare: c.spare, Returnable: c.returnable}
			if got := fmt.Sprint(family.Drain(c.leases, demand, start)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestDrained(t *testing.T) {
	f := ipv4("10.0.4.16/28", "10.0.4.32/28")
	f.Prefixes[1].Draining = true
	for name, c := range map[string]struct {
		leases []podnet.Lease
		want   string
	}{
		"unused":            {nil, "[10.0.4.32/28]"},
		"in use":            {used("10.0.4.40"), "[]"},
		"at rest":           {freed(used("10.0.4.40"), start), "[]"},
		"another one used":  {used("10.0.4.16"), "[10.0.4.32/28]"},
		"rested for a long": {freed(used("10.0.4.40"), start.Add(-time.Hour)), "[10.0.4.32/28]"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fmt.Sprint(f.Drained(c.leases, start)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
