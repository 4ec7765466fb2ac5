// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/hostpci"
	"github.com/multieni/multieni/internal/host/networkd"
)

// writeFiles writes the configured files about the interfaces, which other programs of the host read.
func (a *Agent) writeFiles(s *snapshot) error {
	if !s.read {
		return nil // the existing files may be correct
	}
	var failures []error
	if a.NetworkdDir != "" {
		failures = append(failures, writeNetworkd(a.NetworkdDir, s))
	}
	if a.PluginConfig != "" {
		failures = append(failures, writePluginConfig(a.PluginConfig, s))
	}
	return errors.Join(failures...)
}

// writeNetworkd writes one file for each interface into the folder, and removes other files of the agent.
func writeNetworkd(dir string, s *snapshot) error {
	var macs []string
	for _, link := range s.links {
		macs = append(macs, link.MAC)
	}
	for _, device := range s.devices {
		macs = append(macs, device.Link.MAC)
	}
	_, err := networkd.Keep(dir, append(macs, s.preserved()...))
	return err
}

// writePluginConfig lists the devices that pods can request. It does not change a file of another program.
func writePluginConfig(path string, s *snapshot) error {
	var resources []hostpci.Resource
	for _, o := range s.observed {
		dpdk := s.dpdkOf(o.Link.MAC)
		if dpdk == nil || dpdk.ResourceName == "" || o.Facts == nil || !o.State.Usable() {
			continue
		}
		resources = append(resources,
			hostpci.Resource{Name: dpdk.ResourceName, Address: o.Facts.Device, Driver: o.Facts.Driver})
	}
	present, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && len(resources) == 0:
		return nil
	case err == nil && !bytes.Contains(present, []byte(hostpci.PluginMark)):
		return fmt.Errorf("multieni did not write %s, so the agent does not change it: move the file, or choose another one "+
			"with --sriov-config", path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read the configuration of the SR-IOV network device plugin: %w", err)
	}
	if _, err := networkd.Replace(path, hostpci.PluginConfig(resources)); err != nil {
		return fmt.Errorf("write the configuration of the SR-IOV network device plugin: %w", err)
	}
	return nil
}

// dpdkOf returns the settings of a device that the node keeps for programs; nil for none.
func (s *snapshot) dpdkOf(mac string) *v1alpha1.DPDKSettings {
	for _, n := range s.objects {
		if n.Status.MACAddress == mac && n.DeletionTimestamp.IsZero() {
			return n.Spec.DPDK
		}
	}
	return nil
}
