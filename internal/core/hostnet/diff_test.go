// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostnet_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/hostnet/hostnettest"
)

// The record is written first and shortened last, a rule precedes its address, and the agent logs each step.
func TestOperationsAreOrdered(t *testing.T) {
	const (
		record  = `multieni name=net-web up=0 mtu=1500 4.arp_ignore=0 6.accept_ra=1 6.addr_gen_mode=0 6.autoconf=1`
		primary = `multieni name=net-web up=0 mtu=1500 4.arp_announce=0 4.arp_ignore=0 4.rp_filter=0 6.accept_ra=1 6.addr_gen_mode=0 6.autoconf=1`
	)
	v4 := link()
	v4.Mode = hostnet.Primary
	cases := map[string]struct {
		before, after []hostnet.Link
		want          string
	}{
		"a new link without address": {nil, []hostnet.Link{link()}, `
link 3: set alias "` + record + `"
link 3: add altname net-web
link 3: set ipv4.arp_ignore to 1
link 3: set ipv6.accept_ra to 0
link 3: set ipv6.addr_gen_mode to 1
link 3: set ipv6.autoconf to 0
link 3: set MTU to 9001
link 3: set up
`},
		"a primary address for a link that has none": {[]hostnet.Link{link()}, []hostnet.Link{v4}, `
add rule 30001: from 10.0.1.10/32 lookup 20001 proto 109
link 3: set alias "` + primary + `"
link 3: set ipv4.arp_announce to 2
link 3: set ipv4.rp_filter to 2
link 3: add address 10.0.1.10/32
add route 0.0.0.0/0 via 10.0.1.1 dev 3 table 20001 metric 0 proto 109
add route 10.0.1.0/24 dev 3 table 20001 metric 0 proto 109
`},
		"no address any more": {[]hostnet.Link{v4}, []hostnet.Link{link()}, `
remove route 0.0.0.0/0 via 10.0.1.1 dev 3 table 20001 metric 0 proto 109
remove route 10.0.1.0/24 dev 3 table 20001 metric 0 proto 109
link 3: set ipv4.arp_announce to 0
link 3: set ipv4.rp_filter to 0
link 3: remove address 10.0.1.10/32
remove rule 30001: from 10.0.1.10/32 lookup 20001 proto 109
link 3: set alias "` + record + `"
`},
		"no longer desired": {[]hostnet.Link{link()}, nil, `
link 3: remove altname net-web
link 3: set ipv4.arp_ignore to 0
link 3: set ipv6.accept_ra to 1
link 3: set ipv6.addr_gen_mode to 0
link 3: set ipv6.autoconf to 1
link 3: set MTU to 1500
link 3: set down
link 3: set alias ""
`},
		"nothing changed": {[]hostnet.Link{v4}, []hostnet.Link{v4}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			k := hostnettest.New(host())
			settle(t, k, c.before)
			var got strings.Builder
			for _, op := range hostnet.Diff(hostnet.Configure(c.after, k.Facts()), k.Facts()) {
				got.WriteString(op.String() + "\n")
			}
			if diff := cmp.Diff(strings.TrimPrefix(c.want, "\n"), got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The agent groups operations by link; a rule belongs to no link.
func TestOperationsNameTheirLink(t *testing.T) {
	route := hostnet.Route{Link: 3}
	cases := map[string]struct {
		operation hostnet.Operation
		want      int
	}{
		"alias":           {hostnet.SetAlias{Link: 3}, 3},
		"new altname":     {hostnet.AddAltName{Link: 3}, 3},
		"removed altname": {hostnet.RemoveAltName{Link: 3}, 3},
		"setting":         {hostnet.Set{Link: 3}, 3},
		"MTU":             {hostnet.SetMTU{Link: 3}, 3},
		"up":              {hostnet.SetUp{Link: 3}, 3},
		"down":            {hostnet.SetDown{Link: 3}, 3},
		"new address":     {hostnet.AddAddress{Link: 3}, 3},
		"removed address": {hostnet.RemoveAddress{Link: 3}, 3},
		"new route":       {hostnet.AddRoute{Route: route}, 3},
		"removed route":   {hostnet.RemoveRoute{Route: route}, 3},
		"new rule":        {hostnet.AddRule{}, 0},
		"removed rule":    {hostnet.RemoveRule{}, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := c.operation.LinkIndex(); got != c.want {
				t.Errorf("LinkIndex is %d, want %d", got, c.want)
			}
		})
	}
}

// A link that disappears between two reads of the kernel gets no operation; the index is not used again.
func TestDisappearedLinkGetsNoOperation(t *testing.T) {
	config := hostnet.Configure([]hostnet.Link{link()}, host())
	if operations := hostnet.Diff(config, unplugged()); len(operations) > 0 {
		t.Errorf("the operations are %v, want none", operations)
	}
}

// Each slot has a route table and a rule priority of its own, so that two interfaces in one subnet do not mix.
func TestSlotsHaveTheirOwnTables(t *testing.T) {
	cases := map[string]struct {
		slot            eni.Slot
		table, priority int
	}{
		"first":                        {eni.Slot{Device: 1}, 20001, 30001},
		"last of card 0":               {eni.Slot{Device: 127}, 20127, 30127},
		"first of card 1":              {eni.Slot{Card: 1}, 20128, 30128},
		"same device on another card":  {eni.Slot{Card: 1, Device: 1}, 20129, 30129},
		"before the priorities repeat": {eni.Slot{Card: 15, Device: 79}, 21999, 31999},
		"where the priorities repeat":  {eni.Slot{Card: 15, Device: 80}, 22000, 30000},
		"last of the largest instance": {eni.Slot{Card: 31, Device: 1}, 23969, 31969},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l := primary()
			l.Slot = c.slot
			config := hostnet.Configure([]hostnet.Link{l}, host())
			for _, route := range config.Routes {
				if route.Table != c.table {
					t.Errorf("the route %v is in table %d, want %d", route, route.Table, c.table)
				}
			}
			for _, rule := range config.Rules {
				if rule.Table != c.table || rule.Priority != c.priority {
					t.Errorf("the rule is %v, want priority %d and table %d", rule, c.priority, c.table)
				}
			}
			if len(config.Routes) != 3 || len(config.Rules) != 2 {
				t.Errorf("%d routes and %d rules, want 3 and 2", len(config.Routes), len(config.Rules))
			}
		})
	}
}

// The host has the primary address only with routes for the families that the interface has.
func TestRoutesFollowTheFamilies(t *testing.T) {
	cases := map[string]struct {
		change func(*hostnet.Link)
		routes []string
		rules  []string
	}{
		"IPv4 alone": {
			func(l *hostnet.Link) { l.Addresses = l.Addresses[:1] },
			[]string{"0.0.0.0/0", "10.0.1.0/24"}, []string{"10.0.1.10/32"},
		},
		"IPv6 alone": {
			func(l *hostnet.Link) { l.Addresses = l.Addresses[1:] },
			[]string{"::/0"}, []string{"2600:1f14::10/128"},
		},
		"IPv4 whose subnet is not known yet": {
			func(l *hostnet.Link) { l.Addresses, l.Subnet = l.Addresses[:1], hostnet.Link{}.Subnet },
			nil, []string{"10.0.1.10/32"},
		},
		"no address": {func(l *hostnet.Link) { l.Addresses = nil }, nil, nil},
		"no mode":    {func(l *hostnet.Link) { l.Mode = hostnet.None }, nil, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l := primary()
			c.change(&l)
			config := hostnet.Configure([]hostnet.Link{l}, host())
			var routes, rules []string
			for _, r := range config.Routes {
				routes = append(routes, r.To.String())
			}
			for _, r := range config.Rules {
				rules = append(rules, r.From.String())
			}
			if diff := cmp.Diff(c.routes, routes); diff != "" {
				t.Errorf("routes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.rules, rules); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
		})
	}
}

// Configure is idempotent: its result does not change once the host has it.
func TestConfigurationOfAConfiguredHostIsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k, links := kernels(interfaces).Draw(t, "host"), desires(interfaces).Draw(t, "links")
		before := hostnet.Configure(links, k.Facts()).String()
		settle(t, k, links)
		if diff := cmp.Diff(before, hostnet.Configure(links, k.Facts()).String()); diff != "" {
			t.Fatalf("(-first +again):\n%s", diff)
		}
	})
}

