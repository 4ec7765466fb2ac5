// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostnet

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Facts is what the kernel says about the network of the host.
type Facts struct {
	Links []LinkFacts
	// Routes are those that carry [Protocol], and those that a DHCP client or a router advertisement added to the main
	// table.
	Routes []Route
	// Rules are those that carry [Protocol].
	Rules []Rule
	// PrimaryLink is the index of the link of the best default route in the main table, or 0.
	PrimaryLink int
	// ReadOnly are the settings that this process cannot change.
	ReadOnly []Setting
	// Away are the last observed bus addresses of desired links whose network device exists, but has its link in another
	// network namespace.
	Away []string
}

// LinkFacts is what the kernel says about one link.
type LinkFacts struct {
	Index int
	Name  string
	// AltNames are sorted.
	AltNames []string
	Alias    string
	// MAC is the permanent address of a physical device if it has one, else the address it uses.
	MAC string
	// Device is the bus address of the physical device, for example 0000:00:06.0; "" for a virtual link.
	Device string
	Driver string
	// Lower is the index of the link below this one, for example below a macvlan link, or 0.
	Lower int
	// Excluded links never change, by configuration of the operator.
	Excluded bool

	// Up is the administrative state, Carrier whether packets can pass.
	Up, Carrier bool
	// MTU and MaxMTU are in bytes. MaxMTU is 0 if the device has no limit.
	MTU, MaxMTU int
	// Addresses are sorted, each with the length of its prefix.
	Addresses []netip.Prefix
	// Settings has the settings of the link: none of IPv6, for example, if the kernel has no IPv6.
	Settings map[Setting]int
}

// Route is one route out of one link.
type Route struct {
	Table int
	To    netip.Prefix
	// Gateway is the zero value for destinations on the link itself.
	Gateway netip.Addr
	// Link is the index of the link.
	Link     int
	Metric   int
	Protocol int
}

// SamePath reports whether the routes are equal except for their metrics: the kernel chooses the metric of an IPv6
// route.
func (r Route) SamePath(other Route) bool {
	other.Metric = r.Metric
	return r == other
}

// Rule sends packets from an address to a route table.
type Rule struct {
	Priority int
	From     netip.Prefix
	Table    int
	Protocol int
}

// link returns the link with the index, or nil.
func (f Facts) link(index int) *LinkFacts {
	for n := range f.Links {
		if f.Links[n].Index == index {
			return &f.Links[n]
		}
	}
	return nil
}

// physical returns the physical links with the MAC address.
func (f Facts) physical(mac string) []LinkFacts {
	var found []LinkFacts
	for _, link := range f.Links {
		if link.Device != "" && strings.EqualFold(link.MAC, mac) {
			found = append(found, link)
		}
	}
	return found
}

// named returns the link that answers to the name, or nil.
func (f Facts) named(name string) *LinkFacts {
	for n, link := range f.Links {
		if link.Name == name || slices.Contains(link.AltNames, name) {
			return &f.Links[n]
		}
	}
	return nil
}

// String returns the facts as sorted text.
func (f Facts) String() string {
	var text strings.Builder
	for _, link := range slices.SortedFunc(slices.Values(f.Links), func(a, b LinkFacts) int {
		return cmp.Compare(a.Name, b.Name)
	}) {
		link.write(&text)
	}
	writeRoutes(&text, f.Routes, f.Rules, func(index int) string {
		if link := f.link(index); link != nil {
			return link.Name
		}
		return fmt.Sprint(index)
	})
	return text.String()
}

func (l LinkFacts) write(text *strings.Builder) {
	fmt.Fprintf(text, "link %s %s", l.Name, l.MAC)
	if l.Device != "" {
		fmt.Fprintf(text, " device %s driver %s", l.Device, cmp.Or(l.Driver, "none"))
	}
	fmt.Fprintf(text, "\n  %s carrier %s mtu %d\n", upDown(l.Up), upDown(l.Carrier), l.MTU)
	writeDetails(text, l.AltNames, l.Alias, l.Addresses, l.Settings)
}

func writeDetails(
	text *strings.Builder, altNames []string, alias string, addresses []netip.Prefix, settings map[Setting]int,
) {
	for _, name := range altNames {
		fmt.Fprintf(text, "  altname %s\n", name)
	}
	if alias != "" {
		fmt.Fprintf(text, "  alias %s\n", alias)
	}
	for _, address := range slices.SortedFunc(slices.Values(addresses), netip.Prefix.Compare) {
		fmt.Fprintf(text, "  address %s\n", address)
	}
	for _, setting := range Settings() {
		if value, ok := settings[setting]; ok {
			fmt.Fprintf(text, "  %s %d\n", setting, value)
		}
	}
}

func writeRoutes(text *strings.Builder, routes []Route, rules []Rule, name func(int) string) {
	for _, r := range slices.SortedFunc(slices.Values(routes), Route.compare) {
		fmt.Fprintf(text, "route %s\n", r.describe(name(r.Link)))
	}
	for _, r := range slices.SortedFunc(slices.Values(rules), Rule.compare) {
		fmt.Fprintf(text, "rule %s\n", r)
	}
}

func upDown(up bool) string {
	if up {
		return "up"
	}
	return "down"
}

func (r Route) compare(other Route) int {
	return cmp.Or(
		cmp.Compare(r.Table, other.Table), r.To.Compare(other.To), cmp.Compare(r.Metric, other.Metric),
		cmp.Compare(r.Link, other.Link), r.Gateway.Compare(other.Gateway), cmp.Compare(r.Protocol, other.Protocol),
	)
}

func (r Route) describe(link string) string {
	via := ""
	if r.Gateway.IsValid() {
		via = fmt.Sprintf(" via %s", r.Gateway)
	}
	return fmt.Sprintf("%s%s dev %s table %d metric %d proto %d", r.To, via, link, r.Table, r.Metric, r.Protocol)
}

func (r Rule) compare(other Rule) int {
	return cmp.Or(
		cmp.Compare(r.Priority, other.Priority), r.From.Compare(other.From), cmp.Compare(r.Table, other.Table),
		cmp.Compare(r.Protocol, other.Protocol),
	)
}

// String returns the rule in the words of ip-rule(8).
func (r Rule) String() string {
	return fmt.Sprintf("%d: from %s lookup %d proto %d", r.Priority, r.From, r.Table, r.Protocol)
}
