// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cni_test

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/netlink/netlinktest"
)

// The router of a VPC advertises itself in every subnet with IPv6. A pod receives it on its link, and takes neither a route
// nor an address from it: unbound traffic leaves by the pod's eth0, and EC2 knows all addresses of the link.
func TestAPodIgnoresTheAdvertisementsOfARouter(t *testing.T) {
	ownDevice := func(network *podnet.Network) {
		network.IPv6, network.Attachment, network.Addresses = nil, podnet.HostDevice, []netip.Addr{netip.MustParseAddr("10.0.4.70")}
	}
	for name, c := range map[string]struct {
		change  func(*podnet.Network)
		plugins string
	}{
		"a child, IPv4":          {func(n *podnet.Network) { n.IPv6 = nil }, attachment() + `, "master": "net-n3"`},
		"a child, both families": {func(*podnet.Network) {}, attachment() + `, "master": "net-n3"`},
		"the link itself":        {ownDevice, `"type": "host-device", "device": "net-n3"`},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			network := network("n3", 4, 1)
			c.change(&network)
			n.write(network)
			list := n.configuration("n3", fmt.Sprintf(`{%s, "ipam": %s}, {"type": "multieni-routes"}`, c.plugins, n.ipam("n3")))
			p := n.pod("a")
			n.mustAdd(list, p, "net1")
			before := p.links.IP("-6 -o addr show dev net1 scope global")
			n.vpc.IP("addr add fe80::1/64 dev eni nodad")
			deadline := time.Now().Add(10 * time.Second)
			for !hasHeardARouter(t, p, "net1") {
				if time.Now().After(deadline) {
					t.Fatal("no advertisement arrives on net1")
				}
				advertise(t, n.vpc, "eni", netip.MustParseAddr("2001:db8:9::"))
			}
			if routes := p.links.IP("-6 route show table all proto ra"); routes != "" {
				t.Errorf("the pod has routes of the router: %s", routes)
			}
			if after := p.links.IP("-6 -o addr show dev net1 scope global"); after != before {
				t.Errorf("net1 had the addresses\n%s, and has after an advertisement\n%s", before, after)
			}
			if err := n.check(list, p, "net1"); err != nil {
				t.Error(err)
			}
			p.links.Do(func() {
				if err := os.WriteFile("/proc/sys/net/ipv6/conf/net1/accept_ra", []byte("1"), 0o644); err != nil {
					t.Error(err)
				}
			})
			if err := n.check(list, p, "net1"); err == nil || !strings.Contains(err.Error(), "ipv6.accept_ra to 0") {
				t.Errorf("CHECK of a link that takes advertisements: %v", err)
			}
		})
	}
}

// hasHeardARouter reports whether the kernel counted a router advertisement on a link of the pod.
func hasHeardARouter(t *testing.T, p pod, link string) bool {
	t.Helper()
	var counters []byte
	var err error
	p.links.Do(func() { counters, err = os.ReadFile("/proc/thread-self/net/dev_snmp6/" + link) })
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(counters)) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == "Icmp6InRouterAdvertisements" {
			return fields[1] != "0"
		}
	}
	return false
}

// advertise sends the advertisement of a router to all nodes of a link (RFC 4861, section 4.2): the prefix is on-link and
// for autonomous addresses.
func advertise(t *testing.T, from *netlinktest.Namespace, link string, prefix netip.Addr) {
	t.Helper()
	const lifetime, icmpHops = "\x07\x08", 255
	message := "\x86\x00\x00\x00\x40\x00" + lifetime + strings.Repeat("\x00", 8) + // the kernel adds the checksum
		"\x03\x04\x40\xc0" + "\x00\x00\x0e\x10" + "\x00\x00\x0e\x10" + "\x00\x00\x00\x00" + string(prefix.AsSlice())
	var err error
	from.Do(func() {
		var socket int
		if socket, err = unix.Socket(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6); err != nil {
			return
		}
		defer func() { _ = unix.Close(socket) }()
		if err = unix.SetsockoptInt(socket, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, icmpHops); err != nil {
			return
		}
		var request *unix.Ifreq
		if request, err = unix.NewIfreq(link); err != nil {
			return
		}
		if err = unix.IoctlIfreq(socket, unix.SIOCGIFINDEX, request); err != nil {
			return
		}
		everyNode := unix.SockaddrInet6{ZoneId: request.Uint32(), Addr: netip.MustParseAddr("ff02::1").As16()}
		err = unix.Sendto(socket, []byte(message), 0, &everyNode)
	})
	if err != nil {
		t.Fatalf("advertise a router: %v", err)
	}
}