// No operation is on the primary interface, on a child, or on an interface that is neither desired nor recorded.
func TestOperationsStayOnDesiredLinks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k, links := kernels(interfaces).Draw(t, "host"), desires(interfaces).Draw(t, "links")
		settle(t, k, desires(interfaces).Draw(t, "before"))
		for _, op := range hostnet.Diff(hostnet.Configure(links, k.Facts()), k.Facts()) {
			for _, l := range k.Facts().Links {
				desired := slices.ContainsFunc(links, func(d hostnet.Link) bool { return d.MAC == l.MAC })
				if op.LinkIndex() == l.Index && !desired && hostnet.ParseOriginalState(l.Alias) == nil {
					t.Fatalf("%s is on %s, which is not desired", op, l.Name)
				}
			}
		}
	})
}

// A crash after any operation leaves a record of the original state on every link that was changed.
func TestChangedLinksHaveARecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k, links := kernels(interfaces).Draw(t, "host"), desires(interfaces).Draw(t, "links")
		for _, op := range hostnet.Diff(hostnet.Configure(links, k.Facts()), k.Facts()) {
			apply(t, k, []hostnet.Operation{op})
			for _, l := range k.Facts().Links {
				if op.LinkIndex() == l.Index && hostnet.ParseOriginalState(l.Alias) == nil {
					t.Fatalf("after %s, %s has no record", op, l.Name)
				}
			}
		}
	})
}

// A packet from an address of ours never takes the route of the primary interface, because the rule is always there.
func TestAddressesHaveARule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := kernels(interfaces).Draw(t, "host")
		for range 2 {
			links := desires(interfaces).Draw(t, "links")
			for _, op := range hostnet.Diff(hostnet.Configure(links, k.Facts()), k.Facts()) {
				apply(t, k, []hostnet.Operation{op})
				facts := k.Facts()
				for _, l := range facts.Links {
					for _, address := range l.Addresses {
						ours := address.IsSingleIP() && l.Index >= 10
						if ours && !slices.ContainsFunc(facts.Rules, func(r hostnet.Rule) bool { return r.From == address }) {
							t.Fatalf("after %s, %s has %s without a rule", op, l.Name, address)
						}
					}
				}
			}
		}
	})
}
