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

	"github.com/multieni/multieni/internal/core/podnet"
)

// granted is a network whose pods may ask for addresses of two ranges.
func granted() podnet.Network {
	n := network(ipv4("10.0.4.16/28"), ipv6())
	n.IPv4.Grant([]netip.Prefix{prefix("10.0.4.192/27"), prefix("10.0.4.240/28"), prefix("10.0.5.0/28")})
	return n
}

// replica is the link of a StatefulSet's pod.
func replica(name, uid string) podnet.Holder {
	h := holder(name)
	h.ContainerID, h.PodUID = uid, uid
	return h
}

func request(t *testing.T, ips, fixed, routes string) podnet.Request {
	t.Helper()
	r, err := podnet.ParseRequest(strings.Fields(ips), strings.Fields(fixed), strings.Fields(routes))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAPodGetsTheAddressItAsksFor(t *testing.T) {
	for name, c := range map[string]struct {
		pod, ips, fixed string
		want            string
	}{
		"the first of its range":             {pod: "upf-0", fixed: "10.0.4.192/28", want: "10.0.4.192"},
		"the one of its ordinal":             {pod: "upf-11", fixed: "10.0.4.192/28", want: "10.0.4.203"},
		"of the range of its zone":           {pod: "upf-1", fixed: "10.0.80.192/28 10.0.4.192/28", want: "10.0.4.193"},
		"of the second range of its zone":    {pod: "upf-17", fixed: "10.0.4.192/28 10.0.4.240/28", want: "10.0.4.241"},
		"a granted address":                  {pod: "dns", ips: "10.0.4.210", want: "10.0.4.210"},
		"with a prefix length":               {pod: "dns", ips: "10.0.4.210/24", want: "10.0.4.210"},
		"a free address of its prefixes":     {pod: "dns", ips: "10.0.4.30", want: "10.0.4.30"},
		"an IPv6 address of its prefix":      {pod: "dns", ips: "2001:db8:0:4:5::77", want: "10.0.4.16 2001:db8:0:4:5::77"},
		"one of each family":                 {pod: "dns", ips: "10.0.4.210 2001:db8:0:4:5::77", want: "10.0.4.210 2001:db8:0:4:5::77"},
		"no granted address without asking":  {pod: "upf-0", want: "10.0.4.16"},
		"of a StatefulSet with dotted names": {pod: "a.b-2", fixed: "10.0.4.192/28", want: "10.0.4.194"},
	} {
		t.Run(name, func(t *testing.T) {
			mine, err := granted().Allocate(nil, nil, holder(c.pod), request(t, c.ips, c.fixed, ""), start)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, l := range mine {
				if want := strings.Contains(c.want, "2001"); l.Address.Is4() || want {
					got = append(got, l.Address.String())
				}
			}
			if strings.Join(got, " ") != c.want || len(mine) != 2 {
				t.Errorf("got %v of %d leases, want %s and two leases", got, len(mine), c.want)
			}
		})
	}
}

func TestARequestThatNoNodeCanFulfill(t *testing.T) {
	hostDevice := granted()
	hostDevice.Attachment, hostDevice.Addresses = podnet.HostDevice, []netip.Addr{address("10.0.4.70")}
	six := network(nil, ipv6())
	for name, c := range map[string]struct {
		network    podnet.Network
		pod        string
		ips, fixed string
		routes     string
		says       string
	}{
		"no ordinal":                 {granted(), "dns", "", "10.0.4.192/28", "", "pod upf/dns asks for a fixed address, and its name does not end with an ordinal"},
		"no ordinal but zeros":       {granted(), "upf-00", "", "10.0.4.192/28", "", "does not end with an ordinal"},
		"more pods than addresses":   {granted(), "upf-16", "", "10.0.4.192/28", "", "10.0.4.192/28 of pod upf/upf-16 has no address for ordinal 16"},
		"no range of the zone":       {granted(), "upf-0", "", "10.0.80.192/28", "", "none of these ranges is in subnet 10.0.4.0/24 of NodeENI n3 on node node-1: add one"},
		"a range without a grant":    {granted(), "upf-0", "", "10.0.4.128/28", "", "10.0.4.128/28, which is not in pods.floating of NodeENI n3"},
		"a range beyond its grant":   {granted(), "upf-0", "", "10.0.4.192/26", "", "10.0.4.192/26, which is not in pods.floating"},
		"an address without a grant": {granted(), "dns", "10.0.4.100", "", "", "neither in a prefix of NodeENI n3 on node node-1 nor in pods.floating: ask for an address of 10.0.4.192/27, 10.0.4.240/28, 10.0.4.16/28"},
		"of another subnet":          {granted(), "dns", "10.0.5.3", "", "", "asks for 10.0.5.3, and node node-1 is in subnet 10.0.4.0/24"},
		"the last of the subnet":     {granted(), "dns", "10.0.4.255", "", "", "asks for 10.0.4.255, which is reserved in subnet 10.0.4.0/24"},
		"HostDevice":                 {hostDevice, "dns", "10.0.4.210", "", "", "pods.attachment HostDevice"},
		"fixed without IPv4":         {six, "upf-0", "", "10.0.4.192/28", "", "gives pods no IPv4 address"},
		"IPv4 without IPv4":          {six, "dns", "10.0.4.210", "", "", "gives pods no address of that family"},
		"a route without the family": {six, "dns", "", "", "10.61.0.0/16", "a route to 10.61.0.0/16, and NodeENI n3 gives pods no address of that family"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.network.Allocate(nil, nil, holder(c.pod), request(t, c.ips, c.fixed, c.routes), start)
			if refused := (*podnet.RequestError)(nil); !errors.As(err, &refused) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %v, want a refusal that says %q", err, c.says)
			}
		})
	}
}

