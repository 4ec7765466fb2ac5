// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cni_test

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"

	"github.com/multieni/multieni/internal/core/floating"
	"github.com/multieni/multieni/internal/dev/assets"
	"github.com/multieni/multieni/test/needs"
	"github.com/multieni/multieni/test/size"
)

// followed is a NodeENI whose addresses follow the pods that bring them up.
const followed = `
apiVersion: networking.k8s.aws/v1alpha1
kind: NodeENI
metadata: {name: n3}
spec:
  nodeSelector: {ng: upf}
  subnetIDs: [` + subnetA + `, ` + subnetB + `]
  securityGroupIDs: [sg-05da196f3314d4af8]
  pods: {attachment: Observed, floating: [10.0.64.192/26, 10.0.80.192/26]}
`

// followers returns a controller's cluster with two nodes whose addresses follow pods.
func followers(t *testing.T) (w *podCluster, a, b *worker, stopController func()) {
	t.Helper()
	w = newPodCluster(t)
	stopController = w.control()
	a, b = w.worker("node-a1", instanceA), w.worker("node-a2", instanceA2)
	w.apply(followed)
	w.kubectl("", "wait", "nodeeni", "n3", "--for=condition=Ready", "--timeout=60s")
	a.linked()
	b.linked()
	return w, a, b, stopController
}

// linked waits until the node has the link of the NodeENI.
func (k *worker) linked() {
	k.Helper()
	eventually(k.T, "the link net-n3 of "+k.name, func() bool { return strings.Contains(k.links.IP("link show"), "net-n3") })
}

// connected is a pod with a link of the cluster's network, which each pod has. Through that link the kernel gives the
// namespace an ID on the node, which the agent's observer needs.
func (k *worker) connected(name string) pod {
	k.Helper()
	p := k.pod(name)
	k.links.IP("link add h-" + name + " type veth peer name p-" + name)
	k.links.Give("p-"+name, p.links)
	p.links.IP("link set p-" + name + " name eth0")
	return p
}

// static is an attachment with an address of the user's choice.
func (k *worker) static(address netip.Addr) *libcni.NetworkConfigList {
	router := netip.PrefixFrom(address, 20).Masked().Addr().Next()
	return k.configuration("own", fmt.Sprintf(`{"type": "macvlan", "master": "net-n3", "mode": "bridge", "ipam": {"type": "static",
		"addresses": [{"address": "%s/20", "gateway": "%s"}], "routes": [{"dst": "10.0.64.0/19"}]}}`, address, router))
}

// has waits until EC2 has exactly the addresses on the node's interface.
func (k *worker) has(addresses ...netip.Addr) {
	k.Helper()
	var got []netip.Addr
	eventually(k.T, fmt.Sprintf("the addresses %v of %s", addresses, k.name), func() bool {
		_, got = k.secondaries()
		slices.SortFunc(got, netip.Addr.Compare)
		return slices.Equal(got, addresses)
	})
}

// TestAddressesFollowTheirPods starts pods with addresses that EC2 does not know. No program of the user calls EC2 for them, and they ping.
func TestAddressesFollowTheirPods(t *testing.T) {
	w, a, b, stopController := followers(t)
	one, two := netip.MustParseAddr("10.0.64.200"), netip.MustParseAddr("10.0.64.201")
	ownA, ownB := a.static(one), b.static(two)
	podA, podB := a.connected("own-a"), b.connected("own-b")
	a.mustAdd(ownA, podA, "net1")
	b.mustAdd(ownB, podB, "net1")
	a.has(one)
	b.has(two)
	w.ping(podA, podB, []netip.Addr{two})

	// A pod on the other node brings the address up while no controller runs. EC2 moves it once one runs again.
	stopController()
	a.del(ownA, podA, "net1")
	b.mustAdd(b.static(one), b.connected("own-c"), "net1")
	if _, now := b.secondaries(); slices.Contains(now, one) {
		t.Errorf("%v is on the other node, although no controller moved it", one)
	}
	w.control()
	b.has(one, two)
	a.has()
}

