// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podnet_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/podnet"
)

func TestNetworkSurvivesItsFile(t *testing.T) {
	n := network(ipv4("10.0.4.16/28"), ipv6())
	n.Routes = []netip.Prefix{prefix("10.60.0.0/16")}
	n.Addresses = []netip.Addr{address("10.0.4.70")}
	text, err := n.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := podnet.ParseNetwork(text)
	if diff := cmp.Diff(n, again, addresses); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestParseNetworkRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*podnet.Network)
		want   string
	}{
		"another version":           {func(n *podnet.Network) { n.Version = 2 }, "version is 2"},
		"a name with a slash":       {func(n *podnet.Network) { n.Name = "../n3" }, "name:"},
		"an unknown attachment":     {func(n *podnet.Network) { n.Attachment = "MACVLAN" }, "attachment is"},
		"no family":                 {func(n *podnet.Network) { n.IPv4 = nil }, "neither ipv4 nor ipv6"},
		"a prefix of other size":    {func(n *podnet.Network) { n.IPv4.Prefixes[0].CIDR = prefix("10.0.4.0/27") }, "no /28"},
		"a prefix of other subnet":  {func(n *podnet.Network) { n.IPv4.Prefixes[0].CIDR = prefix("10.0.5.0/28") }, "no /28 of subnet"},
		"a prefix twice":            {func(n *podnet.Network) { n.IPv4.Prefixes = append(n.IPv4.Prefixes, n.IPv4.Prefixes[0]) }, "twice"},
		"a gateway of other family": {func(n *podnet.Network) { n.IPv4.Gateway = address("fe80::1") }, "gateway"},
		"a route that is no network": {
			func(n *podnet.Network) { n.Routes = []netip.Prefix{prefix("10.60.0.1/16")} }, "routes",
		},
		"an address elsewhere": {func(n *podnet.Network) { n.Addresses = []netip.Addr{address("10.9.0.1")} }, "addresses"},
		"an address twice": {
			func(n *podnet.Network) { n.Addresses = []netip.Addr{address("10.0.4.9"), address("10.0.4.9")} }, "addresses",
		},
		"many routes":   {func(n *podnet.Network) { n.Routes = make([]netip.Prefix, 65) }, "65 routes"},
		"a large MTU":   {func(n *podnet.Network) { n.MTU = 1 << 20 }, "mtu"},
		"a node unsaid": {func(n *podnet.Network) { n.Node = "" }, "node:"},
	} {
		t.Run(name, func(t *testing.T) {
			n := network(ipv4("10.0.4.16/28"), nil)
			c.change(&n)
			if _, err := n.Encode(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestParseRefusesWhatIsNoFile(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": "", "half a file": `{"version": 1, "name": "n3"`, "two values": "{} {}", "no object": "[]",
		"too much": `{"version": 1, "name": "` + strings.Repeat("x", podnet.MaxSize) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := podnet.ParseNetwork([]byte(text)); err == nil {
				t.Error("a network")
			}
			if _, err := podnet.ParseLease([]byte(text)); err == nil {
				t.Error("a lease")
			}
		})
	}
}

func FuzzParseNetwork(f *testing.F) {
	text, err := network(ipv4("10.0.4.16/28"), ipv6()).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		n, err := podnet.ParseNetwork(text)
		if err != nil {
			return
		}
		if _, err := n.Allocate(nil, holder("a"), start); err != nil {
			t.Log(err)
		}
		again, err := n.Encode()
		if err != nil {
			t.Skip("grows beyond the bound with its spaces")
		}
		same, err := podnet.ParseNetwork(again)
		if diff := cmp.Diff(n, same, addresses); diff != "" || err != nil {
			t.Errorf("%v\n%s", err, diff)
		}
	})
}

func FuzzParseLease(f *testing.F) {
	text, err := used("10.0.4.16")[0].Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := podnet.ParseLease(text)
		if err != nil {
			return
		}
		again, err := l.Encode()
		if err != nil {
			t.Skip("grows beyond the bound with its spaces")
		}
		same, err := podnet.ParseLease(again)
		if diff := cmp.Diff(l, same, addresses); diff != "" || err != nil {
			t.Errorf("%v\n%s", err, diff)
		}
	})
}