// A prefix inside a granted range is a mistake of the NodeENI: EC2 does not move its addresses.
func TestAFixedAddressInAPrefixIsRefused(t *testing.T) {
	n := network(ipv4("10.0.4.192/28"), nil)
	n.IPv4.Grant([]netip.Prefix{prefix("10.0.4.0/24")})
	_, err := n.Allocate(nil, nil, holder("upf-3"), request(t, "", "10.0.4.192/28", ""), start)
	if err == nil || !strings.Contains(err.Error(), "10.0.4.195, which EC2 has assigned to an interface with a prefix") {
		t.Errorf("the error is %v", err)
	}
	if mine, err := n.Allocate(nil, nil, holder("dns"), request(t, "10.0.4.195", "", ""), start); err != nil || len(n.Granted(mine)) != 0 {
		t.Errorf("an address of the prefix: %v, %v; it follows no pod", mine, err)
	}
}

func TestParseRequestRefuses(t *testing.T) {
	many := strings.Repeat("10.1.0.0/24 ", 17)
	for name, c := range map[string]struct{ ips, fixed, routes, says string }{
		"both":                        {"10.0.4.9", "10.0.4.0/28", "", "set one of them"},
		"two addresses of one family": {"10.0.4.9 10.0.4.10", "", "", "two addresses of one family"},
		"no address":                  {"ten", "", "", `ips has "ten"`},
		"an address with a zone":      {"fe80::1%eth0", "", "", "which is no address"},
		"a range with bits":           {"", "10.0.4.9/28", "", `fixed has "10.0.4.9/28"`},
		"a fixed IPv6 range":          {"", "2001:db8::/120", "", "EC2 cannot move IPv6"},
		"a route with bits":           {"", "", "10.61.0.1/16", `routes has "10.61.0.1/16"`},
		"too many routes":             {"", "", many, "at most 16"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := podnet.ParseRequest(strings.Fields(c.ips), strings.Fields(c.fixed), strings.Fields(c.routes))
			if refused := (*podnet.RequestError)(nil); !errors.As(err, &refused) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %v, want %q", err, c.says)
			}
		})
	}
}

