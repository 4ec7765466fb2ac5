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

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/cli"
)

// applyFixedExample applies examples/fixed-addresses.yaml, and returns the annotation of its StatefulSet's pods. No
// controller of StatefulSets runs: the tests start the pods.
func (w *podCluster) applyFixedExample() (fixed string) {
	w.Helper()
	w.apply(namespaceUPF)
	example, err := os.ReadFile("../../examples/fixed-addresses.yaml")
	if err != nil {
		w.Fatal(err)
	}
	w.apply(string(example))
	w.kubectl("", "wait", "nodeeni", "n3", "--for=condition=Ready", "--timeout=60s")
	fixed = w.kubectl("", "get", "statefulset", "upf", "-n", "upf", "-o",
		`jsonpath={.spec.template.metadata.annotations.k8s\.v1\.cni\.cncf\.io/networks}`)
	w.kubectl("", "delete", "statefulset", "upf", "-n", "upf")
	return fixed
}

// fixedClient is the annotation of a pod in the other zone, with a route to the first one.
const fixedClient = `[{"name": "n3", "cni-args": {"fixed": ["10.0.80.192/28"], "routes": ["10.0.64.0/20"]}}]`

// grantors returns three nodes, two of them in one zone, whose pods may ask for addresses. Their agents do not observe
// the addresses of pods.
func grantors(t *testing.T) (w *podCluster, a, b, c *worker, fixed string) {
	t.Helper()
	w = newPodCluster(t)
	w.blind = true
	w.control()
	a, b, c = w.worker("node-a1", instanceA), w.worker("node-a2", instanceA2), w.worker("node-b1", instanceB)
	fixed = w.applyFixedExample()
	for _, k := range []*worker{a, b, c} {
		k.ready("n3")
	}
	return w, a, b, c, fixed
}

// holderOf returns who holds an address of the zone of the first two nodes.
func (w *podCluster) holderOf(address netip.Addr) string {
	w.Helper()
	return w.kubectl("", "get", "floatingaddress", v1alpha1.FloatingAddressName(subnetA, address.String()), "-o",
		"jsonpath={.status.holder.pod} on {.status.holder.nodeName}, contender {.status.contender.pod}.")
}

// TestAFixedAddressFollowsItsPod starts the pod of a StatefulSet on one node after the other.
func TestAFixedAddressFollowsItsPod(t *testing.T) {
	w, a, b, c, fixed := grantors(t)
	at := netip.MustParseAddr("10.0.64.195")
	client := c.start("client-0", fixedClient)
	if got, want := c.addressesOf(client, "n3"), netip.MustParseAddr("10.0.80.192"); !slices.Equal(got, []netip.Addr{want}) {
		t.Fatalf("the pod of the other zone has %v, want %v", got, want)
	}
	c.has(netip.MustParseAddr("10.0.80.192"))

	upf := a.start("upf-3", fixed)
	a.has(at)
	w.ping(client, upf, []netip.Addr{at})
	if routes := upf.links.IP("route show"); !strings.Contains(routes, "10.61.0.0/16 via 10.0.64.1 dev net1") {
		t.Errorf("the pod lacks the route that it asks for:\n%s", routes)
	}
	if got, want := w.holderOf(at), "upf/upf-3 on node-a1, contender ."; got != want {
		t.Errorf("the holder is %q, want %q", got, want)
	}

	t.Run("the check knows the address", func(t *testing.T) {
		var out strings.Builder
		eventually(t, "a check without a failed step", func() bool { // the agents report leases every few seconds
			out.Reset()
			check := cli.NewPlugin()
			check.SetArgs([]string{"check", "n3", "upf/client-0", "upf/upf-3"})
			check.SetOut(&out)
			return check.ExecuteContext(t.Context()) == nil
		})
		if want := "address of upf/upf-3: EC2 delivers 10.0.64.195"; !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out.String())
		}
	})
	t.Run("it moves with the pod", func(t *testing.T) {
		a.stop(upf)
		moved := b.start("upf-3", fixed)
		b.has(at)
		a.has()
		w.ping(client, moved, []netip.Addr{at})
		b.stop(moved)
		if again := b.start("upf-3", fixed); !slices.Equal(b.addressesOf(again, "n3"), []netip.Addr{at}) {
			t.Errorf("the pod of the same name has %v, want %v at once", b.addressesOf(again, "n3"), at)
		}
	})
	t.Run("a node that was unreachable does not take it back", func(t *testing.T) {
		b.stopAgent()
		w.kubectl("", "delete", "pod", "upf-3", "-n", "upf", "--grace-period=0", "--force")
		moved := a.start("upf-3", fixed)
		a.has(at)
		b.has()
		w.ping(client, moved, []netip.Addr{at})
		b.startAgent()
		eventually(t, "the returned node contends", func() bool {
			return w.holderOf(at) == "upf/upf-3 on node-a1, contender upf/upf-3."
		})
		a.has(at)
		b.has()
		w.ping(client, moved, []netip.Addr{at})
	})
	t.Run("a pod that starts while the agent is away gets it", func(t *testing.T) {
		a.stopAgent()
		c.stopAgent()
		other := c.start("upf-5", fixed)
		c.startAgent()
		c.has(netip.MustParseAddr("10.0.80.192"), netip.MustParseAddr("10.0.80.197"))
		c.stop(other)
	})
}

