// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package fabric_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fabric"
	"github.com/multieni/multieni/awssim/namespace"
	"github.com/multieni/multieni/test/needs"
)

// The IDs of the example world that the tests use.
const (
	subnetA   = "subnet-0f59b4f14737be9ad" // 10.0.64.0/20
	subnetB   = "subnet-0bb0000000000000b" // 10.0.80.0/20
	instanceA = "i-0a10000000000000a"
	instanceB = "i-0a10000000000000b"
)

// account is a simulated account, with a fabric and its nodes.
type account struct {
	t   *testing.T
	sim *awssim.Simulator
	ec2 *sdk.Client
	net *fabric.Fabric
}

func newAccount(t *testing.T) *account {
	t.Helper()
	needs.Namespaces(t, fabric.Possible())
	sim, err := awssim.New(awssim.Options{World: awssim.ExampleWorld(), Behavior: &ec2.Behavior{}, Limits: map[string]awssim.Bucket{}})
	if err != nil {
		t.Fatal(err)
	}
	network, err := fabric.New(sim)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := network.Close(); err != nil {
			t.Errorf("close the fabric: %v", err)
		}
	})
	client := sdk.New(sdk.Options{
		Region: "us-east-1", BaseEndpoint: aws.String("http://ec2.test"), HTTPClient: &http.Client{Transport: sim.Transport()},
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	return &account{t, sim, client, network}
}

// node is an instance with one more interface, whose link is eth1.
type node struct {
	*namespace.Namespace
	t        *testing.T
	eni      *types.NetworkInterface
	instance string
}

// attach creates an interface in the subnet, with the given changes, and attaches it to the instance.
func (a *account) attach(instance, subnet string, device int32, change func(*sdk.CreateNetworkInterfaceInput)) *types.NetworkInterface {
	a.t.Helper()
	input := &sdk.CreateNetworkInterfaceInput{SubnetId: &subnet}
	if change != nil {
		change(input)
	}
	created, err := a.ec2.CreateNetworkInterface(a.t.Context(), input)
	if err != nil {
		a.t.Fatal(err)
	}
	if _, err := a.ec2.AttachNetworkInterface(a.t.Context(), &sdk.AttachNetworkInterfaceInput{
		NetworkInterfaceId: created.NetworkInterface.NetworkInterfaceId, InstanceId: &instance, DeviceIndex: &device,
	}); err != nil {
		a.t.Fatal(err)
	}
	return created.NetworkInterface
}

func newNamespace(t *testing.T) *namespace.Namespace {
	t.Helper()
	space, err := namespace.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = space.Close() })
	return space
}

// node gives the instance a network with one more interface in the subnet, and configures its link with the primary address and
// a route by the subnet's router.
func (a *account) node(instance, subnet, router string, change func(*sdk.CreateNetworkInterfaceInput)) *node {
	a.t.Helper()
	n := &node{newNamespace(a.t), a.t, a.attach(instance, subnet, 1, change), instance}
	if err := a.net.AddNode(a.fabricNode(n)); err != nil {
		a.t.Fatal(err)
	}
	n.ip("address add "+*n.eni.PrivateIpAddress+"/20 dev eth1", "link set eth1 up", "route add default via "+router)
	for _, address := range n.eni.Ipv6Addresses {
		n.ip("address add " + *address.Ipv6Address + "/64 dev eth1 nodad")
	}
	if len(n.eni.Ipv6Addresses) > 0 {
		n.ip("-6 route add default via fe80:ec2::1 dev eth1 onlink")
	}
	return n
}

// fabricNode returns a node without a link for the primary interface.
func (a *account) fabricNode(n *node) fabric.Node {
	return fabric.Node{InstanceID: n.instance, Namespace: n.Path(), LinkName: func(at *ec2.Attachment) string {
		if at.DeviceIndex == 0 {
			return ""
		}
		return fmt.Sprintf("eth%d", at.DeviceIndex)
	}}
}

