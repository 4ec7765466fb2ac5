// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/multieni/multieni/hostnet"
	"github.com/multieni/multieni/hostpci"
)

// writeFiles writes the files that tell other programs of the host about the interfaces, where that is asked for.
func (a *Agent) writeFiles(s *subject) error {
	if !s.certain() {
		return nil // what is there may well be right
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

// writeNetworkd makes the folder hold one file of ours for each interface, and no others of ours.
func writeNetworkd(dir string, s *subject) error {
	want := map[string]string{}
	for _, link := range s.links {
		name, text := hostnet.Networkd(link.MAC)
		want[name] = text
	}
	for _, device := range s.devices {
		name, text := hostnet.Networkd(device.Link.MAC)
		want[name] = text
	}
	present, err := filepath.Glob(filepath.Join(dir, hostnet.NetworkdFiles))
	if err != nil {
		return err
	}
	for _, path := range present {
		if _, wanted := want[filepath.Base(path)]; !wanted {
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("remove the file of an interface that is gone: %w", err)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if err := replaceFile(filepath.Join(dir, name), []byte(want[name])); err != nil {
			return fmt.Errorf("keep systemd-networkd off an interface: %w", err)
		}
	}
	return nil
}

// writePluginConfig lists the devices that pods can ask for. A file that somebody else wrote is not touched.
func writePluginConfig(path string, s *subject) error {
	var resources []hostpci.Resource
	for _, o := range s.observed {
		i := interfaceOf(s.state, o.Link.MAC)
		if i == nil || i.DPDKResourceName == "" || o.Facts == nil || !o.State.Usable() {
			continue
		}
		resources = append(resources, hostpci.Resource{Name: i.DPDKResourceName, Address: o.Facts.Device, Driver: o.Facts.Driver})
	}
	present, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && len(resources) == 0:
		return nil
	case err == nil && !bytes.Contains(present, []byte(hostpci.PluginMark)):
		return fmt.Errorf("%s was not written by multieni, so it is left alone: move it away, or choose another file with --sriov-config", path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read the configuration of the SR-IOV network device plugin: %w", err)
	}
	if err := replaceFile(path, hostpci.PluginConfig(resources)); err != nil {
		return fmt.Errorf("write the configuration of the SR-IOV network device plugin: %w", err)
	}
	return nil
}

// replaceFile gives a file its content at once, if it has another.
func replaceFile(path string, content []byte) error {
	if present, err := os.ReadFile(path); err == nil && bytes.Equal(present, content) {
		return nil
	}
	draft, err := os.CreateTemp(filepath.Dir(path), ".multieni-*")
	if err != nil {
		return err
	}
	_, err = draft.Write(content)
	err = errors.Join(err, draft.Chmod(0o644), draft.Close())
	if err == nil {
		err = os.Rename(draft.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(draft.Name()))
	}
	return nil
}
