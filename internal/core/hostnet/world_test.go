// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostnet_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/hostnet/hostnettest"
)

const web = "02:00:00:00:00:0a"

// defaults are the settings of an unconfigured link.
func defaults() map[hostnet.Setting]int {
	settings := map[hostnet.Setting]int{}
	for _, s := range hostnet.Settings() {
		settings[s] = 0
	}
	settings[hostnet.AcceptRA], settings[hostnet.Autoconf] = 1, 1
	return settings
}

// host is an unconfigured node: a primary interface, and one that was just attached, with an ipvlan child.
func host() hostnet.Facts {
	return hostnet.Facts{
		PrimaryLink: 2,
		Links: []hostnet.LinkFacts{
			{Index: 1, Name: "lo", MAC: "00:00:00:00:00:00", MTU: 65536, Up: true, Carrier: true, Settings: defaults()},
			{
				Index: 2, Name: "ens5", MAC: "02:00:00:00:00:01", Device: "0000:00:05.0", Driver: "ena", MTU: 9001, Up: true, Carrier: true,
				Addresses: prefixes("10.0.0.10/24"), Settings: defaults(),
			},
			{Index: 3, Name: "ens6", MAC: web, Device: "0000:00:06.0", Driver: "ena", MTU: 1500, MaxMTU: 9216, Settings: defaults()},
			{Index: 4, Name: "pod0", MAC: web, MTU: 1500, Up: true, Carrier: true, Settings: defaults()},
		},
	}
}

func link() hostnet.Link {
	return hostnet.Link{
		Name: "web", MAC: web, Slot: eni.Slot{Device: 1}, Mode: hostnet.None,
		Addresses: addresses("10.0.1.10"), Subnet: netip.MustParsePrefix("10.0.1.0/24"),
		Assigned: prefixes("10.0.1.10/32", "10.0.1.11/32", "10.0.1.64/28", "2600:1f14::10/128"),
	}
}

func primary() hostnet.Link {
	l := link()
	l.Mode, l.Addresses = hostnet.Primary, addresses("10.0.1.10", "2600:1f14::10")
	return l
}