// two returns nodes in zones a and b.
func (a *account) two(change func(*sdk.CreateNetworkInterfaceInput)) (*node, *node) {
	a.t.Helper()
	return a.node(instanceA, subnetA, "10.0.64.1", change), a.node(instanceB, subnetB, "10.0.80.1", change)
}

func (n *node) ip(commands ...string) {
	n.t.Helper()
	for _, c := range commands {
		if _, err := n.IP(c); err != nil {
			n.t.Fatal(err)
		}
	}
}

func (n *node) primary() string { return *n.eni.PrivateIpAddress }

// pings returns whether a ping of an address is answered. The address that it comes from may be empty.
func (n *node) pings(from, to string) bool {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 1500*time.Millisecond)
	defer cancel()
	source, _ := netip.ParseAddr(from)
	_, err := fabric.Ping(ctx, n.Path(), source, netip.MustParseAddr(to))
	return err == nil
}

// expect compares the result of a ping with the expected one.
func (n *node) expect(want bool, from, to string) {
	n.t.Helper()
	if got := n.pings(from, to); got != want {
		n.t.Errorf("ping %s from %q at %s is answered: %t, want %t", to, from, n.instance, got, want)
	}
}

func (a *account) sync() {
	a.t.Helper()
	if err := a.net.Sync(); err != nil {
		a.t.Fatal(err)
	}
}

// hostIn returns the n-th address of a prefix.
func hostIn(prefix string, n int) string {
	address := netip.MustParsePrefix(prefix).Addr()
	for range n {
		address = address.Next()
	}
	return address.String()
}

func onePrefix(i *sdk.CreateNetworkInterfaceInput) { i.Ipv4PrefixCount = aws.Int32(1) }

func TestAddressesThatEC2Knows(t *testing.T) {
	t.Parallel()
	world := newAccount(t)
	a, b := world.two(onePrefix)
	last := hostIn(*b.eni.Ipv4Prefixes[0].Ipv4Prefix, 15)
	const unknown = "10.0.95.250"
	b.ip("address add "+last+"/20 dev eth1", "address add "+unknown+"/20 dev eth1")

	a.expect(true, "", b.primary())
	a.expect(true, a.primary(), last)
	b.expect(true, last, a.primary())
	a.expect(false, "", unknown)
	b.expect(false, unknown, a.primary())
	a.expect(false, "", "10.0.80.1") // routers answer no ping
}

func TestAnAddressMovesByOneChange(t *testing.T) {
	t.Parallel()
	world := newAccount(t)
	a, b := world.two(nil)
	c := world.node("i-0a20000000000000a", subnetA, "10.0.64.1", nil)
	const floating = "10.0.70.70"
	assign := func(to *node) {
		t.Helper()
		if _, err := world.ec2.AssignPrivateIpAddresses(t.Context(), &sdk.AssignPrivateIpAddressesInput{
			NetworkInterfaceId: to.eni.NetworkInterfaceId, PrivateIpAddresses: []string{floating}, AllowReassignment: aws.Bool(true),
		}); err != nil {
			t.Fatal(err)
		}
		world.sync()
	}
	a.ip("address add " + floating + "/20 dev eth1")
	assign(a)
	b.expect(true, "", floating)

	assign(c)
	b.expect(false, "", floating) // c does not have it yet, and a does not receive the packet
	a.expect(false, floating, b.primary())
	c.ip("address add " + floating + "/20 dev eth1")
	b.expect(true, "", floating)
	c.expect(true, floating, b.primary())

	if _, err := world.ec2.UnassignPrivateIpAddresses(t.Context(), &sdk.UnassignPrivateIpAddressesInput{
		NetworkInterfaceId: c.eni.NetworkInterfaceId, PrivateIpAddresses: []string{floating},
	}); err != nil {
		t.Fatal(err)
	}
	world.sync()
	b.expect(false, "", floating)
}