// TestAddressesOfWhereaboutsFollowTheirPods lets whereabouts choose the addresses, from a block of the declared ranges.
func TestAddressesOfWhereaboutsFollowTheirPods(t *testing.T) {
	w, a, b, _ := followers(t)
	program, err := assets.Whereabouts(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	w.apply(whereaboutsDefinitions)
	w.apply(followed)
	networkA, networkB := a.whereabouts(program), b.whereabouts(program)
	podA, podB := a.connected("own-a"), b.connected("own-b")
	atA := addresses(t, a.mustAdd(networkA, podA, "net1"))
	atB := addresses(t, b.mustAdd(networkB, podB, "net1"))
	a.has(atA...)
	b.has(atB...)
	w.ping(podA, podB, atB)
	a.del(networkA, podA, "net1")
	b.del(networkB, podB, "net1")
}

// TestAnAddressMovesWhileAnAgentIsAway ends the agent of the node that has an address. The address stays until a pod of
// another node brings it up.
func TestAnAddressMovesWhileAnAgentIsAway(t *testing.T) {
	w, a, b, _ := followers(t)
	vip := netip.MustParseAddr("10.0.64.250")
	podA, podB := a.connected("upf-a"), b.connected("upf-b")
	a.mustAdd(a.static(vip), podA, "net1")
	a.has(vip)
	a.stopAgent()
	b.mustAdd(b.static(vip), podB, "net1")
	b.has(vip)
	a.has()
	holder := w.kubectl("", "get", "floatingaddress", subnetA+"-"+vip.String(), "-o", "jsonpath={.status.holder.nodeName}")
	if holder != b.name {
		t.Errorf("%q holds the address, want %s", holder, b.name)
	}
}

// TestAVirtualAddressOfKeepalivedFollowsIt moves a virtual address between two nodes. The notify script makes no call.
func TestAVirtualAddressOfKeepalivedFollowsIt(t *testing.T) {
	w, a, b, _ := followers(t)
	needs.Programs(t, "keepalived", "nsenter")
	c := w.worker("node-b1", instanceB)
	c.linked()
	ownA, ownB, client := netip.MustParseAddr("10.0.64.200"), netip.MustParseAddr("10.0.64.201"), netip.MustParseAddr("10.0.80.200")
	vip := netip.MustParseAddr("10.0.64.250")
	podA, podB, pinger := a.connected("upf-a"), b.connected("upf-b"), c.connected("client")
	a.mustAdd(a.static(ownA), podA, "net1")
	b.mustAdd(b.static(ownB), podB, "net1")
	c.mustAdd(c.static(client), pinger, "net1")
	a.has(ownA)
	b.has(ownB)
	c.has(client)

	masters := notifications(t)
	endA := podA.keepalived(t, vrrp{vip, ownA, ownB, 150, masters.path})
	masters.await(t, podA.name)
	a.has(ownA, vip)
	w.ping(pinger, podA, []netip.Addr{vip})
	podB.keepalived(t, vrrp{vip, ownB, ownA, 100, masters.path})
	endA()
	masters.await(t, podB.name)
	b.has(ownB, vip)
	w.ping(pinger, podB, []netip.Addr{vip})
}

// TestAnAddressIsAtEC2Soon measures the time from the address in the pod to the call to EC2, which the simulated EC2
// answers at once.
func TestAnAddressIsAtEC2Soon(t *testing.T) {
	size.NeedsAll(t, "it measures ten addresses of one node")
	_, a, _, _ := followers(t)
	pod := a.connected("own-a")
	own := netip.MustParseAddr("10.0.64.200")
	a.mustAdd(a.static(own), pod, "net1")
	a.has(own)
	var took []time.Duration
	for n := range 10 {
		time.Sleep(floating.MoveInterval) // addresses of one node change no faster
		begin := time.Now()
		vip := netip.AddrFrom4([4]byte{10, 0, 64, byte(210 + n)})
		pod.links.IP(fmt.Sprintf("address add %s/32 dev net1", vip))
		for {
			if _, now := a.secondaries(); slices.Contains(now, vip) {
				break
			}
			if time.Since(begin) > 20*time.Second {
				t.Fatalf("EC2 does not have %v", vip)
			}
			time.Sleep(time.Millisecond)
		}
		took = append(took, time.Since(begin))
		pod.links.IP(fmt.Sprintf("address delete %s/32 dev net1", vip))
	}
	slices.Sort(took)
	t.Logf("from the address in the pod to EC2: %s at the median, %s at the most", took[len(took)/2], took[len(took)-1])
	busy := 5 * time.Second // other suites use the processors
	most := size.Of(busy, busy, 200*time.Millisecond)
	if median := took[len(took)/2]; median > most {
		t.Errorf("the median is %s, want at most %s", median, most)
	}
}
