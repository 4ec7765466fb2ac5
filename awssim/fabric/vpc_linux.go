// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/multieni/multieni/awssim/namespace"
)

const (
	// protocol marks the routes and rules of the fabric.
	protocol = 0xec
	// mtu of EC2's network ("Network maximum transmission unit (MTU) for your EC2 instance": 9001 bytes).
	mtu = 9001
	// allowed and refused are the priorities of rules: for packets that a link may send, and for all other packets of it.
	allowed, refused = 100, 200
)

// router6 is the IPv6 router of every subnet.
var router6 = netip.MustParseAddr("fe80:ec2::1")

var families = []int{unix.AF_INET, unix.AF_INET6}

// vpc is the namespace of a VPC. It has the far end of each link, and a route to it for each address of the interface.
type vpc struct {
	namespace *namespace.Namespace
	handle    *netlink.Handle
}

// settings are those of the namespace and of all future links. Links answer for neighbours at once and for the
// addresses of others. Rules check sources, for both families, instead of rp_filter, which IPv6 does not have.
var settings = map[string]string{
	"ipv4/ip_forward":                        "1",
	"ipv4/icmp_echo_ignore_all":              "1",
	"ipv4/conf/all/rp_filter":                "0",
	"ipv4/conf/default/rp_filter":            "0",
	"ipv4/conf/all/send_redirects":           "0",
	"ipv4/conf/default/send_redirects":       "0",
	"ipv4/conf/default/proxy_arp":            "1",
	"ipv6/conf/all/forwarding":               "1",
	"ipv6/icmp/echo_ignore_all":              "1",
	"ipv6/conf/default/accept_dad":           "0",
	"ipv6/conf/default/dad_transmits":        "0",
	"ipv6/conf/default/proxy_ndp":            "1",
	"ipv6/conf/all/disable_ipv6":             "0",
	"ipv6/conf/default/disable_ipv6":         "0",
	"ipv6/conf/default/router_solicitations": "0",
}

// linkSettings are settings of each link for which a namespace has no defaults.
var linkSettings = []string{"ipv4/neigh/%s/proxy_delay", "ipv6/neigh/%s/proxy_delay"}

func newVPC() (*vpc, error) {
	space, err := namespace.New()
	if err != nil {
		return nil, err
	}
	v := &vpc{namespace: space}
	var failure error
	if err := errors.Join(space.Do(func() { failure = v.open() }), failure); err != nil {
		return nil, errors.Join(err, v.close())
	}
	return v, nil
}

// open prepares the namespace of the thread. It drops packets for addresses that no interface has.
func (v *vpc) open() (err error) {
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if err := set(name, settings[name]); err != nil {
			return err
		}
	}
	if v.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return err
	}
	for _, everything := range []string{"0.0.0.0/0", "::/0"} {
		// Its protocol is boot, so it is not one of the routes that are compared with EC2's state.
		blackhole := &netlink.Route{Dst: ipNet(netip.MustParsePrefix(everything)), Type: unix.RTN_BLACKHOLE,
			Protocol: unix.RTPROT_BOOT}
		if err := v.handle.RouteAdd(blackhole); err != nil {
			return fmt.Errorf("drop what has no route: %w", err)
		}
	}
	return nil
}

// set changes a setting of the namespace of the thread.
func set(name, value string) error {
	return os.WriteFile(filepath.Join("/proc/sys/net", name), []byte(value), 0)
}

func (v *vpc) close() error {
	if v.handle != nil {
		v.handle.Close()
	}
	return v.namespace.Close()
}

func (v *vpc) inside(do func()) error { return v.namespace.Do(do) }

// apply updates the namespace to the links.
func (v *vpc) apply(links []link) error {
	indexes, err := v.applyLinks(links)
	if err != nil {
		return err
	}
	for _, family := range families {
		if err := errors.Join(v.applyRoutes(family, links, indexes), v.applyRules(family, links)); err != nil {
			return err
		}
	}
	return v.applyNeighbours(links, indexes)
}

