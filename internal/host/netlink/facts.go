// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package netlink

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/multieni/multieni/internal/core/hostnet"
)

// Facts takes a snapshot. devices are PCI addresses to search in other network namespaces: the snapshot has those whose
// link is there.
//
// It reads the parts of a snapshot one after the other. A change in between raises an event, so a consistent snapshot
// follows an inconsistent one.
func (h *Host) Facts(devices []string) (hostnet.Facts, error) {
	var facts hostnet.Facts
	links, err := h.links()
	if err != nil {
		return facts, fmt.Errorf("list links: %w", err)
	}
	if err := h.addresses(links); err != nil {
		return facts, fmt.Errorf("list addresses: %w", err)
	}
	facts.Links = links
	if err := h.routes(&facts); err != nil {
		return facts, fmt.Errorf("list routes: %w", err)
	}
	if facts.Rules, err = h.rules(); err != nil {
		return facts, fmt.Errorf("list rules: %w", err)
	}
	if h.settings == nil {
		facts.ReadOnly = []hostnet.Setting{hostnet.AcceptRA, hostnet.Autoconf}
	}
	for _, device := range devices {
		present := slices.ContainsFunc(links, func(l hostnet.LinkFacts) bool { return l.Device == device })
		if !present && h.networkDevice(device) {
			facts.Away = append(facts.Away, device)
		}
	}
	return facts, nil
}

// rtextSkipStats leaves the counters out of a listing of links (RTEXT_FILTER_SKIP_STATS in linux/rtnetlink.h).
const rtextSkipStats = 1 << 3

func (h *Host) links() ([]hostnet.LinkFacts, error) {
	var links []hostnet.LinkFacts
	err := retryDump(func() error {
		links = nil
		request := h.request(unix.RTM_GETLINK, unix.NLM_F_DUMP)
		request.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
		request.AddData(nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(rtextSkipStats)))
		messages, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
		if err != nil {
			return err
		}
		for _, message := range messages {
			link, err := h.link(message)
			if err != nil {
				return err
			}
			links = append(links, link)
		}
		return nil
	})
	return links, err
}

func (h *Host) link(message []byte) (hostnet.LinkFacts, error) {
	link, err := netlink.LinkDeserialize(nil, message)
	if err != nil {
		return hostnet.LinkFacts{}, err
	}
	attributes, err := nl.ParseRouteAttr(message[unix.SizeofIfInfomsg:])
	if err != nil {
		return hostnet.LinkFacts{}, err
	}
	a := link.Attrs()
	facts := hostnet.LinkFacts{
		Index: a.Index, Name: a.Name, AltNames: slices.Sorted(slices.Values(a.AltNames)), Alias: a.Alias,
		MAC: a.HardwareAddr.String(), MTU: a.MTU, MaxMTU: int(number(attributes, unix.IFLA_MAX_MTU)),
		Up:       a.Flags&net.FlagUp != 0,
		Carrier:  a.RawFlags&unix.IFF_LOWER_UP != 0,
		Settings: readSettings(attributes),
	}
	if a.NetNsID < 0 { // else it is the index of a link in another namespace
		facts.Lower = a.ParentIndex
	}
	if len(a.PermHWAddr) > 0 {
		facts.MAC = a.PermHWAddr.String()
	}
	facts.Device, facts.Driver = h.device(a)
	facts.Excluded = h.options.Excluded != nil && h.options.Excluded(a.Name)
	return facts, nil
}

// device returns the PCI address and the driver of the physical device of a link. Virtual links, which may share its
// MAC address, have none.
func (h *Host) device(a *netlink.LinkAttrs) (address, driver string) {
	if h.options.Device != nil {
		address = h.options.Device(a.Name, a.HardwareAddr.String())
	} else {
		address = a.ParentDev
		if address == "" { // kernels before 5.14 do not send it
			address = linkBase(h.options.Sysfs, "class/net", a.Name, "device")
		}
	}
	if address == "" {
		return "", ""
	}
	bus := a.ParentDevBus
	if bus == "" {
		bus = "pci"
	}
	return address, linkBase(h.options.Sysfs, "bus", bus, "devices", address, "driver")
}

