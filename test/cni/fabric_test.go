// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cni_test

import (
	"context"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fabric"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/netlink/netlinktest"
	"github.com/multieni/multieni/test/needs"
)

// vpc is a simulated VPC that delivers packets to the addresses that EC2 knows, with a client of EC2.
type vpc struct {
	sim    *awssim.Simulator
	fabric *fabric.Fabric
	ec2    *sdk.Client
}

func newVPC(t *testing.T) *vpc {
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
	return &vpc{sim, network, newClient(sim)}
}

// newClient returns a client of the simulated EC2.
func newClient(sim *awssim.Simulator) *sdk.Client {
	return sdk.New(sdk.Options{
		Region: "us-east-1", BaseEndpoint: aws.String("http://ec2.test"), HTTPClient: &http.Client{Transport: sim.Transport()},
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
}

// node returns a node with an interface of NodeENI n3 in the subnet. The interface has a prefix of each IP version, and
// the network's file has what EC2 has.
func (v *vpc) node(t *testing.T, instance, subnet string) (*node, podnet.Network) {
	t.Helper()
	n := &node{tb: t, links: netlinktest.New(t), pods: t.TempDir()}
	var err error
	if n.programs, err = programs(); err != nil {
		t.Fatal(err)
	}
	n.restart()
	created, err := v.ec2.CreateNetworkInterface(t.Context(), &sdk.CreateNetworkInterfaceInput{
		SubnetId: &subnet, Ipv4PrefixCount: aws.Int32(1), Ipv6PrefixCount: aws.Int32(1),
	})
	if err != nil {
		t.Fatal(err)
	}
	eni := created.NetworkInterface
	if _, err := v.ec2.AttachNetworkInterface(t.Context(), &sdk.AttachNetworkInterfaceInput{
		NetworkInterfaceId: eni.NetworkInterfaceId, InstanceId: &instance, DeviceIndex: aws.Int32(1),
	}); err != nil {
		t.Fatal(err)
	}
	name := func(a *ec2.Attachment) string { return map[int]string{1: "ens6"}[a.DeviceIndex] }
	if err := v.fabric.AddNode(fabric.Node{InstanceID: instance, Namespace: n.links.Path(), LinkName: name}); err != nil {
		t.Fatal(err)
	}
	n.links.IP("link property add dev ens6 altname net-n3")
	n.links.IP("link set ens6 up")
	network := podnet.Network{
		Name: "n3", NodeENI: "n3", Node: instance, Link: "net-n3", ENI: *eni.NetworkInterfaceId, MAC: *eni.MacAddress,
		MTU: 9001, Attachment: podnet.IPVLAN, UID: "uid-n3", Phase: podnet.Open, Addresses: []netip.Addr{netip.MustParseAddr(*eni.PrivateIpAddress)},
		IPv4: &podnet.Family{Prefixes: []netip.Prefix{netip.MustParsePrefix(*eni.Ipv4Prefixes[0].Ipv4Prefix)}},
		IPv6: &podnet.Family{
			Gateway: netip.MustParseAddr("fe80:ec2::1"), Prefixes: []netip.Prefix{netip.MustParsePrefix(*eni.Ipv6Prefixes[0].Ipv6Prefix)},
		},
	}
	for _, s := range v.sim.State().Subnets {
		if s.SubnetID == subnet {
			network.IPv4.Subnet, network.IPv4.Gateway = s.CIDRBlock, s.CIDRBlock.Addr().Next()
			network.IPv6.Subnet = s.IPv6CIDRBlockAssociations[0].IPv6CIDRBlock
		}
	}
	n.write(network)
	return n, network
}

// pings returns whether the pod gets an answer from the address.
func (p pod) pings(t *testing.T, to netip.Addr) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	_, err := fabric.Ping(ctx, p.links.Path(), netip.Addr{}, to)
	return err == nil
}

func addresses(t *testing.T, result *current.Result) []netip.Addr {
	t.Helper()
	var all []netip.Addr
	for _, ip := range result.IPs {
		prefix, ok := netip.ParsePrefix(ip.Address.String())
		if ok != nil {
			t.Fatal(ok)
		}
		all = append(all, prefix.Addr())
	}
	return all
}

const (
	subnetA, instanceA = "subnet-0f59b4f14737be9ad", "i-0a10000000000000a"
	subnetB, instanceB = "subnet-0bb0000000000000b", "i-0a10000000000000b"
)

// The subnets of two zones differ, so the pods reach each other only through the subnets' routers, which needs the
// routes.
func TestPodsOfTwoZonesPingEachOther(t *testing.T) {
	v := newVPC(t)
	a, networkA := v.node(t, instanceA, subnetA)
	b, networkB := v.node(t, instanceB, subnetB)
	networkA.Routes = []netip.Prefix{networkB.IPv4.Subnet, networkB.IPv6.Subnet}
	networkB.Routes = []netip.Prefix{networkA.IPv4.Subnet, networkA.IPv6.Subnet}
	a.write(networkA)
	b.write(networkB)
	podA, podB := a.pod("upf-a"), b.pod("upf-b")
	atA := addresses(t, a.mustAdd(a.shared("n3"), podA, "net1"))
	atB := addresses(t, b.mustAdd(b.shared("n3"), podB, "net1"))
	for i := range atA {
		if !podA.pings(t, atB[i]) || !podB.pings(t, atA[i]) {
			t.Errorf("%v and %v do not ping each other", atA[i], atB[i])
		}
	}

	// EC2 does not have this prefix: the pod starts, and reaches no other pod.
	unknown := networkB
	unknown.IPv4 = &podnet.Family{Subnet: networkB.IPv4.Subnet, Gateway: networkB.IPv4.Gateway, Prefixes: []netip.Prefix{
		netip.MustParsePrefix("10.0.95.224/28"),
	}}
	unknown.IPv6 = nil
	b.write(unknown)
	podC := b.pod("upf-c")
	atC := addresses(t, b.mustAdd(b.shared("n3"), podC, "net1"))
	if podA.pings(t, atC[0]) || podC.pings(t, atA[0]) {
		t.Errorf("%v, which EC2 does not know, and %v ping each other", atC[0], atA[0])
	}
}

// The pod gets the whole interface with the interface's own address, and the link returns to the node when the pod
// ends.
func TestAPodWithTheWholeInterfacePings(t *testing.T) {
	v := newVPC(t)
	a, networkA := v.node(t, instanceA, subnetA)
	b, networkB := v.node(t, instanceB, subnetB)
	networkA.Routes, networkB.Routes = []netip.Prefix{networkB.IPv4.Subnet}, []netip.Prefix{networkA.IPv4.Subnet}
	networkB.Attachment, networkB.IPv6 = podnet.HostDevice, nil
	a.write(networkA)
	b.write(networkB)
	podA, podB := a.pod("upf-a"), b.pod("upf-b")
	atA := addresses(t, a.mustAdd(a.shared("n3"), podA, "net1"))
	device := b.configuration("n3", `{"type": "host-device", "device": "net-n3", "ipam": `+b.ipam("n3")+`}, {"type": "multieni-routes"}`)
	atB := addresses(t, b.mustAdd(device, podB, "net1"))
	if atB[0] != networkB.Addresses[0] {
		t.Errorf("the pod's address is %v, want the interface's %v", atB[0], networkB.Addresses[0])
	}
	if !podA.pings(t, atB[0]) || !podB.pings(t, atA[0]) {
		t.Errorf("%v and %v do not ping each other", atA[0], atB[0])
	}
	b.del(device, podB, "net1")
	b.links.IP("link show dev net-n3")
	if podA.pings(t, atB[0]) {
		t.Errorf("%v is answered after its pod has gone", atB[0])
	}
}
