// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package netns_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/hostpci"
	"github.com/multieni/multieni/internal/host/agent"
)

// bus is a PCI bus with one device. Its link exists as long as the device is bound to the network driver.
type bus struct {
	n      *node
	mu     sync.Mutex
	device hostpci.DeviceFacts
}

func (b *bus) Facts() (hostpci.Facts, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return hostpci.Facts{Devices: []hostpci.DeviceFacts{b.device}, Drivers: []string{"ena", hostpci.VFIO}, Unguarded: true}, nil
}

func (b *bus) Bind(binding hostpci.Binding) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if binding.Driver == "" {
		b.n.Attach("ens6", mac(1), b.n.vpc, "peer1")
		b.device.Driver, b.device.Override = "ena", ""
		return nil
	}
	b.n.IP("link del ens6")
	b.device.Driver, b.device.Override = binding.Driver, binding.Driver
	return nil
}

// open opens or closes the device as a program does.
func (b *bus) open(is bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.device.Enabled = is
}

// A device goes to a program in user space and back, and never back while the program has it open.
func TestLifeOfADevice(t *testing.T) {
	n := newNamespaces(t, "device", false)
	host := t.TempDir()
	pci := &bus{n: n, device: hostpci.DeviceFacts{Address: device("ens6", mac(1)), Driver: "ena"}}
	n.configure = func(o *agent.Options) {
		o.PCI, o.NetworkdDir, o.PluginConfig = pci, host, filepath.Join(host, "config.json")
	}
	n.startAgent()
	i := interfaceOf(1, v1alpha1.PhaseAttached)
	i.AddressMode, i.DPDKDriver, i.DPDKResourceName = v1alpha1.AddressNone, v1alpha1.DPDKDriverVFIO, "example.com/fast"
	n.Attach("ens6", mac(1), n.vpc, "peer1") // first: the agent takes the link away at once
	n.promise(i)
	n.becomes(patience, linkIs(v1alpha1.LinkBound, hostpci.ReasonBound))
	n.becomes(patience, func(node *corev1.Node, _ *v1alpha1.NodeENIState) string {
		if tainted(node) || node.Labels[v1alpha1.InterfaceLabelPrefix+"net-web"] != i.ENIID {
			return fmt.Sprintf("the node is not ready with a bound device: %+v", node.Spec.Taints)
		}
		return ""
	})
	config, err := os.ReadFile(filepath.Join(host, "config.json"))
	if err != nil || !strings.Contains(string(config), pci.device.Address) || !strings.Contains(string(config), "vfio-pci") {
		t.Errorf("the device plugin is told %s, %v", config, err)
	}
	if got := networkdFiles(t, host); !slices.Equal(got, []string{"00-multieni-020000000001.network"}) {
		t.Errorf("systemd-networkd is told %v", got)
	}

	unseen := i // the controller does not find it, which is no reason to release the device or to delete its record
	unseen.Phase, unseen.MACAddress, unseen.ENIID = v1alpha1.PhaseCreating, "", ""
	n.promise(unseen)
	n.becomes(patience, func(node *corev1.Node, state *v1alpha1.NodeENIState) string {
		if c := condition(node); c.Reason != "InterfaceCreating" {
			return "the condition is " + c.Reason
		}
		return linkIs(v1alpha1.LinkBound, hostpci.ReasonBound)(node, state)
	})

	pci.open(true)
	i.Phase = v1alpha1.PhaseDetaching
	n.promise(i)
	n.becomes(patience, linkIs(v1alpha1.LinkBound, hostpci.ReasonInUse))
	pci.open(false)
	n.becomes(patience, func(_ *corev1.Node, state *v1alpha1.NodeENIState) string {
		if len(state.Status.Links) > 0 {
			return fmt.Sprintf("the node holds %+v", state.Status.Links)
		}
		return ""
	})
	if state := n.IP("link show ens6"); !strings.Contains(state, mac(1)) {
		t.Errorf("the link is not back: %s", state)
	}
	if got := networkdFiles(t, host); len(got) > 0 {
		t.Errorf("systemd-networkd is still told %v", got)
	}
}

// The agent does not overwrite a file of another program. The log and the status report that, and all other work
// continues.
func TestForeignPluginConfig(t *testing.T) {
	n := newNamespaces(t, "foreign-config", false)
	path := filepath.Join(t.TempDir(), "config.json")
	foreign := `{"resourceList": []}`
	if err := os.WriteFile(path, []byte(foreign), 0o600); err != nil {
		t.Fatal(err)
	}
	n.configure = func(o *agent.Options) { o.PluginConfig = path }
	n.startAgent()
	i := interfaceOf(1, v1alpha1.PhaseAttached)
	i.DPDKResourceName = hostpci.DefaultResource
	n.promise(i)
	n.Attach("ens6", mac(1), n.vpc, "peer1")
	n.becomes(patience, ready)
	if got, err := os.ReadFile(path); err != nil || string(got) != foreign {
		t.Errorf("the file is now %s, %v", got, err)
	}
}

func linkIs(phase v1alpha1.LinkPhase, reason string) func(*corev1.Node, *v1alpha1.NodeENIState) string {
	return func(_ *corev1.Node, state *v1alpha1.NodeENIState) string {
		if len(state.Status.Links) != 1 || state.Status.Links[0].State != phase || state.Status.Links[0].Reason != reason {
			return fmt.Sprintf("the links are %+v, want %s (%s)", state.Status.Links, phase, reason)
		}
		return ""
	}
}

func networkdFiles(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.network"))
	if err != nil {
		t.Fatal(err)
	}
	for n := range paths {
		paths[n] = filepath.Base(paths[n])
	}
	return paths
}
