// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package pci_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/hostpci"
	"github.com/multieni/multieni/internal/host/pci"
)

const address = "0000:00:07.0"

// tree is a folder that looks like sysfs, and reacts to writes as sysfs does.
type tree struct {
	t    *testing.T
	root string
	// refuses is a driver that binds no device.
	refuses string
}

// newTree returns a tree with a network device at the address, and a disk.
func newTree(t *testing.T) *tree {
	s := &tree{t: t, root: t.TempDir()}
	for _, driver := range []string{"ena", "nvme", "vfio-pci"} {
		s.file("bus/pci/drivers/"+driver+"/unbind", "")
	}
	s.file("bus/pci/drivers_probe", "")
	for device, class := range map[string]string{address: "0x020000", "0000:00:04.0": "0x010802"} {
		s.file("bus/pci/devices/"+device+"/class", class+"\n")
		s.file("bus/pci/devices/"+device+"/driver_override", "(null)\n")
		s.file("bus/pci/devices/"+device+"/enable", "1\n")
	}
	s.take(address, "ena")
	s.take("0000:00:04.0", "nvme")
	return s
}

func (s *tree) open() *pci.Host {
	h := pci.Open(s.root)
	h.React(s.react)
	return h
}

func (s *tree) path(name string) string { return filepath.Join(s.root, name) }

func (s *tree) file(name, content string) {
	s.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(s.path(name)), 0o755), os.WriteFile(s.path(name), []byte(content), 0o644)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *tree) text(name string) string {
	content, err := os.ReadFile(s.path(name))
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(string(content))
}

func (s *tree) take(device, driver string) {
	s.t.Helper()
	if err := os.Symlink("../../drivers/"+driver, s.path("bus/pci/devices/"+device+"/driver")); err != nil {
		s.t.Fatal(err)
	}
}

// react acts as the kernel does: an unbound device has no driver, and a probed one gets the driver of driver_override,
// or the driver that supports it.
func (s *tree) react(path, device string) error {
	link := s.path("bus/pci/devices/" + device + "/driver")
	switch filepath.Base(path) {
	case "unbind":
		return os.Remove(link)
	case "drivers_probe":
		driver := s.text("bus/pci/devices/" + device + "/driver_override")
		if driver == "" {
			driver = "ena"
		}
		if driver != s.refuses {
			s.take(device, driver)
		}
	}
	return nil
}

func (s *tree) facts() hostpci.Facts {
	s.t.Helper()
	facts, err := pci.Open(s.root).Facts()
	if err != nil {
		s.t.Fatal(err)
	}
	return facts
}

func TestFacts(t *testing.T) {
	s := newTree(t)
	s.file("bus/pci/devices/"+address+"/iommu_group/type", "DMA")
	s.file("module/vfio/parameters/enable_unsafe_noiommu_mode", "Y\n")
	want := hostpci.Facts{
		Devices: []hostpci.DeviceFacts{{Address: address, Driver: "ena", Guarded: true, Enabled: true}},
		Drivers: []string{"ena", "nvme", "vfio-pci"}, Unguarded: true,
	}
	if diff := cmp.Diff(want, s.facts()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNoBus(t *testing.T) {
	facts, err := pci.Open(t.TempDir()).Facts()
	if diff := cmp.Diff(hostpci.Facts{ReadOnly: true}, facts); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// Binding a device to another driver and back leaves the tree as it was.
func TestBind(t *testing.T) {
	s := newTree(t)
	h := s.open()
	if err := h.Bind(hostpci.Binding{Address: address, Driver: "vfio-pci"}); err != nil {
		t.Fatal(err)
	}
	if got := s.facts().Devices[0]; got.Driver != "vfio-pci" || got.Override != "vfio-pci" {
		t.Errorf("bound, the device is %+v", got)
	}
	if err := h.Bind(hostpci.Binding{Address: address}); err != nil {
		t.Fatal(err)
	}
	if got := s.facts().Devices[0]; got.Driver != "ena" || got.Override != "" {
		t.Errorf("given back, the device is %+v", got)
	}
}

// A device that the driver does not bind still has a driver afterwards.
func TestRefusingDriver(t *testing.T) {
	s := newTree(t)
	s.refuses = "vfio-pci"
	if err := s.open().Bind(hostpci.Binding{Address: address, Driver: "vfio-pci"}); err == nil {
		t.Error("no error is returned")
	}
	if got := s.facts().Devices[0]; got.Driver != "ena" || got.Override != "" {
		t.Errorf("afterwards the device is %+v", got)
	}
}

func TestNoSuchDevice(t *testing.T) {
	if err := newTree(t).open().Bind(hostpci.Binding{Address: "0000:00:1f.0", Driver: "vfio-pci"}); err == nil {
		t.Error("no error is returned")
	}
}
