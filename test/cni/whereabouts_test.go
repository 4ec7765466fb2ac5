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

	"github.com/containernetworking/cni/libcni"
	"sigs.k8s.io/yaml"

	"github.com/multieni/multieni/internal/dev/assets"
	"github.com/multieni/multieni/test/size"
)

// whereabouts puts the plugin into the folders of the node's runtime, and returns the network of
// examples/whereabouts.yaml. The file of a whereabouts installation that names the kubeconfig is in a folder of the
// test.
func (k *worker) whereabouts(program string) *libcni.NetworkConfigList {
	k.Helper()
	if err := os.Symlink(program, filepath.Join(k.plugins, "whereabouts")); err != nil {
		k.Fatal(err)
	}
	example, err := os.ReadFile("../../examples/whereabouts.yaml")
	if err != nil {
		k.Fatal(err)
	}
	documents := strings.Split(string(example), "---\n")
	var definition struct{ Spec struct{ Config string } }
	if err := yaml.Unmarshal([]byte(documents[len(documents)-1]), &definition); err != nil {
		k.Fatal(err)
	}
	installed := filepath.Join(k.TempDir(), "whereabouts.conf")
	if err := os.WriteFile(installed, fmt.Appendf(nil, `{"log_level": "error", "kubernetes": {"kubeconfig": %q}}`, k.Kubeconfig), 0o600); err != nil {
		k.Fatal(err)
	}
	const plugin = `"type": "whereabouts"`
	if !strings.Contains(definition.Spec.Config, plugin) {
		k.Fatalf("the definition has no %s: %s", plugin, definition.Spec.Config)
	}
	list, err := libcni.ConfListFromBytes([]byte(strings.Replace(definition.Spec.Config, plugin,
		plugin+fmt.Sprintf(`, "configuration_path": %q`, installed), 1)))
	if err != nil {
		k.Fatal(err)
	}
	return list
}

// secondaries returns the secondary IPv4 addresses of the node's interface of NodeENI n3, as the simulated EC2 has them.
func (k *worker) secondaries() (eni string, addresses []netip.Addr) {
	k.Helper()
	for _, i := range k.Simulator.State().NetworkInterfaces {
		if i.Attachment == nil || i.Attachment.InstanceID != k.instance || i.Attachment.DeviceIndex == 0 {
			continue
		}
		eni = i.NetworkInterfaceID
		for _, a := range i.PrivateIPAddresses[1:] {
			addresses = append(addresses, a.PrivateIPAddress)
		}
	}
	return eni, addresses
}

// Whereabouts chooses the addresses of pods on two nodes, and a program of the user assigns them in EC2. The controller
// does not unassign them, even after a restart and an edit of the NodeENI.
func TestAddressesOfWhereabouts(t *testing.T) {
	size.NeedsAll(t, "another test has addresses of whereabouts that follow")
	w := newPodCluster(t)
	program, err := assets.Whereabouts(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	stopController := w.control()
	a, b := w.worker("node-a1", instanceA), w.worker("node-a2", instanceA2)
	w.apply(whereaboutsDefinitions)
	w.kubectl("", "wait", "nodeeni", "n3", "--for=condition=Ready", "--timeout=60s")
	block := netip.MustParsePrefix("10.0.64.208/28")
	networkA, networkB := a.whereabouts(program), b.whereabouts(program)
	for _, k := range []*worker{a, b} {
		eventually(t, "the link net-n3 of "+k.name, func() bool { return strings.Contains(k.links.IP("link show"), "net-n3") })
	}
	podA, podB := a.pod("own-a"), b.pod("own-b")
	atA := addresses(t, a.mustAdd(networkA, podA, "net1"))
	atB := addresses(t, b.mustAdd(networkB, podB, "net1"))
	if !block.Contains(atA[0]) || !block.Contains(atB[0]) || atA[0] == atB[0] {
		t.Fatalf("the pods have %v and %v, want two addresses of %v", atA, atB, block)
	}
	if podB.pings(t, atA[0]) {
		t.Errorf("%v is answered, although EC2 does not know it", atA[0])
	}
	v := &vpc{w.Simulator, w.fabric, newClient(w.Simulator)}
	eniA, _ := a.secondaries()
	eniB, _ := b.secondaries()
	v.assign(t, eniA, atA[0])
	v.assign(t, eniB, atB[0])
	w.ping(podA, podB, atB)

	stopController()
	w.control()
	w.kubectl("", "patch", "nodeeni", "n3", "--type=merge", "-p", `{"spec": {"description": "edited"}}`)
	eventually(t, "the edit at EC2", func() bool {
		edited := 0
		for _, i := range w.Simulator.State().NetworkInterfaces {
			if i.Description == "edited" {
				edited++
			}
		}
		return edited == 2
	})
	if _, left := a.secondaries(); !slices.Equal(left, atA) {
		t.Errorf("the interface of %s has %v, want %v", a.name, left, atA)
	}
	w.ping(podB, podA, atA)

	// The next pod, on another node, gets the address of a pod that ended, and a program of the user moves it.
	a.del(networkA, podA, "net1")
	podC := b.pod("own-c")
	atC := addresses(t, b.mustAdd(networkB, podC, "net1"))
	if !slices.Equal(atC, atA) {
		t.Fatalf("the next pod has %v, want %v, which is free again", atC, atA)
	}
	v.assign(t, eniB, atC[0])
	podD := a.pod("own-d")
	atD := addresses(t, a.mustAdd(networkA, podD, "net1"))
	v.assign(t, eniA, atD[0])
	w.ping(podD, podC, atC)

	a.del(networkA, podD, "net1")
	b.del(networkB, podB, "net1")
	b.del(networkB, podC, "net1")
	const allocations = `jsonpath={.items[*].spec.allocations}`
	if left := w.kubectl("", "get", "ippools", "-n", "kube-system", "-o", allocations); left != "{}" {
		t.Errorf("whereabouts did not get back the addresses of pods that ended: %s", left)
	}
}

// whereaboutsDefinitions are a NodeENI without spec.pods, and whereabouts' definitions without their schemas.
const whereaboutsDefinitions = `
apiVersion: networking.k8s.aws/v1alpha1
kind: NodeENI
metadata: {name: n3}
spec:
  nodeSelector: {ng: upf}
  subnetIDs: [` + subnetA + `]
  securityGroupIDs: [sg-05da196f3314d4af8]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ippools.whereabouts.cni.cncf.io}
spec:
  group: whereabouts.cni.cncf.io
  scope: Namespaced
  names: {plural: ippools, singular: ippool, kind: IPPool}
  versions:
  - {name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: overlappingrangeipreservations.whereabouts.cni.cncf.io}
spec:
  group: whereabouts.cni.cncf.io
  scope: Namespaced
  names: {plural: overlappingrangeipreservations, singular: overlappingrangeipreservation, kind: OverlappingRangeIPReservation}
  versions:
  - {name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`
