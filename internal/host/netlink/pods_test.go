// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package netlink_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	nlink "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/multieni/multieni/internal/core/podaddress"
	"github.com/multieni/multieni/internal/host/netlink"
	"github.com/multieni/multieni/internal/host/netlink/netlinktest"
)

// observed is a node with two interfaces, and an observer of the namespaces of its pods.
type observed struct {
	*testing.T
	node       *netlinktest.Namespace
	vpc        *netlinktest.Namespace
	pods       *netlink.PodNetworks
	interfaces []podaddress.Interface
	made       int
}

func observe(t *testing.T) *observed {
	t.Helper()
	o := &observed{T: t, node: netlinktest.New(t), vpc: netlinktest.New(t)}
	for n, name := range []string{"eth1", "eth2"} {
		mac := fmt.Sprintf("02:00:00:00:00:0%d", n+1)
		o.node.Attach(name, mac, o.vpc, name)
		o.node.IP("link set " + name + " up")
		o.interfaces = append(o.interfaces, podaddress.Interface{ID: "eni-" + name, MAC: mac, Link: o.index(name)})
	}
	o.node.DoContained(func() {
		var err error
		if o.pods, err = netlink.OpenPodNetworks(device); err != nil {
			t.Error(err)
		}
	}, unix.CAP_NET_ADMIN, unix.CAP_NET_BROADCAST)
	if o.pods == nil {
		t.FailNow()
	}
	t.Cleanup(func() { o.pods.Close() })
	return o
}

func (o *observed) index(name string) (index int) {
	o.Helper()
	if _, err := fmt.Sscanf(o.node.IP("-o link show "+name), "%d:", &index); err != nil {
		o.Fatal(err)
	}
	return index
}

// reopen lets another observer take over, as when the agent starts again.
func (o *observed) reopen(device func(name, mac string) string) {
	o.Helper()
	o.pods.Close()
	o.node.Do(func() {
		var err error
		if o.pods, err = netlink.OpenPodNetworks(device); err != nil {
			o.Fatal(err)
		}
	})
}

// pod starts a pod with one link on an interface, and one that is on none.
func (o *observed) pod(master string) *netlinktest.Namespace {
	o.Helper()
	o.made++
	pod, child, host := netlinktest.New(o.T), fmt.Sprintf("c%d", o.made), fmt.Sprintf("h%d", o.made)
	o.node.IP(fmt.Sprintf("link add %s type veth peer name p%s", host, host))
	o.node.Give("p"+host, pod)
	pod.IP(fmt.Sprintf("link set p%s name eth0", host))
	pod.IP(fmt.Sprintf("address add 10.1.0.%d/32 dev eth0", o.made))
	o.node.IP(fmt.Sprintf("link add %s link %s type macvlan", child, master))
	o.node.Give(child, pod)
	pod.IP(fmt.Sprintf("link set %s name net1", child))
	pod.IP("link set net1 up")
	return pod
}

// sees waits until the observer returns exactly the addresses, each as INTERFACE ADDRESS POD-IP, and returns how long
// that took.
func (o *observed) sees(want ...string) time.Duration {
	o.Helper()
	begin, deadline := time.Now(), time.After(20*time.Second)
	for {
		namespaces, complete := o.pods.Namespaces()
		var got []string
		found := podaddress.Find(namespaces, o.interfaces)
		for _, i := range o.interfaces {
			for _, a := range found[i.ID] {
				got = append(got, fmt.Sprint(i.ID, " ", a.Address, " ", a.PodIP))
			}
		}
		if complete && strings.Join(got, "\n") == strings.Join(want, "\n") {
			return time.Since(begin)
		}
		select {
		case <-o.pods.Events():
		case <-deadline:
			o.Fatalf("the observer sees %v (all namespaces read: %t), want %v", got, complete, want)
		}
	}
}

func TestAddressesOfPodsAreObserved(t *testing.T) {
	o := observe(t)
	o.sees()
	first := o.pod("eth1")
	o.sees()
	first.IP("address add 10.0.4.200/24 dev net1")
	o.sees("eni-eth1 10.0.4.200 10.1.0.1")

	second := o.pod("eth2")
	second.IP("address add 10.0.4.200/32 dev net1")
	second.IP("address add 10.0.4.201/32 dev net1")
	o.sees("eni-eth1 10.0.4.200 10.1.0.1", "eni-eth2 10.0.4.200 10.1.0.2", "eni-eth2 10.0.4.201 10.1.0.2")

	first.IP("address delete 10.0.4.200/24 dev net1")
	o.sees("eni-eth2 10.0.4.200 10.1.0.2", "eni-eth2 10.0.4.201 10.1.0.2")
	second.End()
	o.sees()
}

// The link of an interface can itself be in the namespace of a pod. The kernel then names no lower link.
func TestAddressesOfAnInterfaceInAPodAreObserved(t *testing.T) {
	o := observe(t)
	pod := o.pod("eth2")
	o.node.Give("eth1", pod)
	o.interfaces[0].Link = 0
	pod.IP("address add 10.0.4.200/32 dev eth1")
	o.sees("eni-eth1 10.0.4.200 10.1.0.1")
}

