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

// ipv4 returns an IPv4 family with the prefixes.
func ipv4(cidrs ...string) *podnet.Family {
	f := &podnet.Family{Subnet: prefix("10.0.4.0/24"), Gateway: address("10.0.4.1"), MaxPrefixes: 4}
	for _, c := range cidrs {
		f.Prefixes = append(f.Prefixes, prefix(c))
	}
	return f
}

func ipv6() *podnet.Family {
	return &podnet.Family{
		Subnet: prefix("2001:db8:0:4::/64"), Gateway: address("fe80:ec2::1"),
		Prefixes: []netip.Prefix{prefix("2001:db8:0:4:5::/80")},
	}
}

func network(v4, v6 *podnet.Family) podnet.Network {
	return podnet.Network{
		Name: "n3", NodeENI: "n3", Node: "node-1", Link: "net-n3", ENI: "eni-1", MAC: "02:00:00:00:00:01",
		MTU: 9001, Attachment: podnet.IPVLAN, UID: "uid-1", Phase: podnet.Open, IPv4: v4, IPv6: v6,
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
		"none that EC2 reserves":                  {network(ipv4("10.0.4.0/28"), nil), nil, "10.0.4.4"},
		"both families":                           {network(ipv4("10.0.4.16/28"), ipv6()), nil, "10.0.4.16 2001:db8:0:4:5::1"},
		"HostDevice: those of the interface":      {own, freed(used("10.0.4.70"), start), "10.0.4.70 10.0.4.71"},
	} {
		t.Run(name, func(t *testing.T) {
			leases, err := c.network.Allocate(c.leases, nil, holder("a"), podnet.Request{}, start)
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
	first, err := n.Allocate(nil, nil, holder("a"), podnet.Request{}, start)
	if err != nil {
		t.Fatal(err)
	}
	n.Phase = podnet.Closed
	again, err := n.Allocate(first, nil, holder("a"), podnet.Request{}, start.Add(time.Minute))
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
	removing.Phase = podnet.Closed
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
			_, err := c.network.Allocate(c.leases, nil, holder("a"), podnet.Request{}, start)
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
	gone := start.Add(-30 * time.Second)
	leases := append(used("10.0.4.16", "2001:db8:0:4:5::1", "10.0.4.99"), freed(used("10.0.4.32"), gone)...)
	got := n.Usage(leases, start)
	want := podnet.Usage{
		Capacity: 33,
		IPv4:     podnet.FamilyUsage{Used: 2, Resting: 1, Free: 30, Capacity: 33},
		IPv6:     podnet.FamilyUsage{Used: 1, Free: 1<<48 - 2, Capacity: 1<<48 - 1},
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
	closed := network(ipv4("10.0.4.16/28"), nil)
	closed.Phase = podnet.Closed
	for name, c := range map[string]struct {
		network podnet.Network
		leases  []podnet.Lease
		want    int64
	}{
		"no prefix yet":                   {network(ipv4(), nil), nil, 0},
		"two prefixes":                    {network(ipv4("10.0.4.16/28", "10.0.4.32/28"), nil), nil, 32},
		"pods do not change it":           {network(ipv4("10.0.4.16/28"), nil), used("10.0.4.16", "10.0.4.17"), 16},
		"an address at rest neither":      {network(ipv4("10.0.4.16/28"), nil), freed(used("10.0.4.16"), start), 16},
		"a closed network takes no pods":  {closed, used("10.0.4.17"), 0},
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

// A closed network can lack its ranges or addresses. Pods that have addresses still count, because otherwise the
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
			n.Phase = podnet.Closed
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

// The number of prefixes is absolute, so that a demand cannot count twice.
func TestWanted(t *testing.T) {
	for name, c := range map[string]struct {
		prefixes []string
		leases   []podnet.Lease
		demand   podnet.Demand
		want     int
	}{
		"the minimum":                        {nil, nil, podnet.Demand{Min: 2, Max: 4}, 2},
		"one for the spare addresses":        {nil, nil, podnet.Demand{Max: 4, Spare: 8}, 1},
		"pods leave less than the spare":     {[]string{"10.0.4.16/28"}, used(all("10.0.4.16/28")[:9]...), podnet.Demand{Min: 1, Max: 4, Spare: 8}, 2},
		"pods leave the spare":               {[]string{"10.0.4.16/28"}, used(all("10.0.4.16/28")[:8]...), podnet.Demand{Min: 1, Max: 4, Spare: 8}, 1},
		"addresses at rest are not free":     {[]string{"10.0.4.16/28"}, freed(used(all("10.0.4.16/28")[:9]...), start), podnet.Demand{Min: 1, Max: 4, Spare: 8}, 2},
		"the maximum":                        {[]string{"10.0.4.16/28"}, used(all("10.0.4.16/28")...), podnet.Demand{Min: 1, Max: 1, Spare: 8}, 1},
		"more than one at once":              {[]string{"10.0.4.16/28"}, used(all("10.0.4.16/28")...), podnet.Demand{Min: 1, Max: 9, Spare: 17}, 3},
		"EC2 reserves some of a prefix":      {[]string{"10.0.4.0/28"}, nil, podnet.Demand{Min: 1, Max: 4, Spare: 13}, 2},
		"fewer than there are, when idle":    {[]string{"10.0.4.16/28", "10.0.4.32/28"}, nil, podnet.Demand{Min: 1, Max: 4, Spare: 8}, 1},
		"an address outside needs no prefix": {[]string{"10.0.4.16/28"}, used("10.0.4.200"), podnet.Demand{Min: 1, Max: 4, Spare: 16}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := network(ipv4(c.prefixes...), nil).Wanted(c.leases, c.demand, start); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

// An address with a lease on another interface of the network is not given out: a prefix can move between interfaces
// while pods of the former one still run.
func TestNoAddressOfAnotherFolder(t *testing.T) {
	n := network(ipv4("10.0.4.16/28"), nil)
	others := append(used("10.0.4.16"), freed(used("10.0.4.17"), start)...)
	got, err := n.Allocate(nil, others, holder("a"), podnet.Request{}, start)
	if err != nil || len(got) != 1 || got[0].Address != address("10.0.4.18") {
		t.Errorf("got %v, %v", got, err)
	}
	asks := podnet.Request{IPs: []netip.Addr{address("10.0.4.16")}}
	if got, err := n.Allocate(nil, others, holder("a"), asks, start); err == nil {
		t.Errorf("a pod that asks for the address gets %v", got)
	}
	n.Attachment, n.Addresses = podnet.HostDevice, []netip.Addr{address("10.0.4.16")}
	if got, err := n.Allocate(nil, others, holder("a"), podnet.Request{}, start); err == nil {
		t.Errorf("a pod with the interface gets %v", got)
	}
}

func TestFolderOf(t *testing.T) {
	closed, open := network(ipv4(), nil), network(ipv4(), nil)
	closed.Phase = podnet.Closed
	mine := []podnet.Lease{{Address: address("10.0.4.16"), Holder: holder("a"), Since: start}}
	for name, c := range map[string]struct {
		folders []podnet.Folder
		want    int
	}{
		"none":                                {nil, -1},
		"the open one":                        {[]podnet.Folder{{Network: closed}, {Network: open}, {Network: closed}}, 1},
		"the one with its lease":              {[]podnet.Folder{{Network: open}, {Network: closed, Leases: mine}}, 1},
		"no former lease":                     {[]podnet.Folder{{Network: closed, Leases: freed(mine, start)}, {Network: open}, {Network: closed}}, 1},
		"a closed one, which says why not so": {[]podnet.Folder{{Network: closed}}, 0},
	} {
		if got := podnet.FolderOf(c.folders, holder("a")); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}