// applyLinks removes undesired links and creates missing ones. It returns the index of each by its name in the VPC.
func (v *vpc) applyLinks(links []link) (map[string]int, error) {
	wanted := map[string]link{}
	for _, l := range links {
		wanted[l.peer()] = l
	}
	present, err := v.handle.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	indexes := map[string]int{}
	for _, p := range present {
		name := p.Attrs().Name
		if _, keep := wanted[name]; keep {
			indexes[name] = p.Attrs().Index
		} else if p.Type() == "veth" {
			// The kernel may be removing it with the node's namespace.
			if err := v.handle.LinkDel(p); err != nil && !errors.Is(err, unix.ENODEV) {
				return nil, fmt.Errorf("remove link %s: %w", name, err)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if indexes[name] != 0 {
			continue
		}
		if indexes[name], err = v.addLink(wanted[name]); err != nil {
			return nil, fmt.Errorf("give %s to %s as %s: %w", wanted[name].id, wanted[name].node.InstanceID,
				wanted[name].name, err)
		}
	}
	return indexes, nil
}

// addLink creates a link. One end is in the node, and is down. The other end is here, is up, and has the addresses of
// routers.
func (v *vpc) addLink(l link) (index int, err error) {
	mac, err := net.ParseMAC(l.mac)
	if err != nil {
		return 0, err
	}
	node, err := os.Open(l.node.Namespace)
	if err != nil {
		return 0, err
	}
	defer node.Close()
	veth := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: l.peer(), MTU: mtu}, PeerName: l.name, PeerMTU: mtu, PeerHardwareAddr: mac,
		PeerNamespace: netlink.NsFd(int(node.Fd())),
	}
	if err := v.handle.LinkAdd(veth); err != nil {
		return 0, err
	}
	here, err := v.handle.LinkByName(l.peer())
	if err != nil {
		return 0, err
	}
	return here.Attrs().Index, v.configure(here, l)
}

// configure configures the VPC's end of a link.
func (v *vpc) configure(here netlink.Link, l link) error {
	var errs []error
	entered := v.namespace.Do(func() {
		for _, setting := range linkSettings {
			errs = append(errs, set(fmt.Sprintf(setting, l.peer()), "0"))
		}
	})
	routers := []netip.Prefix{netip.PrefixFrom(router6, 64)}
	if l.router.IsValid() {
		routers = append(routers, whole(l.router))
	}
	errs = append(errs, entered, v.handle.LinkSetAlias(here, l.id+" of "+l.node.InstanceID), v.handle.LinkSetUp(here))
	for _, router := range routers {
		errs = append(errs, v.handle.AddrAdd(here, &netlink.Addr{IPNet: ipNet(router)}))
	}
	return errors.Join(errs...)
}

// applyRoutes adds a route for each address of an interface. An address that moves always has a route.
func (v *vpc) applyRoutes(family int, links []link, indexes map[string]int) error {
	present, err := v.handle.RouteListFiltered(family, &netlink.Route{Protocol: protocol}, netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	at := map[string]int{}
	for _, r := range present {
		at[r.Dst.String()] = r.LinkIndex
	}
	for _, l := range links {
		for _, address := range ofFamily(l.addresses, family) {
			route := netlink.Route{Dst: ipNet(address), LinkIndex: indexes[l.peer()], Protocol: protocol, Scope: scope(family)}
			key := route.Dst.String()
			if at[key] != route.LinkIndex {
				if err := v.handle.RouteReplace(&route); err != nil {
					return fmt.Errorf("deliver %s to %s: %w", address, l.id, err)
				}
			}
			delete(at, key)
		}
	}
	for _, r := range present {
		if _, stale := at[r.Dst.String()]; stale {
			if err := v.handle.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("stop delivering %s: %w", r.Dst, err)
			}
		}
	}
	return nil
}

// rule allows a source to a link or, without a source, refuses all others.
type rule struct {
	peer   string
	source netip.Prefix
}