// A pod with NET_ADMIN makes a link with the MAC address of an interface that another pod has.
func TestAVirtualLinkIsNoInterface(t *testing.T) {
	o := observe(t)
	pod := o.pod("eth2")
	o.node.Give("eth1", o.pod("eth2"))
	o.interfaces[0].Link = 0
	o.reopen(nil) // asks the kernel which links are those of devices
	for n, kind := range []string{"ifb", "veth", "bridge"} {
		name := fmt.Sprint("fake", n)
		pod.IP("link add " + name + " address " + o.interfaces[0].MAC + " type " + kind)
		pod.IP(fmt.Sprintf("address add 10.0.4.%d/32 dev %s", 200+n, name))
	}
	o.sees()
}

// The kernel shows the peer of a virtual link like a lower link, and the node's own namespace like that of a pod.
func TestOnlyLinksOfPodsAreObserved(t *testing.T) {
	o := observe(t)
	o.node.IP("address add 10.0.4.222/32 dev eth1")
	o.vpc.IP("address add 10.0.4.223/32 dev eth1") // its peer is the interface's link
	o.pod("eth1").IP("address add 10.0.4.200/32 dev net1")
	o.sees("eni-eth1 10.0.4.200 10.1.0.1")
	o.reopen(device)
	o.sees("eni-eth1 10.0.4.200 10.1.0.1")
	namespaces, _ := o.pods.Namespaces()
	for _, namespace := range namespaces {
		for _, link := range namespace.Links {
			if slices.Contains(link.Addresses, netip.MustParseAddr("10.0.4.222")) {
				t.Errorf("the namespace of the node is observed, with ID %d", namespace.ID)
			}
		}
	}
}

// The pod has the address of its link to the node, even if one that leads nowhere, or a later one, is lower.
func TestTheAddressOfAPodIsThatOfItsLinkToTheNode(t *testing.T) {
	o := observe(t)
	pod := o.pod("eth1")
	pod.IP("link add service0 type bridge")
	pod.IP("address add 10.0.0.1/32 dev service0")
	pod.IP("address add 10.0.0.2/32 dev eth0")
	pod.IP("address add 10.0.4.200/32 dev net1")
	o.sees("eni-eth1 10.0.4.200 10.1.0.1")
}

// TestPhysical lists links as kernels show them. A namespace of a test has no device.
func TestPhysical(t *testing.T) {
	permanent := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	for name, tc := range map[string]struct {
		link nlink.Link
		want bool
	}{
		"a device":                           {&nlink.Device{LinkAttrs: nlink.LinkAttrs{PermHWAddr: permanent, ParentDev: "0000:00:06.0", ParentDevBus: "pci"}}, true},
		"a device, and a kernel before 5.14": {&nlink.Device{LinkAttrs: nlink.LinkAttrs{PermHWAddr: permanent}}, true},
		"a simulated radio":                  {&nlink.Device{LinkAttrs: nlink.LinkAttrs{PermHWAddr: permanent, ParentDev: "phy0"}}, false},
		"a link without a kind":              {&nlink.Device{LinkAttrs: nlink.LinkAttrs{HardwareAddr: permanent}}, false},
		"a dummy link":                       {&nlink.Dummy{LinkAttrs: nlink.LinkAttrs{HardwareAddr: permanent}}, false},
		"a link of an unknown kind":          {&nlink.GenericLink{LinkType: "new", LinkAttrs: nlink.LinkAttrs{PermHWAddr: permanent}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := netlink.Physical(tc.link); got != tc.want {
				t.Errorf("physical: %t", got)
			}
		})
	}
}

// Pods that run when the agent starts are observed as well.
func TestAddressesFromBeforeAreObserved(t *testing.T) {
	o := observe(t)
	o.pod("eth1").IP("address add 10.0.4.200/24 dev net1")
	o.sees("eni-eth1 10.0.4.200 10.1.0.1")
	o.reopen(device)
	o.sees("eni-eth1 10.0.4.200 10.1.0.1")
}

// Many pods at once are more events than the observer reads one by one.
func TestManyPodsStartAtOnce(t *testing.T) {
	o := observe(t)
	var want []string
	for n := range 40 {
		o.pod("eth1").IP(fmt.Sprintf("address add %s/32 dev net1", netip.AddrFrom4([4]byte{10, 0, 4, byte(100 + n)})))
		want = append(want, fmt.Sprintf("eni-eth1 10.0.4.%d 10.1.0.%d", 100+n, n+1))
	}
	o.sees(want...)
}

func TestObservationNeedsTheCapability(t *testing.T) {
	node := netlinktest.New(t)
	node.DoContained(func() {
		if pods, err := netlink.OpenPodNetworks(device); !errors.Is(err, unix.EPERM) {
			t.Errorf("got %v and %v, want EPERM", pods, err)
		}
	}, unix.CAP_NET_ADMIN)
}

