// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podnet_test

import (
	"errors"
	"net/netip"
	"regexp"
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
		"a name with a slash":       {func(n *podnet.Network) { n.Name = "../n3" }, "name:"},
		"an unknown attachment":     {func(n *podnet.Network) { n.Attachment = "MACVLAN" }, "attachment is"},
		"no family":                 {func(n *podnet.Network) { n.IPv4 = nil }, "neither ipv4 nor ipv6"},
		"a prefix of other size":    {func(n *podnet.Network) { n.IPv4.Prefixes[0] = prefix("10.0.4.0/27") }, "no /28"},
		"a prefix of other subnet":  {func(n *podnet.Network) { n.IPv4.Prefixes[0] = prefix("10.0.5.0/28") }, "no /28 of subnet"},
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
		"no phase":      {func(n *podnet.Network) { n.Phase = "" }, "phase"},
		"no object":     {func(n *podnet.Network) { n.UID = "" }, "uid"},
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

// Programs of several releases share the files of a node during an upgrade, and after a return to an earlier release.
func TestFilesOfOtherReleases(t *testing.T) {
	network, lease := network(ipv4("10.0.4.16/28"), nil), used("10.0.4.17")[0]
	written := func(encode func() ([]byte, error), version string) []byte {
		text, err := encode()
		if err != nil || !regexp.MustCompile(`"version": \d+`).Match(text) {
			t.Fatalf("%v: %s", err, text)
		}
		return regexp.MustCompile(`"version": \d+`).ReplaceAll(text, []byte(`"to come": {}, "version": `+version))
	}
	t.Run("a later network is refused, and its known fields are readable", func(t *testing.T) {
		got, err := podnet.ParseNetwork(written(network.Encode, "99"))
		if later := (*podnet.LaterVersionError)(nil); !errors.As(err, &later) || later.Version != 99 {
			t.Errorf("got %v, want a later version", err)
		}
		if diff := cmp.Diff(network, got, addresses); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a later lease is readable, so that its pod can end", func(t *testing.T) {
		got, err := podnet.ParseLease(written(lease.Encode, "99"))
		if diff := cmp.Diff(lease, got, addresses); diff != "" || err != nil {
			t.Errorf("%v\n%s", err, diff)
		}
	})
	t.Run("a file without a version is invalid", func(t *testing.T) {
		for _, version := range []string{"0", "-1", `"1"`, "1.5"} {
			if _, err := podnet.ParseNetwork(written(network.Encode, version)); err == nil {
				t.Errorf("a network of version %s", version)
			}
			if _, err := podnet.ParseLease(written(lease.Encode, version)); err == nil {
				t.Errorf("a lease of version %s", version)
			}
		}
	})
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
		if _, err := n.Allocate(nil, nil, holder("a"), podnet.Request{}, start); err != nil {
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
