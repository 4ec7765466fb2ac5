// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"testing"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/agent"
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