func prefixes(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func addresses(texts ...string) []netip.Addr {
	var all []netip.Addr
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

// fatal is what *testing.T and *rapid.T have in common.
type fatal interface {
	Helper()
	Fatalf(format string, args ...any)
}

// rounds is the maximum number of runs until nothing is left to do.
const rounds = 3

// settle applies the links to the kernel until nothing is left to do.
func settle(t fatal, k *hostnettest.Kernel, links []hostnet.Link) {
	t.Helper()
	for range rounds {
		operations := hostnet.Diff(hostnet.Configure(links, k.Facts()), k.Facts())
		if len(operations) == 0 {
			return
		}
		apply(t, k, operations)
	}
	if rest := hostnet.Diff(hostnet.Configure(links, k.Facts()), k.Facts()); len(rest) > 0 {
		t.Fatalf("after %d rounds there is still to do: %v\n%s", rounds, rest, k)
	}
}

func apply(t fatal, k *hostnettest.Kernel, operations []hostnet.Operation) {
	t.Helper()
	for _, op := range operations {
		if err := k.Apply(op); err != nil {
			t.Fatalf("%s: %v\nall: %v\n%s", op, err, operations, k)
		}
	}
}

// desires draws the desired links of a node: some of the host's interfaces, in any mode.
func desires(macs int) *rapid.Generator[[]hostnet.Link] {
	return rapid.Custom(func(t *rapid.T) []hostnet.Link {
		var links []hostnet.Link
		for n := range macs {
			if !rapid.Bool().Draw(t, fmt.Sprint("wants ", n)) {
				continue
			}
			l := hostnet.Link{
				Name: rapid.SampledFrom([]string{"web", "db", "a-name-that-is-much-too-long"}).Draw(t, "name") + fmt.Sprint(n),
				MAC:  mac(n), Slot: eni.Slot{Card: rapid.IntRange(0, 3).Draw(t, "card"), Device: n + 1},
				MTU:    rapid.SampledFrom([]int{0, 1500, 9001}).Draw(t, "mtu"),
				Mode:   rapid.SampledFrom([]hostnet.AddressMode{hostnet.None, hostnet.Primary}).Draw(t, "mode"),
				Subnet: subnet(n), Addresses: []netip.Addr{owned(n, 4)}, Assigned: prefixes(owned(n, 4).String() + "/32"),
			}
			if rapid.Bool().Draw(t, "ipv6") {
				l.Addresses, l.Assigned = append(l.Addresses, owned(n, 6)), append(l.Assigned, netip.PrefixFrom(owned(n, 6), 128))
			}
			if rapid.Bool().Draw(t, "setting") {
				l.Settings = map[hostnet.Setting]int{rapid.SampledFrom(hostnet.Settings()).Draw(t, "which"): rapid.IntRange(0, 2).Draw(t, "value")}
			}
			links = append(links, l)
		}
		return links
	})
}

func mac(n int) string { return fmt.Sprintf("02:00:00:00:01:%02x", n) }

// subnet gives two neighbours the same range.
func subnet(n int) netip.Prefix { return netip.MustParsePrefix(fmt.Sprintf("10.1.%d.0/24", n/2)) }

func owned(n, family int) netip.Addr {
	if family == 4 {
		return netip.MustParseAddr(fmt.Sprintf("10.1.%d.%d", n/2, 10+n))
	}
	return netip.MustParseAddr(fmt.Sprintf("2600:1f14:%d::%d", n/2, 10+n))
}

// kernels draws a host with unconfigured interfaces, in any state in which a distribution may leave them.
func kernels(macs int) *rapid.Generator[*hostnettest.Kernel] {
	return rapid.Custom(func(t *rapid.T) *hostnettest.Kernel {
		facts := host()
		for n := range macs {
			l := hostnet.LinkFacts{
				Index: 10 + n, Name: fmt.Sprint("ens", 10+n), MAC: mac(n), Device: fmt.Sprintf("0000:00:%02x.0", 10+n), Driver: "ena",
				MTU: rapid.SampledFrom([]int{1500, 9001}).Draw(t, "mtu now"), MaxMTU: 9216, Settings: defaults(),
				Alias: rapid.SampledFrom([]string{"", "rack 7, port 3"}).Draw(t, "alias"),
			}
			l.Up = rapid.Bool().Draw(t, "up")
			l.Carrier = l.Up
			for s := range l.Settings {
				if rapid.Bool().Draw(t, "odd") {
					l.Settings[s] = 1
				}
			}
			if rapid.Bool().Draw(t, "foreign address") {
				l.Addresses = prefixes(fmt.Sprintf("192.168.%d.1/24", n))
			}
			if rapid.Bool().Draw(t, "foreign name") {
				l.AltNames = []string{fmt.Sprint("enp", n)}
			}
			facts.Links = append(facts.Links, l)
		}
		return hostnettest.New(facts)
	})
}

// disturb changes the links like other programs do.
func disturb(t *rapid.T, k *hostnettest.Kernel, macs int) {
	for range rapid.IntRange(0, 4).Draw(t, "disturbances") {
		n := rapid.IntRange(0, macs-1).Draw(t, "link")
		index := 10 + n
		switch rapid.SampledFrom([]string{"flap", "rename", "address", "mtu", "setting"}).Draw(t, "disturbance") {
		case "flap":
			k.SetDown(index)
		case "rename":
			k.Change(index, func(l *hostnet.LinkFacts) { l.Name = fmt.Sprint("eth", n) })
		case "address":
			k.Change(index, func(l *hostnet.LinkFacts) {
				given := netip.PrefixFrom(owned(n, 4), 24)
				if !slices.Contains(l.Addresses, given) {
					l.Addresses = append(l.Addresses, given)
				}
			})
		case "mtu":
			k.Change(index, func(l *hostnet.LinkFacts) { l.MTU = 1400 })
		case "setting":
			k.Change(index, func(l *hostnet.LinkFacts) { l.Settings[hostnet.ARPIgnore] = 2 })
		}
	}
}

// foreign returns the links of the kernel that are not desired.
func foreign(k *hostnettest.Kernel, links []hostnet.Link) string {
	facts := k.Facts()
	facts.Links = slices.DeleteFunc(facts.Links, func(l hostnet.LinkFacts) bool {
		return l.Device != "" && slices.ContainsFunc(links, func(d hostnet.Link) bool { return d.MAC == l.MAC })
	})
	facts.Routes, facts.Rules = nil, nil
	return facts.String()
}

// with returns the kernel of host() with the link ens6 changed.
func with(change func(*hostnet.LinkFacts)) hostnet.Facts {
	k := hostnettest.New(host())
	k.Change(3, change)
	return k.Facts()
}

var _ fatal = (*testing.T)(nil)