// networkDevice reports whether a PCI device exists whose driver creates a network link.
func (h *Host) networkDevice(address string) bool {
	driver := linkBase(h.options.Sysfs, "bus/pci/devices", address, "driver")
	return driver != "" && driver != "vfio-pci"
}

// linkBase returns the last element of the target of a symbolic link, or "".
func linkBase(elements ...string) string {
	target, err := os.Readlink(filepath.Join(elements...))
	if err != nil {
		return ""
	}
	return filepath.Base(target)
}

func (h *Host) addresses(links []hostnet.LinkFacts) error {
	var all []netlink.Addr
	err := retryDump(func() (err error) {
		all, err = h.handle.AddrList(nil, netlink.FAMILY_ALL)
		return err
	})
	if err != nil {
		return err
	}
	for _, address := range all {
		n := slices.IndexFunc(links, func(l hostnet.LinkFacts) bool { return l.Index == address.LinkIndex })
		if prefix, ok := prefixOf(address.IPNet); ok && n >= 0 {
			links[n].Addresses = append(links[n].Addresses, prefix)
		}
	}
	for n := range links {
		slices.SortFunc(links[n].Addresses, netip.Prefix.Compare)
	}
	return nil
}

// routes fills in the relevant routes, and the link of the best default route.
func (h *Host) routes(facts *hostnet.Facts) error {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		best := -1
		var routes []hostnet.Route
		primary := 0
		filter := &netlink.Route{Table: unix.RT_TABLE_UNSPEC}
		err := retryDump(func() error {
			routes, best, primary = nil, -1, 0
			return h.handle.RouteListFilteredIter(family, filter, netlink.RT_FILTER_TABLE, func(r netlink.Route) bool {
				route := convertRoute(family, r)
				if route.Protocol == hostnet.Protocol || route.Table == unix.RT_TABLE_MAIN && byOthers(route.Protocol) {
					routes = append(routes, route)
				}
				if route.Table == unix.RT_TABLE_MAIN && route.To.Bits() == 0 && (best < 0 || route.Metric < best) {
					best, primary = route.Metric, route.Link
				}
				return true
			})
		})
		if err != nil && !unsupported(err) {
			return err
		}
		facts.Routes = append(facts.Routes, routes...)
		if facts.PrimaryLink == 0 { // the IPv4 route has precedence
			facts.PrimaryLink = primary
		}
	}
	return nil
}

// byOthers reports whether routes of the protocol are added together with addresses.
func byOthers(protocol int) bool { return protocol == unix.RTPROT_DHCP || protocol == unix.RTPROT_RA }

func convertRoute(family int, r netlink.Route) hostnet.Route {
	route := hostnet.Route{Table: r.Table, Link: r.LinkIndex, Metric: r.Priority, Protocol: int(r.Protocol)}
	if r.LinkIndex == 0 && len(r.MultiPath) > 0 {
		route.Link = r.MultiPath[0].LinkIndex
	}
	if gateway, ok := netip.AddrFromSlice(r.Gw); ok {
		route.Gateway = gateway.Unmap()
	}
	to, ok := prefixOf(r.Dst)
	switch {
	case ok:
		route.To = to
	case family == netlink.FAMILY_V4:
		route.To = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	default:
		route.To = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return route
}

func (h *Host) rules() ([]hostnet.Rule, error) {
	var rules []hostnet.Rule
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		var all []netlink.Rule
		err := retryDump(func() (err error) {
			all, err = h.handle.RuleList(family)
			return err
		})
		if err != nil && !unsupported(err) {
			return nil, err
		}
		for _, r := range all {
			if from, ok := prefixOf(r.Src); ok && r.Protocol == hostnet.Protocol {
				rules = append(rules, hostnet.Rule{Priority: r.Priority, From: from, Table: r.Table, Protocol: hostnet.Protocol})
			}
		}
	}
	return rules, nil
}

// unsupported reports whether the kernel lacks the address family.
func unsupported(err error) bool {
	return errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP)
}

func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	address, ok := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(address.Unmap(), bits), ok
}

func netOf(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
