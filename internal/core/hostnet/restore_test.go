// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostnet_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/hostnet/hostnettest"
)

// exact compares addresses as values.
var exact = cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})

// given is a host whose link ens6 was configured for a network with a primary address, and then changed.
func given(t *testing.T, change func(*hostnet.LinkFacts)) *hostnettest.Kernel {
	t.Helper()
	k := hostnettest.New(with(func(l *hostnet.LinkFacts) { l.Alias, l.AltNames = "rack 7", []string{"enp0s6"} }))
	settle(t, k, []hostnet.Link{primary()})
	k.Change(3, change)
	return k
}

// TestConfigurationOfARestoredLink compares the desired state of a link that no NodeENI has any more, after changes of
// other programs: what they added stays, and what multieni changed is restored.
func TestConfigurationOfARestoredLink(t *testing.T) {
	original := hostnet.LinkConfig{
		Index: 3, Name: "ens6", AltNames: []string{"enp0s6"}, Alias: "rack 7", MTU: 1500, Addresses: []netip.Prefix{},
		Settings: map[hostnet.Setting]int{
			hostnet.ARPAnnounce: 0, hostnet.ARPIgnore: 0, hostnet.RPFilter: 0, hostnet.AcceptRA: 1, hostnet.AddrGenMode: 0,
			hostnet.Autoconf: 1,
		},
	}
	but := func(change func(*hostnet.LinkConfig)) hostnet.LinkConfig {
		config := original
		change(&config)
		return config
	}
	for name, tc := range map[string]struct {
		change   func(*hostnet.LinkFacts)
		readOnly []hostnet.Setting
		want     hostnet.LinkConfig
	}{
		"nothing": {func(*hostnet.LinkFacts) {}, nil, original},
		"another name": {
			func(l *hostnet.LinkFacts) { l.Name = "eth7" }, nil, but(func(c *hostnet.LinkConfig) { c.Name = "eth7" }),
		},
		"an alternative name": {
			func(l *hostnet.LinkFacts) { l.AltNames = append(l.AltNames, "spare") }, nil,
			but(func(c *hostnet.LinkConfig) { c.AltNames = []string{"enp0s6", "spare"} }),
		},
		"an address": {
			func(l *hostnet.LinkFacts) { l.Addresses = append(l.Addresses, prefixes("192.168.7.7/24")...) }, nil,
			but(func(c *hostnet.LinkConfig) { c.Addresses = prefixes("192.168.7.7/24") }),
		},
		"a record without an MTU, which stays as it is": {
			func(l *hostnet.LinkFacts) { l.Alias = "multieni name=net-web up=1" }, nil,
			but(func(c *hostnet.LinkConfig) {
				c.Alias, c.Up, c.MTU, c.Settings = "", true, 9001, map[hostnet.Setting]int{}
			}),
		},
		"settings that the kernel no longer has, and read-only ones": {
			func(l *hostnet.LinkFacts) { delete(l.Settings, hostnet.AcceptRA) },
			[]hostnet.Setting{hostnet.RPFilter, hostnet.ARPIgnore},
			but(func(c *hostnet.LinkConfig) {
				c.Settings = map[hostnet.Setting]int{hostnet.ARPAnnounce: 0, hostnet.AddrGenMode: 0, hostnet.Autoconf: 1}
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			facts := given(t, tc.change).Facts()
			facts.ReadOnly = tc.readOnly
			want := hostnet.HostConfig{Links: []hostnet.LinkConfig{tc.want}}
			if diff := cmp.Diff(want, hostnet.Configure(nil, facts), exact); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRestoreOfALinkThatIsDown checks that a link that another program took down is not taken down again.
func TestRestoreOfALinkThatIsDown(t *testing.T) {
	k := given(t, func(*hostnet.LinkFacts) {})
	k.SetDown(3)
	for _, op := range hostnet.Diff(hostnet.Configure(nil, k.Facts()), k.Facts()) {
		if _, is := op.(hostnet.SetDown); is {
			t.Errorf("%s, and it is down already", op)
		}
	}
	settle(t, k, nil)
}

// TestAnExcludedLinkIsNotRestored checks that the operator's exclusion also ends the work on a link with a record.
func TestAnExcludedLinkIsNotRestored(t *testing.T) {
	k := given(t, func(l *hostnet.LinkFacts) { l.Excluded = true })
	for _, links := range [][]hostnet.Link{nil, {primary()}} {
		for _, op := range hostnet.Diff(hostnet.Configure(links, k.Facts()), k.Facts()) {
			if op.LinkIndex() == 3 && !strings.Contains(op.String(), "route") {
				t.Errorf("with %d desired links: %s", len(links), op)
			}
		}
	}
}

// TestAddressesOfALink checks which addresses stay on a link in each mode: those of other programs that EC2 did not
// assign.
func TestAddressesOfALink(t *testing.T) {
	for name, tc := range map[string]struct {
		mode      hostnet.AddressMode
		has, want []string
	}{
		"an assigned address, from a DHCP client": {hostnet.None, []string{"10.0.1.10/24"}, nil},
		"a secondary address":                     {hostnet.None, []string{"10.0.1.11/32"}, nil},
		"an address in a delegated prefix":        {hostnet.None, []string{"10.0.1.65/32"}, nil},
		"an address behind a delegated prefix":    {hostnet.None, []string{"10.0.1.80/32"}, []string{"10.0.1.80/32"}},
		"addresses of others, sorted": {
			hostnet.None, []string{"fe80::1/64", "192.168.7.7/24"}, []string{"192.168.7.7/24", "fe80::1/64"},
		},
		"the primary address with a longer prefix": {
			hostnet.Primary, []string{"10.0.1.10/24"}, []string{"10.0.1.10/32", "2600:1f14::10/128"},
		},
		"the primary address as desired": {
			hostnet.Primary, []string{"10.0.1.10/32", "9.9.9.9/32"}, []string{"9.9.9.9/32", "10.0.1.10/32", "2600:1f14::10/128"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := primary()
			l.Mode = tc.mode
			facts := with(func(f *hostnet.LinkFacts) { f.Addresses = prefixes(tc.has...) })
			config := hostnet.Configure([]hostnet.Link{l}, facts)
			if diff := cmp.Diff(prefixes(tc.want...), config.Links[0].Addresses, exact, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnAddressThatEC2DoesNotListIsThereOnce checks a primary address that the list of assigned ones lacks: the link
// gets it once, and keeps it.
func TestAnAddressThatEC2DoesNotListIsThereOnce(t *testing.T) {
	l := primary()
	l.Assigned = nil
	k := hostnettest.New(host())
	settle(t, k, []hostnet.Link{l})
	withoutRules := k.Facts()
	withoutRules.Rules = nil
	for name, facts := range map[string]hostnet.Facts{
		"configured": k.Facts(), "another program removed its rules": withoutRules,
	} {
		config := hostnet.Configure([]hostnet.Link{l}, facts)
		want := prefixes("10.0.1.10/32", "2600:1f14::10/128")
		if diff := cmp.Diff(want, config.Links[0].Addresses, exact); diff != "" {
			t.Errorf("%s: addresses (-want +got):\n%s", name, diff)
		}
	}
}

// TestConfigureIsSorted compares the order of links and rules where MAC addresses, indices and slots have different
// orders.
func TestConfigureIsSorted(t *testing.T) {
	links, facts := neighbors("db", "web")
	for n := range links {
		links[n].Mode = hostnet.Primary
	}
	links[1].Addresses = addresses("2600:1f14::10", "10.0.1.10")
	facts.Links[1].Index, facts.Links[2].Index = 9, 3
	config := hostnet.Configure(links, facts)
	var order []string
	for _, l := range config.Links {
		order = append(order, l.Name)
	}
	for _, r := range config.Rules {
		order = append(order, r.String())
	}
	want := []string{
		"ens6", "ens5", "30001: from 10.0.1.10/32 lookup 20001 proto 109",
		"30001: from 2600:1f14::10/128 lookup 20001 proto 109",
		"30002: from 10.0.1.10/32 lookup 20002 proto 109",
	}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// TestNothingChangesTheArguments checks that all functions leave the desired links and the facts unchanged. The agent
// keeps both.
func TestNothingChangesTheArguments(t *testing.T) {
	k := given(t, func(l *hostnet.LinkFacts) { l.AltNames = []string{"net-web", "zz", "enp0s6"} })
	links := []hostnet.Link{primary()}
	links[0].Settings = map[hostnet.Setting]int{hostnet.ProxyARP: 1}
	same := primary()
	same.Settings = map[hostnet.Setting]int{hostnet.ProxyARP: 1}
	for _, desired := range [][]hostnet.Link{links, nil} {
		facts := k.Facts()
		hostnet.Diff(hostnet.Configure(desired, facts), facts)
		hostnet.Observe(desired, facts)
		if diff := cmp.Diff(k.Facts(), facts, exact); diff != "" {
			t.Errorf("facts, with %d links (-before +after):\n%s", len(desired), diff)
		}
	}
	if diff := cmp.Diff(same, links[0], exact); diff != "" {
		t.Errorf("link (-before +after):\n%s", diff)
	}
}
