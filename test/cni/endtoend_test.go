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

	"github.com/containernetworking/cni/libcni"

	"github.com/multieni/multieni/internal/cli"
)

// TestPodsOfANodeENI declares networks and starts pods on nodes of two zones.
func TestPodsOfANodeENI(t *testing.T) {
	w := newPodCluster(t)
	stopController := w.control()
	a, b := w.worker("node-a1", instanceA), w.worker("node-b1", instanceB)
	w.apply(podNetworks)
	w.kubectl("", "wait", "nodeeni", "--all", "--for=condition=Ready", "--timeout=60s")
	w.kubectl("", "wait", "nodeeni", "--all", "--for=condition=PodNetworkReady", "--timeout=60s")
	podA, podB := a.start("upf-a", "n3"), b.start("upf-b", "n3")
	atA := a.addressesOf(podA, "n3")

	t.Run("pods of two zones ping each other by IPv4 and IPv6", func(t *testing.T) {
		w.ping(podA, podB, b.addressesOf(podB, "n3"))
		w.ping(podB, podA, atA)
		if len(atA) != 2 {
			t.Errorf("the pod has %v, want an address of each family", atA)
		}
	})
	t.Run("the check agrees with what Multus, the agents and EC2 really have", func(t *testing.T) {
		var out strings.Builder
		t.Cleanup(func() {
			if t.Failed() {
				t.Log(out.String())
			}
		})
		eventually(t, "a check without a failed step", func() bool { // the agents report leases every few seconds
			out.Reset()
			check := cli.NewPlugin()
			check.SetArgs([]string{"check", "n3", "upf/upf-a", "upf/upf-b"})
			check.SetOut(&out)
			return check.ExecuteContext(t.Context()) == nil
		})
		for _, pod := range []struct {
			name string
			at   []netip.Addr
		}{{"upf-a", atA}, {"upf-b", b.addressesOf(podB, "n3")}} {
			if want := fmt.Sprintf("address of upf/%s: EC2 delivers %v and %v", pod.name, pod.at[0], pod.at[1]); !strings.Contains(out.String(), want) {
				t.Errorf("%q is missing in:\n%s", want, out.String())
			}
		}
	})
	t.Run("an address that EC2 does not know gets no answer", func(t *testing.T) {
		podB.links.IP("address add 10.0.95.230/32 dev net1")
		if podA.pings(t, netip.MustParseAddr("10.0.95.230")) {
			t.Error("the ping is answered")
		}
	})
	t.Run("a pod has the whole interface, and gives it back", func(t *testing.T) {
		wholeA, wholeB := a.start("whole-a", "n6"), b.start("whole-b", "n6")
		w.ping(wholeA, wholeB, b.addressesOf(wholeB, "n6"))
		a.stop(wholeA)
		three := a.start("three-a", "n3,n9,n6")
		w.ping(three, wholeB, b.addressesOf(wholeB, "n6"))
		w.ping(podB, three, a.addressesOf(three, "n3"))
		w.ping(podB, three, a.addressesOf(three, "n9"))
	})
	t.Run("prefixes grow before pods need them", func(t *testing.T) {
		first := a.prefixes("n3")[0]
		for n := range 10 {
			a.start(fmt.Sprintf("more-%d", n), "n3")
		}
		eventually(t, "the second prefix", func() bool { return len(a.prefixes("n3")) == 2 })
		for n := range 16 { // the lowest free address may be in the first prefix until that is full
			p := a.start(fmt.Sprintf("grown-%d", n), "n3")
			at := a.addressesOf(p, "n3")
			if !first.Contains(at[0]) {
				w.ping(podB, p, at)
				return
			}
		}
		t.Error("no pod has an address of the second prefix")
	})
	t.Run("an agent that starts again keeps the addresses", func(t *testing.T) {
		a.stopAgent()
		// The agent writes the file only if it differs. If the file reappears, the new agent has run.
		if err := os.Remove(a.file("n3")); err != nil {
			t.Fatal(err)
		}
		a.startAgent()
		a.ready("n3")
		w.ping(podB, podA, atA)
	})
	t.Run("pods start and stop without agent, controller and API server", func(t *testing.T) {
		config := w.kubectl("", "get", "network-attachment-definition", "n3", "-n", "upf", "-o", "jsonpath={.spec.config}")
		a.stopAgent()
		a.cutOff()
		stopController()
		list, err := libcni.ConfListFromBytes([]byte(config))
		if err != nil {
			t.Fatal(err)
		}
		former, next := a.pod("former"), a.pod("next")
		a.mustAdd(list, former, "net1")
		at := a.addressesOf(former, "n3")
		w.ping(former, podB, b.addressesOf(podB, "n3"))
		a.del(list, former, "net1")
		a.mustAdd(list, next, "net1")
		w.ping(next, podB, b.addressesOf(podB, "n3"))
		if freed := a.addressesOf(former, "n3"); len(freed) != 0 || a.addressesOf(next, "n3")[0] == at[0] {
			t.Errorf("the pod that stopped has %v, the next one %v; the address rests", freed, a.addressesOf(next, "n3"))
		}
		w.control()
	})
	t.Run("a node that boots starts its pods again, and has no address of the former ones", func(t *testing.T) {
		podB.links.End()
		b.boot()
		b.ready("n3")
		again := b.start("upf-b-again", "n3")
		w.ping(podA, again, b.addressesOf(again, "n3"))
		if former := b.addressesOf(podB, "n3"); len(former) != 0 {
			t.Errorf("a pod of the former boot has %v", former)
		}
	})
}

const podNetworks = namespaceUPF + `
apiVersion: networking.k8s.aws/v1alpha1
kind: NodeENI
metadata: {name: n3}
spec:
  nodeSelector: {ng: upf}
  subnetIDs: [` + subnetA + `, ` + subnetB + `]
  securityGroupIDs: [sg-05da196f3314d4af8]
  pods:
    namespaces: [upf]
    ipv4: {prefixes: {min: 1, max: 4}, spare: 8}
    ipv6: {prefixes: 1}
    igmpVersion: 2
    routes: [{to: 10.0.64.0/18}, {to: "2600:1f18:1234:5600::/60"}]
---
apiVersion: networking.k8s.aws/v1alpha1
kind: NodeENI
metadata: {name: n6}
spec:
  nodeSelector: {ng: upf}
  subnetIDs: [` + subnetA + `, ` + subnetB + `]
  securityGroupIDs: [sg-05da196f3314d4af8]
  pods: {namespaces: [upf], attachment: HostDevice, routes: [{to: 10.0.64.0/18}]}
---
apiVersion: networking.k8s.aws/v1alpha1
kind: NodeENI
metadata: {name: n9}
spec:
  nodeSelector: {name: node-a1}
  subnetIDs: [subnet-abcdef1234567890]
  securityGroupIDs: [sg-05da196f3314d4af8]
  pods: {namespaces: [upf], ipv4: {prefixes: {min: 1}}}
`

const multusDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: network-attachment-definitions.k8s.cni.cncf.io}
spec:
  group: k8s.cni.cncf.io
  scope: Namespaced
  names: {plural: network-attachment-definitions, singular: network-attachment-definition, kind: NetworkAttachmentDefinition, shortNames: [net-attach-def]}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {config: {type: string}}}
`
