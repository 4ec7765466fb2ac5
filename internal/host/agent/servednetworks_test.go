// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"maps"
	"testing"
	"time"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/host/agent"
)

// A NodeENI that was deleted and created again has a second interface with the same network name while pods use the
// first one.
func TestTheNetworkStaysWithTheInterfaceOfItsFile(t *testing.T) {
	state := withPods()
	again := *state.Status.Interfaces[0].DeepCopy()
	again.NodeENIUID, again.ENIID, again.MACAddress = "uid-2", "eni-2", "02:00:00:00:00:0b"
	for name, interfaces := range map[string][]v1alpha1.InterfaceState{
		"the older is listed first": {state.Status.Interfaces[0], again},
		"the newer is listed first": {again, state.Status.Interfaces[0]},
	} {
		t.Run(name, func(t *testing.T) {
			state := &v1alpha1.NodeENIState{Status: v1alpha1.NodeENIStateStatus{Interfaces: interfaces}}
			if got := agent.ServedNetworks(state, map[string]string{"n3": "eni-1"})["n3"].ENIID; got != "eni-1" {
				t.Errorf("pods get addresses of %s", got)
			}
		})
	}
}

// TestAnInterfaceStaysWithTheNetworkThatHasAFile: the pods of that network have addresses of the interface, and the
// leases of another network do not include them.
func TestAnInterfaceStaysWithTheNetworkThatHasAFile(t *testing.T) {
	for name, tc := range map[string]struct {
		files  map[string]string
		served bool
	}{
		"no network has a file":                        {served: true},
		"the network has a file":                       {files: map[string]string{"n3": "eni-1", "n6": "eni-1"}, served: true},
		"another network has a file":                   {files: map[string]string{"n6": "eni-1"}},
		"another network has one of another interface": {files: map[string]string{"n6": "eni-2"}, served: true},
	} {
		t.Run(name, func(t *testing.T) {
			if _, served := agent.ServedNetworks(withPods(), tc.files)["n3"]; served != tc.served {
				t.Errorf("pods get addresses of the interface by network n3: %t", served)
			}
		})
	}
}

// TestMarksAreOfOneInterface: a network has another interface now, to which EC2 delegated a prefix of the former one. The
// prefix drained there, and pods can use it here.
func TestMarksAreOfOneInterface(t *testing.T) {
	i := withPods().Status.Interfaces[0]
	i.Pods.Draining, i.Pods.Opened = false, true
	last := &v1alpha1.PodNetworkState{Network: "n3", ENIID: i.ENIID}
	for former, draining := range map[string]bool{i.ENIID: true, "eni-former": false} {
		before := agent.PodNetwork(i, "node-1", 9001)
		before.ENI, before.IPv4.Prefixes[0].Draining = former, true
		network := agent.PodNetwork(i, "node-1", 9001)
		agent.ServeNetwork(&network, i, agent.NetworkFacts{Last: last, Before: before, Now: time.Now()}, *last)
		if network.IPv4.Prefixes[0].Draining != draining {
			t.Errorf("the file is of %s: the prefix drains: %t", former, network.IPv4.Prefixes[0].Draining)
		}
	}
}

// TestNoOtherInterfaceGetsTheNetworkOfAnInterfaceThatMoved: a NodeENI that was created again adopted its interface with
// another ordinal while pods used it, and created one with the former ordinal. The leases of the network are those of
// the first interface until its file is removed.
func TestNoOtherInterfaceGetsTheNetworkOfAnInterfaceThatMoved(t *testing.T) {
	moved := withPods().Status.Interfaces[0] // it has network n3
	next := *moved.DeepCopy()
	next.Ordinal, next.ENIID, next.MACAddress = moved.Ordinal+1, "eni-2", "02:00:00:00:00:0b"
	for name, tc := range map[string]struct {
		interfaces []v1alpha1.InterfaceState
		files      map[string]string
		served     map[string]string
	}{
		"the file names the one that moved": {
			interfaces: []v1alpha1.InterfaceState{moved, next},
			files:      map[string]string{"n3--1": "eni-1"},
		},
		"the one that moved is listed last": {
			interfaces: []v1alpha1.InterfaceState{next, moved},
			files:      map[string]string{"n3--1": "eni-1"},
		},
		"two interfaces changed places": {
			interfaces: []v1alpha1.InterfaceState{moved, next},
			files:      map[string]string{"n3": "eni-2", "n3--1": "eni-1"},
		},
		"the file was removed": {
			interfaces: []v1alpha1.InterfaceState{moved, next},
			served:     map[string]string{"n3": "eni-1", "n3--1": "eni-2"},
		},
		"the file names one that is gone": {
			interfaces: []v1alpha1.InterfaceState{moved, next},
			files:      map[string]string{"n3--1": "eni-3"},
			served:     map[string]string{"n3": "eni-1", "n3--1": "eni-2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			state := &v1alpha1.NodeENIState{Status: v1alpha1.NodeENIStateStatus{Interfaces: tc.interfaces}}
			got := map[string]string{}
			for network, i := range agent.ServedNetworks(state, tc.files) {
				got[network] = i.ENIID
			}
			if !maps.Equal(got, tc.served) {
				t.Errorf("the networks have the interfaces %v, want %v", got, tc.served)
			}
		})
	}
}

// TestNoOtherInterfaceGetsTheNetworkOfAnOrphan: a NodeENI was created again while a pod used its interface, whose
// NodeENIState was lost. Nothing says any more that the interface is a network for pods.
func TestNoOtherInterfaceGetsTheNetworkOfAnOrphan(t *testing.T) {
	orphan := withPods().Status.Interfaces[0]
	next := *orphan.DeepCopy()
	next.NodeENIUID, next.ENIID, next.MACAddress = "uid-2", "eni-2", "02:00:00:00:00:0b"
	orphan.Pods = nil
	state := &v1alpha1.NodeENIState{Status: v1alpha1.NodeENIStateStatus{Interfaces: []v1alpha1.InterfaceState{orphan, next}}}
	for name, tc := range map[string]struct {
		files  map[string]string
		served string
	}{
		"the file names the orphan": {files: map[string]string{"n3": orphan.ENIID}},
		"the file was removed":      {served: next.ENIID},
	} {
		t.Run(name, func(t *testing.T) {
			if got := agent.ServedNetworks(state, tc.files)["n3"].ENIID; got != tc.served {
				t.Errorf("pods get addresses of %q, want %q", got, tc.served)
			}
		})
	}
}
