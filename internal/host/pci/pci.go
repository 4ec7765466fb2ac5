// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pci reads the drivers of the host's PCI network devices, and binds devices to drivers. It uses only sysfs: it
// runs no programs and loads no modules. Package hostpci decides which driver a device gets.
package pci

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/hostpci"
)

// Host is the PCI bus of a host.
type Host struct {
	// sysfs is the mount point of sysfs.
	sysfs string
	// write writes to a file of sysfs. The kernel acts before it returns.
	write func(path, text string) error
}

// Open returns the bus in the sysfs at a path; /sys if the path is empty.
func Open(sysfs string) *Host {
	if sysfs == "" {
		sysfs = "/sys"
	}
	return &Host{sysfs, write}
}

// networkClass begins the class of every network controller (PCI Code and ID Assignment Specification).
const networkClass = "0x02"

// Facts returns the state of the network devices. A host without a PCI bus has none.
func (h *Host) Facts() (hostpci.Facts, error) {
	var facts hostpci.Facts
	addresses, err := names(h.path("devices"))
	if err != nil {
		return facts, fmt.Errorf("list PCI devices: %w", err)
	}
	for _, address := range addresses {
		if strings.HasPrefix(h.text("devices", address, "class"), networkClass) {
			facts.Devices = append(facts.Devices, h.device(address))
		}
	}
	if facts.Drivers, err = names(h.path("drivers")); err != nil {
		return facts, fmt.Errorf("list PCI drivers: %w", err)
	}
	facts.Unguarded = h.text("../../module/vfio/parameters/enable_unsafe_noiommu_mode") == "Y"
	probe, err := os.OpenFile(h.path("drivers_probe"), os.O_WRONLY, 0)
	if facts.ReadOnly = err != nil; err == nil {
		_ = probe.Close()
	}
	return facts, nil
}

func (h *Host) device(address string) hostpci.DeviceFacts {
	device := hostpci.DeviceFacts{Address: address, Driver: h.driver(address)}
	if override := h.text("devices", address, "driver_override"); override != "(null)" {
		device.Override = override
	}
	_, err := os.Lstat(h.path("devices", address, "iommu_group"))
	device.Guarded = err == nil
	enabled := h.text("devices", address, "enable")
	device.Enabled = enabled != "" && enabled != "0"
	return device
}

// Bind executes a binding. If the driver does not bind the device, Bind returns the device to the kernel's driver, and
// an error.
func (h *Host) Bind(b hostpci.Binding) error {
	err := h.bind(b)
	if err == nil && b.Driver == "" {
		return nil
	}
	if err == nil && h.driver(b.Address) == b.Driver {
		return nil
	}
	if err == nil {
		err = errors.New("the driver did not take the device; the kernel's log says why")
	}
	if b.Driver != "" {
		err = errors.Join(err, h.bind(hostpci.Binding{Address: b.Address}))
	}
	return fmt.Errorf("%s: %w", b, err)
}

// bind makes the kernel look for a driver of the device again (Documentation/ABI/testing/sysfs-bus-pci,
// driver_override).
func (h *Host) bind(b hostpci.Binding) error {
	if err := h.write(h.path("devices", b.Address, "driver_override"), b.Driver+"\n"); err != nil {
		return err
	}
	if driver := h.driver(b.Address); driver != "" {
		if err := h.write(h.path("drivers", driver, "unbind"), b.Address); err != nil {
			return err
		}
	}
	return h.write(h.path("drivers_probe"), b.Address)
}

func (h *Host) path(elements ...string) string {
	return filepath.Join(append([]string{h.sysfs, "bus/pci"}, elements...)...)
}

// driver returns the name of the device's driver, or "".
func (h *Host) driver(address string) string {
	target, err := os.Readlink(h.path("devices", address, "driver"))
	if err != nil {
		return ""
	}
	return filepath.Base(target)
}

// text returns the content of a file, or "" if it does not exist.
func (h *Host) text(elements ...string) string {
	content, err := os.ReadFile(h.path(elements...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}

func names(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []string
	for _, entry := range entries {
		all = append(all, entry.Name())
	}
	return slices.Sorted(slices.Values(all)), nil
}

// write writes to an existing file. Only the kernel creates files in sysfs.
func write(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}
