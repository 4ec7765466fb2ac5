// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cni_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/multieni/multieni/internal/core/podnet"
)

// hostDevice gives a pod the interface itself, with one address.
func (n *node) hostDevice() string {
	n.tb.Helper()
	own := network("n3", 4, 0)
	own.IPv6, own.Attachment, own.Addresses = nil, podnet.HostDevice, []netip.Addr{netip.MustParseAddr("10.0.4.70")}
	n.write(own)
	return fmt.Sprintf(`{"type": "host-device", "device": "net-n3", "ipam": %s}, {"type": "multieni-routes"}`, n.ipam("n3"))
}

// TestAPodEndsWithoutItsLink: DEL of the CNI project's host-device fails without the link, and the runtime repeats it for
// ever.
func TestAPodEndsWithoutItsLink(t *testing.T) {
	for name, tc := range map[string]struct {
		plugins func(*node) string
		lose    func(*node, pod)
	}{
		"HostDevice: EC2 has detached the interface": {(*node).hostDevice, func(n *node, _ pod) { n.vpc.IP("link del eni") }},
		"HostDevice: attached again since": {(*node).hostDevice, func(n *node, _ pod) {
			n.vpc.IP("link del eni")
			n.attach("ens6", "n3", "02:00:00:00:00:06")
		}},
		"HostDevice: the pod has renamed the link": {(*node).hostDevice, func(_ *node, p pod) {
			p.links.IP("link set net1 down")
			p.links.IP("link set net1 name data0")
		}},
		"a shared interface": {func(n *node) string {
			n.write(network("n3", 4, 1))
			return fmt.Sprintf(`{%s, "master": "net-n3", "ipam": %s}, {"type": "multieni-routes"}`, attachment(), n.ipam("n3"))
		}, func(n *node, _ pod) { n.vpc.IP("link del eni") }},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			list := n.configuration("n3", tc.plugins(n))
			p := n.pod("a")
			n.mustAdd(list, p, "net1")
			tc.lose(n, p)
			before := n.linkNames()
			for range 2 { // the runtime repeats a call whose answer it lost
				n.del(list, p, "net1")
			}
			if used := n.inUse("n3"); len(used) > 0 {
				t.Errorf("in use: %v", used)
			}
			p.links.End()
			eventually(t, "the end of the stand-in", func() bool { return slices.Equal(n.linkNames(), before) })
		})
	}
}

// TestAPodEndsThatNeverGotTheInterface: another pod has it, so ADD failed, and the runtime calls DEL.
func TestAPodEndsThatNeverGotTheInterface(t *testing.T) {
	n := newNode(t)
	list := n.configuration("n3", n.hostDevice())
	first, second := n.pod("first"), n.pod("second")
	n.mustAdd(list, first, "net1")
	if _, err := n.add(list, second, "net1"); err == nil {
		t.Fatal("two pods have the interface")
	}
	n.del(list, second, "net1")
	if used := n.inUse("n3"); used["10.0.4.70"] != "upf/first" {
		t.Errorf("in use: %v", used)
	}
	n.del(list, first, "net1")
	n.mustAdd(list, n.pod("third"), "net1")
}

// TestALeaseNamesTheLinkThatThePodIsOn: EC2 can detach the interface and attach it again while the pod runs.
func TestALeaseNamesTheLinkThatThePodIsOn(t *testing.T) {
	n := newNode(t)
	n.write(network("n3", 4, 1))
	list, p := n.shared("n3"), n.pod("a")
	index := func() string {
		t.Helper()
		number, _, _ := strings.Cut(n.links.IP("-o link show dev net-n3"), ":")
		return strings.TrimSpace(number)
	}
	isOn := func(link string) {
		t.Helper()
		for _, l := range n.read("n3") {
			if fmt.Sprint(l.Link) != link || l.Attachment != podnet.IPVLAN {
				t.Errorf("the lease of %v is on link %d (%s), want link %s", l.Address, l.Link, l.Attachment, link)
			}
		}
	}
	n.mustAdd(list, p, "net1")
	former := index()
	isOn(former)
	n.vpc.IP("link del eni")
	n.attach("ens6", "n3", "02:00:00:00:00:06")
	if index() == former {
		t.Fatal("the link has its former index again")
	}
	isOn(former)
	n.mustAdd(list, p, "net1")
	isOn(index())
}