func (r rule) netlink(family int) *netlink.Rule {
	n := netlink.NewRule()
	n.Family, n.IifName, n.Protocol = family, r.peer, protocol
	if r.source.IsValid() {
		n.Src, n.Priority, n.Table = ipNet(r.source), allowed, unix.RT_TABLE_MAIN
	} else {
		n.Priority, n.Type = refused, unix.RTN_BLACKHOLE
	}
	return n
}

// applyRules configures the source check of each interface.
func (v *vpc) applyRules(family int, links []link) error {
	wanted := map[rule]bool{}
	for _, l := range links {
		if !l.checked {
			continue
		}
		wanted[rule{peer: l.peer()}] = true
		for _, address := range ofFamily(l.addresses, family) {
			wanted[rule{l.peer(), address}] = true
		}
	}
	present, err := v.handle.RuleList(family)
	if err != nil {
		return fmt.Errorf("list rules: %w", err)
	}
	for _, p := range present {
		if p.Protocol != protocol {
			continue
		}
		r := rule{peer: p.IifName, source: prefix(p.Src)}
		if wanted[r] {
			delete(wanted, r)
			continue
		}
		if err := v.handle.RuleDel(r.netlink(family)); err != nil {
			return fmt.Errorf("stop the source check of %s: %w", r.peer, err)
		}
	}
	for r := range wanted {
		if err := v.handle.RuleAdd(r.netlink(family)); err != nil {
			return fmt.Errorf("check the sources of %s: %w", r.peer, err)
		}
	}
	return nil
}

// neighbour is an IPv6 address for which the VPC answers at a link.
type neighbour struct {
	link    int
	address netip.Addr
}

func (n neighbour) netlink() *netlink.Neigh {
	return &netlink.Neigh{LinkIndex: n.link, Family: unix.AF_INET6, Flags: netlink.NTF_PROXY, IP: n.address.AsSlice()}
}

// applyNeighbours makes the VPC answer neighbour solicitations for the IPv6 addresses of other interfaces of the
// subnet.
func (v *vpc) applyNeighbours(links []link, indexes map[string]int) error {
	wanted := map[neighbour]bool{}
	for _, l := range links {
		for _, other := range links {
			if l.id == other.id || l.subnet != other.subnet {
				continue
			}
			for _, address := range ofFamily(other.addresses, unix.AF_INET6) {
				if address.IsSingleIP() {
					wanted[neighbour{indexes[l.peer()], address.Addr()}] = true
				}
			}
		}
	}
	present, err := v.handle.NeighProxyList(0, unix.AF_INET6)
	if err != nil {
		return fmt.Errorf("list neighbours: %w", err)
	}
	for _, p := range present {
		address, _ := netip.AddrFromSlice(p.IP)
		n := neighbour{p.LinkIndex, address}
		if wanted[n] {
			delete(wanted, n)
			continue
		}
		if err := v.handle.NeighDel(n.netlink()); err != nil {
			return fmt.Errorf("stop answering for %s: %w", n.address, err)
		}
	}
	for n := range wanted {
		if err := v.handle.NeighAdd(n.netlink()); err != nil {
			return fmt.Errorf("answer for %s: %w", n.address, err)
		}
	}
	return nil
}

func ofFamily(all []netip.Prefix, family int) []netip.Prefix {
	var some []netip.Prefix
	for _, p := range all {
		if p.Addr().Is4() == (family == unix.AF_INET) {
			some = append(some, p)
		}
	}
	return some
}

// scope of a route to a neighbour: IPv6 has none.
func scope(family int) netlink.Scope {
	if family == unix.AF_INET {
		return netlink.SCOPE_LINK
	}
	return netlink.SCOPE_UNIVERSE
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// prefix returns the zero prefix for nil.
func prefix(n *net.IPNet) netip.Prefix {
	if n == nil {
		return netip.Prefix{}
	}
	address, _ := netip.AddrFromSlice(n.IP)
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(address.Unmap(), ones)
}
