// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cni_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/multieni/multieni/internal/host/netlink/netlinktest"
)

// The types of messages of IGMP (RFC 2236, section 2.1, and RFC 3376, section 4).
const (
	reportV2 = 0x16
	leaveV2  = 0x17
	reportV3 = 0x22
)

// forceIGMP is the kernel setting of all links of a network namespace in the recipe of docs/pod-networks.md.
const forceIGMP = "/proc/sys/net/ipv4/conf/all/force_igmp_version"

// A pod that joins a multicast group reports it to the VPC in version 3 of IGMP, which transit gateways do not
// understand. The field of the NodeENI and both settings of the recipe make it version 2.
func TestAPodReportsMulticastGroups(t *testing.T) {
	const version2, version3 = `{"type": "multieni-routes", "igmpVersion": 2}`, `{"type": "multieni-routes"}`
	for name, c := range map[string]struct {
		routes     string
		node, pod  bool
		join, left byte
	}{
		"by itself":                 {routes: version3, join: reportV3, left: reportV3},
		"with pods.igmpVersion":     {routes: version2, join: reportV2, left: leaveV2},
		"with the node's setting":   {routes: version3, node: true, join: reportV2, left: leaveV2},
		"with its security context": {routes: version3, pod: true, join: reportV2, left: leaveV2},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			network := network("n3", 4, 1)
			network.IPv6 = nil
			n.write(network)
			if c.node {
				setOfNode(t)
			}
			p := n.pod("a")
			if c.pod {
				p.links.Do(func() { set(t, "2") })
			}
			n.mustAdd(n.configuration("n3", fmt.Sprintf(`{%s, "master": "net-n3", "ipam": %s}, %s`,
				attachment(), n.ipam("n3"), c.routes)), p, "net1")
			messages := n.listenTo(t)
			leave := p.join(t, "net1")
			if got := messages.next(t); got != c.join {
				t.Errorf("the pod joins by a message of type %#x, want %#x", got, c.join)
			}
			leave()
			for got := messages.next(t); got != c.left; got = messages.next(t) {
				if got != c.join {
					t.Fatalf("the pod sent a message of type %#x, want %#x or %#x", got, c.join, c.left)
				}
			}
		})
	}
}

func TestCheckFindsAnotherVersionOfIGMP(t *testing.T) {
	n := newNode(t)
	n.write(network("n3", 4, 1))
	list := n.configuration("n3", fmt.Sprintf(`{%s, "master": "net-n3", "ipam": %s}, {"type": "multieni-routes", "igmpVersion": 2}`,
		attachment(), n.ipam("n3")))
	p := n.pod("a")
	n.mustAdd(list, p, "net1")
	if err := n.check(list, p, "net1"); err != nil {
		t.Fatal(err)
	}
	p.links.Do(func() {
		if err := os.WriteFile("/proc/sys/net/ipv4/conf/net1/force_igmp_version", []byte("3"), 0o644); err != nil {
			t.Error(err)
		}
	})
	if err := n.check(list, p, "net1"); err == nil || !strings.Contains(err.Error(), "ipv4.force_igmp_version to 2") {
		t.Errorf("CHECK of a link of version 3: %v", err)
	}
}

// setOfNode makes the recipe's setting on this machine until the end of the test: a new network namespace copies the
// setting of the first one.
func setOfNode(t *testing.T) {
	t.Helper()
	before, err := os.ReadFile(forceIGMP)
	if err != nil {
		t.Fatal(err)
	}
	set(t, "2")
	t.Cleanup(func() { set(t, string(before)) })
	var inherited []byte
	netlinktest.New(t).Do(func() { inherited, err = os.ReadFile(forceIGMP) })
	if err != nil || strings.TrimSpace(string(inherited)) != "2" {
		t.Skipf("a new network namespace does not inherit from this one, which is not the machine's first: %s, %v", inherited, err)
	}
}

// set makes the recipe's setting in the network namespace of the thread.
func set(t *testing.T, value string) {
	t.Helper()
	if err := os.WriteFile(forceIGMP, []byte(value), 0o644); err != nil {
		t.Error(err)
	}
}

// join makes a program in the pod join 239.0.0.1 on a link.
func (p pod) join(t *testing.T, link string) (leave func()) {
	t.Helper()
	var socket int
	var err error
	p.links.Do(func() {
		if socket, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return
		}
		err = unix.SetsockoptIPMreqn(socket, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP,
			&unix.IPMreqn{Multiaddr: [4]byte{239, 0, 0, 1}, Ifindex: int32(index(t, link))})
	})
	if err != nil {
		t.Fatalf("join 239.0.0.1 on %s: %v", link, err)
	}
	return func() { _ = unix.Close(socket) }
}

// index returns the index of a link in the network namespace of the thread.
func index(t *testing.T, link string) int {
	t.Helper()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(socket) }()
	request, err := unix.NewIfreq(link)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlIfreq(socket, unix.SIOCGIFINDEX, request); err != nil {
		t.Fatalf("index of %s: %v", link, err)
	}
	return int(request.Uint32())
}

// igmp is a socket that reads the messages of IGMP that arrive on a link.
type igmp int

// listen listens in the network namespace that inside enters, on the link that it names.
func listen(t *testing.T, inside func(func(link string)) error) igmp {
	t.Helper()
	const protocol = unix.ETH_P_IP>>8 | unix.ETH_P_IP<<8&0xff00 // in network byte order
	var socket int
	var err error
	entered := inside(func(link string) {
		if socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err == nil {
			err = unix.Bind(socket, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: index(t, link)})
		}
	})
	if err = errors.Join(entered, err); err == nil {
		t.Cleanup(func() { _ = unix.Close(socket) })
		err = unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 15})
	}
	if err != nil {
		t.Fatalf("listen to what arrives in the VPC: %v", err)
	}
	return igmp(socket)
}

// listenTo listens at the VPC's end of the interface of a node, and of one of the fabric.
func (n *node) listenTo(t *testing.T) igmp {
	t.Helper()
	return listen(t, func(do func(string)) error {
		n.vpc.Do(func() { do("eni") })
		return nil
	})
}

func (w *podCluster) listenTo(t *testing.T, eni string) igmp {
	t.Helper()
	return listen(t, func(do func(string)) error { return w.fabric.Inside(eni, do) })
}

// next returns the type of the next message.
func (s igmp) next(t *testing.T) byte {
	t.Helper()
	for packet := make([]byte, 2048); ; {
		n, err := unix.Read(int(s), packet)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			t.Fatalf("no message of IGMP arrives: %v", err)
		}
		const words = 4 // the header's length is in words of 4 bytes
		if header := int(packet[0]&0xf) * words; n > header && packet[9] == unix.IPPROTO_IGMP {
			return packet[header]
		}
	}
}
