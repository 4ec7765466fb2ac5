// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cni_test

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/awssim/fabric"
	"github.com/multieni/multieni/internal/core/floating"
	"github.com/multieni/multieni/internal/dev/assets"
)

// TestKubeletsRunPodsOfANodeENI runs pods with the annotation on nodes of two zones, with kubelets, containerd and
// runc. They get eth0 from a bridge, and the networks of two NodeENIs: by macvlan, which replaces ipvlan, and by
// host-device.
func TestKubeletsRunPodsOfANodeENI(t *testing.T) {
	needNodes(t, fabric.Possible())
	folders, err := assets.NodePrograms(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "pod.tar")
	imageArchive(t, archive)
	keepSettings(t)
	w := newPodCluster(t)
	w.control("--pod-services")
	workerA, workerB := w.worker("node-a1", instanceA), w.worker("node-b1", instanceB)
	w.apply(podNetworks)
	w.kubectl("", "wait", "nodeeni", "--all", "--for=condition=Ready", "--timeout=60s")
	w.kubectl("", "wait", "nodeeni", "--all", "--for=condition=PodNetworkReady", "--timeout=60s")
	a, b := workerA.kubelet(folders, archive), workerB.kubelet(folders, archive)
	linksA, linksB := a.linkNames(), b.linkNames()

	podA, podB := a.run("upf-a", "n3"), b.run("upf-b", "n3")
	w.reachEachOther("n3", podA, podB)
	t.Run("an address that EC2 does not know gets no answer", func(t *testing.T) {
		unknown := netip.MustParseAddr("10.0.95.230")
		b.inside(b.onlySandbox(), "ip", "address", "add", unknown.String()+"/32", "dev", "net1")
		if err := podB.reaches(unknown); err != nil {
			t.Errorf("the pod itself does not answer at the address: %v", err)
		}
		if podA.reaches(unknown) == nil {
			t.Error("the pod of the other node connects to it")
		}
		if _, err := newClient(w.Simulator).AssignPrivateIpAddresses(t.Context(), &sdk.AssignPrivateIpAddressesInput{
			NetworkInterfaceId: aws.String(b.network("n3").ENI), PrivateIpAddresses: []string{unknown.String()},
		}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the answer at the address that EC2 knows now", func() bool { return podA.reaches(unknown) == nil })
	})
	t.Run("a pod that joins a multicast group reports it by IGMPv2", func(t *testing.T) {
		messages := w.listenTo(t, a.network("n3").ENI)
		podA.joins(netip.MustParseAddr("239.0.0.1"))
		if got := messages.next(t); got != reportV2 {
			t.Errorf("a message of type %#x arrives in the VPC, want %#x", got, reportV2)
		}
	})
	t.Run("a pod has the whole interface", func(*testing.T) {
		w.reachEachOther("n6", a.run("whole-a", "n6"), b.run("whole-b", "n6"))
	})
	t.Run("a pod connects by the name of a Service over the network", func(t *testing.T) {
		w.apply(serviceN3)
		a.coreDNS("53")
		if podA.reachesHost(nameN3) == nil {
			t.Error("the name leads to a pod that the Service does not select")
		}
		w.kubectl("", "label", "pod", podB.name, "-n", "upf", "app=upf")
		eventually(t, "a connection by the name", func() bool { return podA.reachesHost(nameN3) == nil })
		w.kubectl("", "annotate", "pod", podB.name, "-n", "upf", "--overwrite", `k8s.v1.cni.cncf.io/network-status=[{"name": "upf/n3", "ips": ["10.0.1.10"]}]`)
		eventually(t, "the end of the name", func() bool { return podA.reachesHost(nameN3) != nil })
	})
	t.Run("pods leave nothing behind", func(t *testing.T) {
		w.kubectl("", "delete", "pods", "--all", "-n", "upf", "--timeout=60s")
		for _, left := range []struct {
			node  *machine
			links []string
		}{{a, linksA}, {b, linksB}} {
			eventually(t, "the end of the sandboxes of "+left.node.name, func() bool { return len(left.node.sandboxes()) == 0 })
			for _, network := range []string{"n3", "n6"} {
				if used := left.node.inUse(network); len(used) > 0 {
					t.Errorf("%s has leases of %s: %v", left.node.name, network, used)
				}
			}
			if diff := cmp.Diff(append([]string{"cni0"}, left.links...), left.node.linkNames()); diff != "" {
				t.Errorf("links of %s before, and after (+):\n%s", left.node.name, diff)
			}
		}
	})
}

// reachEachOther waits for two pods, and makes them connect to each other's addresses in a network.
func (w *podCluster) reachEachOther(network string, one, other kubePod) {
	w.Helper()
	w.kubectl("", "wait", "pods", "--all", "-n", "upf", "--for=condition=Ready", "--timeout=120s")
	for from, to := range map[kubePod]kubePod{one: other, other: one} {
		if len(to.at(network)) == 0 {
			w.Errorf("%s has no address of %s", to.name, network)
		}
		for _, address := range to.at(network) {
			if err := from.reaches(address); err != nil {
				w.Errorf("%s does not reach %s: %v", from.name, to.name, err)
			}
		}
	}
}

var linkName = regexp.MustCompile(`(?m)^\d+: ([^:@]+)`)

// linkNames returns the names of the links on the node, sorted.
func (n *node) linkNames() []string {
	n.tb.Helper()
	var names []string
	for _, match := range linkName.FindAllStringSubmatch(n.links.IP("-o link"), -1) {
		names = append(names, match[1])
	}
	slices.Sort(names)
	return names
}

// sandboxes returns the network namespaces of the pods on the node.
func (m *machine) sandboxes() []string {
	m.Helper()
	files, err := filepath.Glob(filepath.Join(m.dir, "run/containerd/*/netns/*"))
	if err != nil {
		m.Fatal(err)
	}
	var all []string
	for _, file := range files {
		all = append(all, strings.TrimPrefix(file, m.dir))
	}
	return all
}

// onlySandbox returns the network namespace of the only pod on the node.
func (m *machine) onlySandbox() string {
	m.Helper()
	all := m.sandboxes()
	if len(all) != 1 {
		m.Fatalf("%s has the sandboxes %s, want one", m.name, strings.Join(all, ", "))
	}
	return all[0]
}

// TestKubeletsKeepAFixedAddress deletes the pod of a StatefulSet whose node lost its kubelet, and starts it on another
// node. The pod on the old node runs on.
func TestKubeletsKeepAFixedAddress(t *testing.T) {
	needNodes(t, fabric.Possible())
	folders, err := assets.NodePrograms(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "pod.tar")
	imageArchive(t, archive)
	keepSettings(t)
	w, workerA, workerB, workerC, fixed := grantors(t)
	a, b, c := workerA.kubelet(folders, archive), workerB.kubelet(folders, archive), workerC.kubelet(folders, archive)
	at := netip.MustParseAddr("10.0.64.195")

	client, upf := c.run("client-0", fixedClient), a.run("upf-3", fixed)
	w.kubectl("", "wait", "pods", "--all", "-n", "upf", "--for=condition=Ready", "--timeout=120s")
	eventually(t, "the answer of the pod on the first node", func() bool { return client.reaches(at) == nil })
	if got := upf.at("n3"); !slices.Equal(got, []netip.Addr{at}) {
		t.Errorf("the pod has %v, want %v", got, at)
	}

	a.killKubelet()
	w.kubectl("", "delete", "pod", "upf-3", "-n", "upf", "--grace-period=0", "--force")
	moved := b.run("upf-3", fixed)
	eventually(t, "the lease of the pod on the other node", func() bool { return slices.Equal(moved.at("n3"), []netip.Addr{at}) })
	leased := time.Now()
	b.has(at)
	t.Logf("EC2 has the address %s after the lease on the other node", time.Since(leased))
	if most := floating.MoveInterval; time.Since(leased) > most {
		t.Errorf("that is more than %s", most)
	}
	a.has()
	w.kubectl("", "wait", "pods", "--all", "-n", "upf", "--for=condition=Ready", "--timeout=120s")
	if err := client.reaches(at); err != nil {
		t.Errorf("the pod on the other node: %v", err)
	}
	if len(a.sandboxes()) != 1 {
		t.Fatalf("the pod on the old node has ended: %v", a.sandboxes())
	}
	b.inside(b.onlySandbox(), "ip", "address", "delete", at.String()+"/20", "dev", "net1")
	if client.reaches(at) == nil {
		t.Error("the pod on the old node answers, although EC2 moved the address")
	}
}

// killKubelet kills the kubelet of the node. Its pods run on.
func (m *machine) killKubelet() {
	m.Helper()
	const kill = `for p in /proc/[0-9]*; do [ "$(cat $p/comm)" != kubelet ] || kill -9 ${p#/proc/}; done`
	output, err := exec.CommandContext(m.Context(), "nsenter", "--target", fmt.Sprint(m.init.Process.Pid), "--mount", "--pid",
		"sh", "-c", kill).CombinedOutput()
	if err != nil {
		m.Fatalf("kill the kubelet of %s: %v: %s", m.name, err, output)
	}
}