// TestAPodAsksForAnAddress starts pods with ips in their annotation.
func TestAPodAsksForAnAddress(t *testing.T) {
	w, a, _, c, _ := grantors(t)
	client := c.start("client-0", fixedClient)
	at := netip.MustParseAddr("10.0.64.200")
	dns := a.start("dns", `[{"name": "n3", "ips": ["10.0.64.200"]}]`)
	a.has(at)
	w.ping(client, dns, []netip.Addr{at})
	for name, refused := range map[string]struct{ networks, says string }{
		"again":    {`[{"name": "n3", "ips": ["10.0.64.200"]}]`, "pod upf/dns on node node-a1 still has it"},
		"outside":  {`[{"name": "n3", "ips": ["10.0.64.100"]}]`, "ask for an address of 10.0.64.192/28, "},
		"template": {`[{"name": "n3", "cni-args": {"fixed": ["10.0.64.192/28"]}}]`, "its name does not end with an ordinal"},
		"sixteen":  {`[{"name": "n3", "cni-args": {"fixed": "10.0.64.192/28"}}]`, "which must be lists"},
	} {
		t.Run(name, func(t *testing.T) {
			p := a.declare(name, refused.networks)
			if err := a.launch(p); err == nil || !strings.Contains(err.Error(), refused.says) {
				t.Errorf("the error is %v, want one that says %q", err, refused.says)
			}
		})
	}
}

// TestRepliesLeaveByTheNetworkOfTheirAddress pings addresses that a pod brings up itself, from another subnet, to
// which no route of the pod leads by the network.
func TestRepliesLeaveByTheNetworkOfTheirAddress(t *testing.T) {
	w := newPodCluster(t)
	w.control()
	a, c := w.worker("node-a1", instanceA), w.worker("node-b1", instanceB)
	w.applyFixedExample()
	a.ready("n3")
	c.ready("n3")
	upf, client := a.start("upf", "n3"), c.start("client-0", fixedClient)
	vip := netip.MustParseAddr("10.0.64.207")
	upf.links.IP(fmt.Sprintf("address add %s/32 dev net1", vip))
	a.has(vip)
	w.ping(client, upf, []netip.Addr{vip})
}

// TestRepliesOfAnotherIPAMPlugin does the same with an address that another IPAM plugin gives without a gateway.
func TestRepliesOfAnotherIPAMPlugin(t *testing.T) {
	_, a, _, _ := followers(t)
	c := a.worker("node-b1", instanceB)
	c.linked()
	vip, client := netip.MustParseAddr("10.0.64.200"), netip.MustParseAddr("10.0.80.200")
	own := a.configuration("own", fmt.Sprintf(`{"type": "macvlan", "master": "net-n3", "mode": "bridge", "ipam": {"type": "static",
		"addresses": [{"address": "%s/20"}]}}, {"type": "multieni-routes", "network": "n3"}`, vip))
	upf, pinger := a.connected("upf"), c.connected("client")
	a.mustAdd(own, upf, "net1")
	c.mustAdd(c.static(client), pinger, "net1")
	a.has(vip)
	c.has(client)
	a.ping(pinger, upf, []netip.Addr{vip})
	if err := a.check(own, upf, "net1"); err != nil {
		t.Errorf("CHECK: %v", err)
	}
}