// Kernels differ in the events of the own namespace: see affected. A test with real events covers only one kernel.
func TestNamespacesOfEvents(t *testing.T) {
	for name, tc := range map[string]struct {
		message, control []byte
		want             []int
	}{
		"a link of the own namespace":                                {event(unix.RTM_NEWLINK, 0), nil, nil},
		"a link of another":                                          {event(unix.RTM_NEWLINK, 0), from(3), []int{3}},
		"a namespace appears":                                        {event(unix.RTM_NEWNSID, 4), nil, []int{4}},
		"a namespace ends":                                           {event(unix.RTM_DELNSID, 4), nil, []int{4}},
		"a namespace ends, and the kernel names the own one":         {event(unix.RTM_DELNSID, 4), from(1), []int{1, 4}},
		"a namespace ends, and the kernel names one that is none":    {event(unix.RTM_DELNSID, 4), from(-1), []int{4}},
		"a namespace without an ID":                                  {event(unix.RTM_NEWNSID, -1), from(3), []int{3}},
		"a link of the own namespace, and the kernel names the same": {event(unix.RTM_NEWLINK, 0), from(-1), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := netlink.Affected(tc.message, tc.control); err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("got %v and %v, want %v", got, err, tc.want)
			}
		})
	}
}

// event is an event as the kernel encodes it, with the ID of a namespace.
func event(kind uint16, id int32) []byte {
	message := binary.NativeEndian.AppendUint32(nil, unix.SizeofNlMsghdr+4+8)
	message = binary.NativeEndian.AppendUint16(message, kind)
	message = append(message, make([]byte, 10+4)...) // the rest of the header, and struct rtgenmsg
	message = binary.NativeEndian.AppendUint16(message, 8)
	message = binary.NativeEndian.AppendUint16(message, unix.NETNSA_NSID)
	return binary.NativeEndian.AppendUint32(message, uint32(id))
}

// from is the control message with the ID of the namespace that an event is from.
func from(id int32) []byte {
	control := make([]byte, unix.CmsgSpace(4))
	header := (*unix.Cmsghdr)(unsafe.Pointer(&control[0]))
	header.Level, header.Type = unix.SOL_NETLINK, unix.NETLINK_LISTEN_ALL_NSID
	header.SetLen(unix.CmsgLen(4))
	binary.NativeEndian.PutUint32(control[unix.CmsgLen(0):], uint32(id))
	return control
}

// TestANoisyPodDelaysNoOther has a pod with thousands of addresses add and delete another one all the time, so that
// each listing of its addresses is interrupted. The observer still follows another pod, and one that starts meanwhile
// sees all pods.
func TestANoisyPodDelaysNoOther(t *testing.T) {
	o := observe(t)
	noisy, quiet := o.pod("eth1"), o.pod("eth2")
	quiet.IP("address add 10.0.4.200/32 dev net1")
	o.sees("eni-eth2 10.0.4.200 10.1.0.2")
	var stop atomic.Bool
	ended := make(chan struct{})
	t.Cleanup(func() {
		stop.Store(true)
		<-ended
	})
	ready := make(chan struct{})
	go func() {
		defer close(ended)
		noisy.Do(func() {
			eth0, err := nlink.LinkByName("eth0")
			if err != nil {
				t.Error(err)
			}
			for n := range 4000 {
				_ = nlink.AddrAdd(eth0, &nlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(10, 200, byte(n>>8), byte(n)), Mask: net.CIDRMask(32, 32)}})
			}
			close(ready)
			lo, _ := nlink.LinkByName("lo")
			for flaps := (&nlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(10, 201, 0, 1), Mask: net.CIDRMask(32, 32)}}); !stop.Load(); {
				_ = nlink.AddrAdd(lo, flaps)
				_ = nlink.AddrDel(lo, flaps)
			}
		})
	}()
	<-ready
	quiet.IP("address add 10.0.4.201/32 dev net1")
	o.sees("eni-eth2 10.0.4.200 10.1.0.2", "eni-eth2 10.0.4.201 10.1.0.2")
	quiet.IP("address del 10.0.4.200/32 dev net1")
	took := o.sees("eni-eth2 10.0.4.201 10.1.0.2")
	t.Logf("the last change was seen after %s", took)

	o.node.DoContained(func() { // an agent that starts meanwhile
		late, err := netlink.OpenPodNetworks(device)
		if err != nil {
			t.Error(err)
			return
		}
		defer late.Close()
		for deadline := time.After(20 * time.Second); ; {
			if _, complete := late.Namespaces(); complete {
				return
			}
			select {
			case <-late.Events():
			case <-deadline:
				t.Error("an observer that starts next to the noisy pod never knows all pods")
				return
			}
		}
	}, unix.CAP_NET_ADMIN, unix.CAP_NET_BROADCAST)
}