// TestARequestedAddressIsTaken starts a pod that asks for an address with a lease.
func TestARequestedAddressIsTaken(t *testing.T) {
	n := granted()
	ask := request(t, "", "10.0.4.192/28", "")
	first, err := n.Allocate(nil, nil, replica("upf-0", "uid-1"), ask, start)
	if err != nil {
		t.Fatal(err)
	}
	first[0].Claim = &podnet.Claim{Object: "o", Sequence: 3}
	ended := freed(first, start)
	for name, c := range map[string]struct {
		leases []podnet.Lease
		by     podnet.Holder
		after  time.Duration
		says   string
		claims bool
	}{
		"the earlier pod has not ended":         {leases: first, by: replica("upf-0", "uid-2"), says: "pod upf/upf-0 asks for 10.0.4.192 of NodeENI n3, and pod upf/upf-0 on node node-1 still has it"},
		"the same name gets it at once":         {leases: ended, by: replica("upf-0", "uid-2")},
		"the same pod goes on with its claim":   {leases: ended, by: replica("upf-0", "uid-1"), claims: true},
		"another name waits until it rested":    {leases: ended, by: replica("amf-0", "uid-3"), after: time.Second, says: "which rests for 1m0s after pod upf/upf-0"},
		"another name gets it after that":       {leases: ended, by: replica("amf-0", "uid-3"), after: time.Minute},
		"a damaged lease keeps the address":     {leases: []podnet.Lease{{Address: address("10.0.4.192"), Holder: holder("x"), Unreadable: true}}, by: replica("upf-0", "uid-2"), says: "is damaged"},
		"a repeated call gets the lease it has": {leases: first, by: replica("upf-0", "uid-1"), claims: true},
	} {
		t.Run(name, func(t *testing.T) {
			mine, err := n.Allocate(c.leases, nil, c.by, ask, start.Add(c.after))
			if c.says != "" {
				if unavailable := (*podnet.UnavailableError)(nil); !errors.As(err, &unavailable) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("the error is %v, want one that says %q", err, c.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if mine[0].Address != address("10.0.4.192") || (mine[0].Claim != nil) != c.claims {
				t.Errorf("got %+v, want 10.0.4.192 with the claim: %t", mine[0], c.claims)
			}
		})
	}
}

// TestAPodHasItsAddressSinceItsFirstSandbox starts two further sandboxes of a pod, a new pod of its name, and the same
// container on another link. Agents of other nodes compare the times.
func TestAPodHasItsAddressSinceItsFirstSandbox(t *testing.T) {
	n, ask := granted(), request(t, "", "10.0.4.192/28", "")
	var leases []podnet.Lease
	for n2, step := range []struct {
		uid, container string
		link           int
		want           time.Duration
	}{
		{"uid-1", "c1", 5, 0}, {"uid-1", "c2", 5, 0}, {"uid-1", "c3", 5, 0}, {"uid-1", "c3", 7, 0}, {"uid-2", "c4", 7, 4 * time.Second},
	} {
		by := replica("upf-0", step.uid)
		by.ContainerID, by.Link = step.container, step.link
		now := start.Add(time.Duration(n2) * time.Second)
		if n2 > 0 && leases[0].ContainerID != step.container {
			leases = freed(leases, now)
		}
		mine, err := n.Allocate(leases, nil, by, ask, now)
		if err != nil {
			t.Fatal(err)
		}
		if got := mine[0].PodSince().Sub(start); got != step.want {
			t.Errorf("container %s has the address since %v, want %v", step.container, got, step.want)
		}
		leases = mine
	}
}

func TestRoutesThatAPodAsksFor(t *testing.T) {
	n := granted()
	n.Routes = []netip.Prefix{prefix("10.60.0.0/16")}
	got, err := n.Configure(used("10.0.4.192"), []netip.Prefix{prefix("10.61.0.0/16"), prefix("10.60.0.0/16")})
	if err != nil {
		t.Fatal(err)
	}
	gateway, routers := address("10.0.4.1"), address("fe80:ec2::1")
	want := []podnet.Route{{prefix("10.60.0.0/16"), gateway}, {prefix("10.61.0.0/16"), gateway}, {prefix("2001:db8:0:4::/64"), routers}}
	if diff := cmp.Diff(want, got.Routes, addresses); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
}

// TestGrantIsWithinTheSubnet gives a network the ranges of all zones.
func TestGrantIsWithinTheSubnet(t *testing.T) {
	for ranges, want := range map[string]string{
		"10.0.4.192/28 10.0.80.192/28": "[10.0.4.192/28]",
		"10.0.0.0/16 10.0.4.192/28":    "[10.0.4.0/24]",
		"10.0.80.0/24":                 "[]",
	} {
		f := ipv4()
		var all []netip.Prefix
		for _, r := range strings.Fields(ranges) {
			all = append(all, prefix(r))
		}
		f.Grant(all)
		if got := fmt.Sprint(f.Granted); got != want {
			t.Errorf("of %s are granted %s, want %s", ranges, got, want)
		}
	}
}

// The addresses that a pod brings up later, and those that came without a gateway, leave by the pod's link too.
func TestRoutingOfGrantedRanges(t *testing.T) {
	rules, routes := granted().Routing(7, []podnet.Assignment{{Address: prefix("10.0.4.17/24")}})
	var got []string
	for _, r := range rules {
		got = append(got, r.From.String())
	}
	if want := "10.0.4.17/32 10.0.4.192/27 10.0.4.240/28"; strings.Join(got, " ") != want {
		t.Errorf("rules are from %v, want %s", got, want)
	}
	got = nil
	for _, r := range routes {
		got = append(got, fmt.Sprintf("%v>%v", r.To, r.Gateway))
	}
	if want := "10.0.4.0/24>invalid IP 0.0.0.0/0>10.0.4.1"; strings.Join(got, " ") != want {
		t.Errorf("routes are %v, want %s", got, want)
	}
}

// TestAClaimOutlivesItsGrant edits a network under a pod that asked for its address, which the agent has claimed.
func TestAClaimOutlivesItsGrant(t *testing.T) {
	claimed := podnet.Lease{Address: address("10.0.4.200"), Holder: podnet.Holder{ContainerID: "c1", Interface: "net1"},
		Claim: &podnet.Claim{Object: "o", Sequence: 1}}
	other := podnet.Lease{Address: address("10.0.4.201"), Holder: podnet.Holder{ContainerID: "c2", Interface: "net1"}}
	for name, tc := range map[string]struct {
		edit func(*podnet.Network)
		want int
	}{
		"no edit":                  {func(*podnet.Network) {}, 2},
		"the range goes":           {func(n *podnet.Network) { n.IPv4.Granted = nil }, 1},
		"pods get no IPv4 address": {func(n *podnet.Network) { n.IPv4 = nil }, 1},
		"pods get the interface":   {func(n *podnet.Network) { n.Attachment = podnet.HostDevice }, 1},
		"a prefix has the address": {func(n *podnet.Network) {
			n.IPv4.Prefixes = append(n.IPv4.Prefixes, prefix("10.0.4.192/28"))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			n := granted()
			tc.edit(&n)
			if got := n.Granted([]podnet.Lease{claimed, other}); len(got) != tc.want {
				t.Errorf("the leases that follow their pods are %v, want %d", got, tc.want)
			}
		})
	}
}