func TestSourceCheck(t *testing.T) {
	t.Parallel()
	world := newAccount(t)
	a, b := world.two(nil)
	const foreign = "192.0.2.1"
	a.ip("address add " + foreign + "/32 dev eth1")
	for _, tc := range []struct{ check, arrives bool }{{true, false}, {false, true}, {true, false}} {
		if _, err := world.ec2.ModifyNetworkInterfaceAttribute(t.Context(), &sdk.ModifyNetworkInterfaceAttributeInput{
			NetworkInterfaceId: a.eni.NetworkInterfaceId, SourceDestCheck: &types.AttributeBooleanValue{Value: &tc.check},
		}); err != nil {
			t.Fatal(err)
		}
		world.sync()
		if got := arrives(t, a, foreign, b); got != tc.arrives {
			t.Errorf("source check %t: a packet from %s arrives: %t, want %t", tc.check, foreign, got, tc.arrives)
		}
		if !arrives(t, a, a.primary(), b) {
			t.Errorf("source check %t: a packet from %s does not arrive", tc.check, a.primary())
		}
	}
}

// arrives sends datagrams until one arrives, for a second.
func arrives(t *testing.T, from *node, source string, to *node) bool {
	t.Helper()
	var receiver, sender net.PacketConn
	var failed error
	listen := func(c *net.PacketConn, address string) func() {
		return func() { *c, failed = (&net.ListenConfig{}).ListenPacket(t.Context(), "udp4", address) }
	}
	for _, open := range []struct {
		in *node
		do func()
	}{{to, listen(&receiver, to.primary()+":0")}, {from, listen(&sender, source+":0")}} {
		if err := open.in.Do(open.do); err != nil || failed != nil {
			t.Fatal(err, failed)
		}
	}
	defer receiver.Close()
	defer sender.Close()
	for range 10 {
		if _, err := sender.WriteTo([]byte("hello"), receiver.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		if err := receiver.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, at, err := receiver.ReadFrom(make([]byte, 16)); err == nil {
			return strings.HasPrefix(at.String(), source+":")
		}
	}
	return false
}

func TestIPv6(t *testing.T) {
	t.Parallel()
	world := newAccount(t)
	address := func(i *sdk.CreateNetworkInterfaceInput) { i.Ipv6AddressCount = aws.Int32(1) }
	a, b := world.two(address)
	c := world.node("i-0a20000000000000a", subnetA, "10.0.64.1", address)
	for _, n := range []*node{a, b} {
		assigned, err := world.ec2.AssignIpv6Addresses(t.Context(), &sdk.AssignIpv6AddressesInput{
			NetworkInterfaceId: n.eni.NetworkInterfaceId, Ipv6PrefixCount: aws.Int32(1),
		})
		if err != nil {
			t.Fatal(err)
		}
		n.eni.Ipv6Prefixes = []types.Ipv6PrefixSpecification{{Ipv6Prefix: &assigned.AssignedIpv6Prefixes[0]}}
		n.ip("-6 address add " + n.prefix6() + "/128 dev eth1 nodad")
	}
	world.sync()
	const unknown = "2600:1f18:1234:5602::bad"
	b.ip("-6 address add " + unknown + "/128 dev eth1 nodad")

	a.expect(true, "", b.address6())
	a.expect(true, a.prefix6(), b.prefix6())
	a.expect(true, a.address6(), c.address6()) // in its subnet: the VPC answers for c
	c.expect(false, "", a.prefix6())           // it does not for a prefix
	c.expect(true, "", a.address6())
	c.expect(true, "", b.prefix6())
	a.expect(false, "", unknown)
	b.expect(false, unknown, a.address6())
}

func (n *node) address6() string { return *n.eni.Ipv6Addresses[0].Ipv6Address }
func (n *node) prefix6() string  { return hostIn(*n.eni.Ipv6Prefixes[0].Ipv6Prefix, 7) }

func TestLinksComeAndGoWithAttachments(t *testing.T) {
	t.Parallel()
	world := newAccount(t)
	space, pod := newNamespace(t), newNamespace(t)
	n := &node{space, t, nil, instanceA}
	if err := world.net.AddNode(world.fabricNode(n)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	followed := make(chan error, 1)
	go func() { followed <- world.net.Follow(ctx) }()
	defer func() {
		cancel()
		if err := <-followed; err != nil {
			t.Errorf("follow EC2: %v", err)
		}
	}()
	eni := world.attach(instanceA, subnetA, 1, nil)
	links := eventually(t, space, "eth1@")
	if !strings.Contains(links, *eni.MacAddress) || !strings.Contains(links, "mtu 9001") || strings.Contains(links, "UP") {
		t.Errorf("the link of %s is not as EC2 made it:\n%s", *eni.MacAddress, links)
	}

	// It also disappears from a pod.
	n.ip("link set eth1 netns " + pod.Path())
	attached, err := world.ec2.DescribeNetworkInterfaces(ctx, &sdk.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{*eni.NetworkInterfaceId}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := world.ec2.DetachNetworkInterface(ctx, &sdk.DetachNetworkInterfaceInput{AttachmentId: attached.NetworkInterfaces[0].Attachment.AttachmentId}); err != nil {
		t.Fatal(err)
	}
	eventually(t, pod, "")
}

// TestInsideIsTheVPCsEndOfAnInterface enters the VPC of one interface, and of one that no node has.
func TestInsideIsTheVPCsEndOfAnInterface(t *testing.T) {
	t.Parallel()
	world := newAccount(t)
	n := &node{newNamespace(t), t, nil, instanceA}
	if err := world.net.AddNode(world.fabricNode(n)); err != nil {
		t.Fatal(err)
	}
	eni := world.attach(instanceA, subnetA, 1, nil)
	if err := world.net.Sync(); err != nil {
		t.Fatal(err)
	}
	var failure error
	err := world.net.Inside(*eni.NetworkInterfaceId, func(link string) { _, failure = net.InterfaceByName(link) })
	if err != nil || failure != nil {
		t.Errorf("the link of %s in the VPC: %v, %v", *eni.NetworkInterfaceId, err, failure)
	}
	const unknown = "eni-00000000000000000"
	if err := world.net.Inside(unknown, func(string) { t.Error("the function runs") }); err == nil || !strings.Contains(err.Error(), unknown) {
		t.Errorf("for an interface that no node has: %v", err)
	}
}

// eventually waits until a namespace has links other than lo whose listing contains a text, or none for "".
func eventually(t *testing.T, space *namespace.Namespace, text string) string {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) { // waits for the kernel
		output, err := space.IP("-o link show type veth")
		if err != nil {
			t.Fatal(err)
		}
		if text == "" && output == "" || text != "" && strings.Contains(output, text) {
			return output
		}
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("after 10 s there is no %q in:\n%s", text, output)
		}
	}
}

func TestANodeReboots(t *testing.T) {
	t.Parallel()
	world := newAccount(t)
	a, b := world.two(nil)
	before := b.Namespace
	b.Namespace = newNamespace(t)
	if err := world.net.AddNode(world.fabricNode(b)); err != nil {
		t.Fatal(err)
	}
	eventually(t, before, "")
	a.expect(false, "", b.primary())
	b.ip("address add "+b.primary()+"/20 dev eth1", "link set eth1 up", "route add default via 10.0.80.1")
	a.expect(true, "", b.primary())
}

func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	world := newAccount(t)
	a, b := world.two(nil)
	if err := world.net.RemoveNode(instanceA); err != nil {
		t.Fatal(err)
	}
	eventually(t, a.Namespace, "")
	if err := world.net.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, b.Namespace, "")
}

func TestANodeWithoutNamespaceIsNamed(t *testing.T) {
	t.Parallel()
	world := newAccount(t)
	world.attach(instanceA, subnetA, 1, nil)
	err := world.net.AddNode(fabric.Node{InstanceID: instanceA, Namespace: "/nowhere"})
	if err == nil || !strings.Contains(err.Error(), instanceA) || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("error is %v, want one that names the instance and the file", err)
	}
	if err := world.net.RemoveNode(instanceA); err != nil {
		t.Error(err)
	}
}
