// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/podlease"
)

// put writes a lease of network n3, changed by the function.
func (n node) put(address string, change func(*podnet.Lease)) {
	n.Helper()
	store, err := podlease.Open(n.leases, "n3")
	if err != nil {
		n.Fatal(err)
	}
	defer store.Close()
	boot, err := podlease.ThisBoot(time.Now())
	if err != nil {
		n.Fatal(err)
	}
	l := podnet.Lease{
		Address: netip.MustParseAddr(address), Since: time.Now(),
		Holder: podnet.Holder{ContainerID: address, Interface: "net1", PodNamespace: "upf", Pod: "upf-0", PodUID: "uid-1", BootID: boot.ID},
	}
	change(&l)
	if err := store.Put(l); err != nil {
		n.Fatal(err)
	}
}

// TestLeasesOfPodsThatAreGoneKeepNoInterface: the runtime never ends these leases, and a network that drains gets no
// further pod whose start would.
func TestLeasesOfPodsThatAreGoneKeepNoInterface(t *testing.T) {
	folder := t.TempDir()
	for name, tc := range map[string]struct {
		change  func(*podnet.Lease)
		drained bool
	}{
		"a pod that runs":                     {func(*podnet.Lease) {}, false},
		"a pod of an earlier boot":            {func(l *podnet.Lease) { l.BootID = "the former boot" }, true},
		"a pod without a network namespace":   {func(l *podnet.Lease) { l.Netns = filepath.Join(folder, "cni-1") }, true},
		"a namespace that the agent sees not": {func(l *podnet.Lease) { l.Netns = filepath.Join(folder, "not-mounted", "cni-1") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, listed := range []bool{true, false} {
				n := newNode(t, nil)
				state := withPods()
				n.report(state) // writes the file of the network
				n.put("10.0.4.17", tc.change)
				if state.Status.Interfaces[0].Pods.Draining = true; !listed {
					state.Status.Interfaces[0].Phase = v1alpha1.PhaseDetaching
				}
				told := n.report(state)
				if kept := len(told) == 1 && !told[0].Drained; kept == tc.drained {
					t.Errorf("listed %t: reported %+v; want a network that keeps its interface: %t", listed, told, !tc.drained)
				}
			}
		})
	}
}

// TestThePodsOfAReportHaveTheirUIDs: the controller evicts the pod that has the address, and no other of its name.
func TestThePodsOfAReportHaveTheirUIDs(t *testing.T) {
	n := newNode(t, nil)
	n.put("10.0.4.17", func(*podnet.Lease) {})
	want := []v1alpha1.PodReference{{Namespace: "upf", Name: "upf-0", UID: "uid-1"}}
	if diff := cmp.Diff(want, n.report(withPods())[0].Pods); diff != "" {
		t.Error(diff)
	}
}

// TestALockedNetworkStopsNoOther: a process that does not run has the leases of one network locked.
func TestALockedNetworkStopsNoOther(t *testing.T) {
	n := newNode(t, nil)
	state := withPods()
	state.Status.Interfaces[0].Pods.Draining = true
	other := *state.Status.Interfaces[0].DeepCopy()
	other.NodeENI, other.ENIID, other.MACAddress, other.PrivateIP = "n4", "eni-2", "02:00:00:00:00:44", "10.0.4.6"
	other.IPv4Prefixes = []string{"10.0.4.64/28"}
	link := state.Status.Links[0]
	link.NodeENI, link.ENIID, link.MACAddress = other.NodeENI, other.ENIID, other.MACAddress
	state.Status.Interfaces, state.Status.Links = append(state.Status.Interfaces, other), append(state.Status.Links, link)
	store, err := podlease.Open(n.leases, "n3")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	told := n.report(state)
	if len(told) != 2 {
		t.Fatalf("reported %+v, want two networks", told)
	}
	if locked := told[0]; locked.Ready || locked.Drained || locked.Reason != "LeasesLocked" || !strings.Contains(locked.Message, "fuser /var/lib/multieni/leases/n3/lock") {
		t.Errorf("the locked network is reported as %+v", locked)
	}
	if free := told[1]; !free.Drained {
		t.Errorf("the other network is reported as %+v", free)
	}
}

// TestTheLeasesOfAFormerNetworkGo: the NodeENI of a network was deleted, or the node booted without it.
func TestTheLeasesOfAFormerNetworkGo(t *testing.T) {
	n := newNode(t, nil)
	n.put("10.0.4.17", func(l *podnet.Lease) { l.Freed = time.Now().Add(-time.Hour) })
	n.put("10.0.4.18", func(l *podnet.Lease) { l.Netns = filepath.Join(t.TempDir(), "cni-1") })
	state := withPods()
	state.Status.Interfaces[0].NodeENI, state.Status.PodNetworks = "n4", nil
	n.report(state)
	if _, err := os.Stat(filepath.Join(n.leases, "n3", "10.0.4.17.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the lease that nothing needs is still there: %v", err)
	}
	n.put("10.0.4.18", func(l *podnet.Lease) { l.Freed = time.Now().Add(-time.Hour) })
	n.report(state)
	if _, err := os.Stat(filepath.Join(n.leases, "n3")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder without leases is still there: %v", err)
	}
	n.put("10.0.4.19", func(*podnet.Lease) {})
	n.report(state)
	if _, err := os.Stat(filepath.Join(n.leases, "n3", "10.0.4.19.json")); err != nil {
		t.Errorf("the lease of a running pod is gone: %v", err)
	}
}

// A damaged lease names no pod, because nothing but the address is known. The message says how to free the address.
func TestADamagedLeaseIsNoPod(t *testing.T) {
	n := newNode(t, nil)
	n.put("10.0.4.17", func(*podnet.Lease) {})
	if err := os.WriteFile(filepath.Join(n.leases, "n3", "10.0.4.17.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	state := withPods()
	state.Status.Interfaces[0].Pods.Draining = true
	told := n.report(state)[0]
	if told.Drained || told.Used != 1 || len(told.Pods) > 0 || !strings.Contains(told.Message, "delete /var/lib/multieni/leases/n3/10.0.4.17.json") {
		t.Errorf("reported %+v", told)
	}
}
