// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/host/agent"
)

// Instances may have no instance metadata: then the Node says whether this is the instance of the interface. Without
// either, the pods on the instance of the interface may be others.
func TestANetworkWithoutItsLinkDrainsOnItsOwnInstanceOnly(t *testing.T) {
	const instance = "i-0123456789abcdef0"
	for name, tc := range map[string]struct {
		providerID string
		drained    bool
	}{
		"the Node names the instance":       {"aws:///us-east-1a/" + instance, true},
		"the Node names another instance":   {"aws:///us-east-1a/i-0fedcba9876543210", false},
		"the Node names no instance at all": {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			n := node{T: t, networks: filepath.Join(t.TempDir(), "networks"), leases: t.TempDir(), lost: true, providerID: tc.providerID}
			state := withPods()
			state.Spec.InstanceID, state.Status.Interfaces[0].Pods.Draining = instance, true
			told := n.report(state)[0]
			if told.Drained != tc.drained {
				t.Errorf("reported %+v, want drained %t", told, tc.drained)
			}
			if explains := strings.Contains(told.Message, "let instance metadata answer"); explains == tc.drained {
				t.Errorf("the message is %q", told.Message)
			}
		})
	}
}

// A prefix that was reported as drained goes back to EC2, so an agent that starts without the API server must know its
// mark.
func TestNothingIsDrainedBeforeTheCheckpointHasIt(t *testing.T) {
	for name, drains := range map[string]bool{"a prefix": false, "the whole network": true} {
		t.Run(name, func(t *testing.T) {
			for _, written := range []bool{true, false} {
				n := newNode(t, nil)
				n.stateDir = t.TempDir()
				if !written { // as on a full disk, nothing can be created there
					n.stateDir = filepath.Join(n.stateDir, "file")
					if err := os.WriteFile(n.stateDir, nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				state := withPods()
				state.Status.Interfaces[0].Pods.Draining = drains
				state.Status.PodNetworks[0].Prefixes = []v1alpha1.PodPrefix{{CIDR: "10.0.4.32/28", Phase: v1alpha1.PodPrefixDraining}}
				file := agent.PodNetwork(state.Status.Interfaces[0], "node-1", 9001)
				file.IPv4.Prefixes[1].Draining = true
				if err := os.MkdirAll(n.networks, 0o755); err != nil {
					t.Fatal(err)
				}
				n.write(file)
				told := n.report(state)[0]
				drained := told.Drained || slices.ContainsFunc(told.Prefixes, func(p v1alpha1.PodPrefix) bool { return p.Phase == v1alpha1.PodPrefixDrained })
				if drained != written {
					t.Errorf("the checkpoint could be written: %t; reported %+v", written, told)
				}
				if explains := strings.Contains(told.Message, "store the checkpoint"); explains == written {
					t.Errorf("the checkpoint could be written: %t; the message is %q", written, told.Message)
				}
			}
		})
	}
}

// TestAPrefixThatStaysServesPods has a second prefix that the controller has no record of requesting, so it never
// unassigns it. While the prefix is idle, the first one drains instead.
func TestAPrefixThatStaysServesPods(t *testing.T) {
	n := node{T: t, networks: filepath.Join(t.TempDir(), "networks"), leases: t.TempDir()}
	state := withPods()
	state.Status.Interfaces[0].RequestedAddresses = []string{"10.0.4.16/28"}
	state.Status.PodNetworks = n.report(state)
	file := n.file()
	for p := range file.IPv4.Prefixes {
		file.IPv4.Prefixes[p].Since = file.IPv4.Prefixes[p].Since.Add(-11 * time.Minute)
	}
	n.write(file)
	want := []v1alpha1.PodPrefixPhase{v1alpha1.PodPrefixDraining, v1alpha1.PodPrefixActive}
	var got []v1alpha1.PodPrefixPhase
	for _, p := range n.report(state)[0].Prefixes {
		got = append(got, p.Phase)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("phases of the prefixes (-want +got):\n%s", diff)
	}
}
