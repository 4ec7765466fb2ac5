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
	n := newNamespaces(t, "device")
	host := t.TempDir()
	pci := &bus{n: n, device: hostpci.DeviceFacts{Address: device("ens6", mac(1)), Driver: "ena"}}
	n.configure = func(o *agent.Options) {
		o.PCI, o.NetworkdDir, o.PluginConfig = pci, host, filepath.Join(host, "config.json")
	}
	n.startAgent()
	i := attached(1)
	i.Spec.Link, i.Spec.DPDK = nil, &v1alpha1.DPDKSettings{Driver: v1alpha1.DPDKDriverVFIO, ResourceName: "example.com/fast"}
	n.Attach("ens6", mac(1), n.vpc, "peer1") // first: the agent takes the link away at once
	n.promise(i)
	n.becomes(patience, deviceIs(v1alpha1.LinkBound, hostpci.ReasonBound, true))
	n.becomes(patience, func([]v1alpha1.NetworkInterface) string {
		if _, err := os.Stat(filepath.Join(host, "config.json")); err != nil {
			return err.Error()
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

	n.promise() // the object is torn away, which is no reason to release the device
	looks := n.looks.Load()
	n.becomes(patience, func([]v1alpha1.NetworkInterface) string {
		if n.looks.Load() < looks+5 {
			return "the agent has not looked at the network"
		}
		return ""
	})
	taken := i.DeepCopy()
	taken.Status.Evidence = v1alpha1.EvidenceTakenOver
	n.promise(taken)
	n.becomes(patience, deviceIs(v1alpha1.LinkBound, hostpci.ReasonBound, true))

	pci.open(true)
	n.order(i)
	n.becomes(patience, deviceIs(v1alpha1.LinkBound, hostpci.ReasonInUse, true))
	pci.open(false)
	n.becomes(patience, func(objects []v1alpha1.NetworkInterface) string {
		if len(objects) != 1 || objects[0].Held() {
			return "the node holds the interface"
		}
		return ""
	})
	if state := n.IP("link show ens6"); !strings.Contains(state, mac(1)) {
		t.Errorf("the link is not back: %s", state)
	}
	n.becomes(patience, func([]v1alpha1.NetworkInterface) string {
		if got := networkdFiles(t, host); len(got) > 0 {
			return fmt.Sprintf("systemd-networkd is still told %v", got)
		}
		return ""
	})
}

// The agent does not overwrite a file of another program. The log and the status report that, and all other work
// continues.
func TestForeignPluginConfig(t *testing.T) {
	n := newNamespaces(t, "foreign-config")
	path := filepath.Join(t.TempDir(), "config.json")
	foreign := `{"resourceList": []}`
	if err := os.WriteFile(path, []byte(foreign), 0o600); err != nil {
		t.Fatal(err)
	}
	n.configure = func(o *agent.Options) { o.PluginConfig = path }
	n.startAgent()
	i := attached(1)
	i.Spec.DPDK = &v1alpha1.DPDKSettings{ResourceName: hostpci.DefaultResource}
	n.promise(i)
	n.Attach("ens6", mac(1), n.vpc, "peer1")
	n.becomes(patience, ready)
	if got, err := os.ReadFile(path); err != nil || string(got) != foreign {
		t.Errorf("the file is now %s, %v", got, err)
	}
}

func deviceIs(phase v1alpha1.LinkPhase, reason string, held bool) func([]v1alpha1.NetworkInterface) string {
	return func(objects []v1alpha1.NetworkInterface) string {
		if len(objects) != 1 || reportOf(&objects[0]).State != phase || reportOf(&objects[0]).Reason != reason ||
			objects[0].Status.Node.Open != held {
			return fmt.Sprintf("want %s (%s), held %t", phase, reason, held)
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