// TestDelOfAPathThatIsNoNamespace: multieni-routes has nothing to remove there.
func TestDelOfAPathThatIsNoNamespace(t *testing.T) {
	n := newNode(t)
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	conf := pod{name: "a", links: n.links}.runtimeConf("net1")
	conf.NetNS = path
	list := n.configuration("n3", `{"type": "multieni-routes"}`)
	if err := n.runtime.DelNetworkList(t.Context(), list, conf); err != nil {
		t.Error(err)
	}
}

// TestANetworkThatTakesNoPodsSaysSoBeforehand: STATUS tells a runtime, which then starts no pod.
func TestANetworkThatTakesNoPodsSaysSoBeforehand(t *testing.T) {
	const notAvailable = 50
	n := newNode(t)
	network := network("n3", 4, 1)
	list := n.addressOnly("n3")
	for name, tc := range map[string]struct {
		phase podnet.Phase
		want  uint
	}{"open": {network.Phase, 0}, "closed": {podnet.Closed, notAvailable}} {
		t.Run(name, func(t *testing.T) {
			network.Phase = tc.phase
			n.write(network)
			err := n.runtime.GetStatusNetworkList(t.Context(), list)
			if code(err) != tc.want || (err == nil) != (tc.want == 0) {
				t.Errorf("code %d: %v; want %d", code(err), err, tc.want)
			}
		})
	}
}

// TestPodsThatLostTheirLinkAreNamed: a user detaches the interface in EC2 while a pod runs, and attaches it again. The
// pod keeps running without its network.
func TestPodsThatLostTheirLinkAreNamed(t *testing.T) {
	w := newPodCluster(t)
	w.control()
	a := w.worker("node-a1", instanceA)
	w.declare(fmt.Sprintf(growing, 1, 2))
	p := a.start("upf-a", "n3")
	ec2 := newClient(w.Simulator)
	found, err := ec2.DescribeNetworkInterfaces(t.Context(), &sdk.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{a.network("n3").ENI}})
	if err != nil {
		t.Fatal(err)
	}
	attachment := found.NetworkInterfaces[0].Attachment
	_, err = ec2.DetachNetworkInterface(t.Context(), &sdk.DetachNetworkInterfaceInput{AttachmentId: attachment.AttachmentId})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the loss of the pod's link", func() bool { return !strings.Contains(p.links.IP("-br link"), "net1") })
	eventually(t, "the next attachment", func() bool {
		_, err := ec2.AttachNetworkInterface(t.Context(), &sdk.AttachNetworkInterfaceInput{
			NetworkInterfaceId: found.NetworkInterfaces[0].NetworkInterfaceId, InstanceId: attachment.InstanceId, DeviceIndex: attachment.DeviceIndex,
		})
		return err == nil
	})
	w.kubectl("", "wait", "nodeeni/n3", `--for=jsonpath={.status.conditions[?(@.type=="PodNetworkReady")].reason}=PodsWithoutLink`, "--timeout=120s")
	message := w.kubectl("", "get", "nodeeni/n3", "-o", `jsonpath={.status.conditions[?(@.type=="PodNetworkReady")].message}`)
	events := w.kubectl("", "get", "events", "-A", "--field-selector=reason=PodsWithoutLink", "-o", "jsonpath={.items[*].message}{.items[*].note}")
	for _, said := range []string{message, events} {
		if !strings.Contains(said, "node node-a1") || !strings.Contains(said, "delete these pods, so that they start again: upf/upf-a") {
			t.Errorf("it says %q", said)
		}
	}
	late := a.start("upf-late", "n3")
	a.stop(p)
	w.kubectl("", "wait", "nodeeni/n3", "--for=condition=PodNetworkReady", "--timeout=60s")
	a.stop(late)
}
