// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostpci

import (
	"slices"

	"github.com/multieni/multieni/internal/core/hostnet"
)

// The drivers that pass a device to user space.
const (
	VFIO       = "vfio-pci"
	IGBUIO     = "igb_uio"
	UIOGeneric = "uio_pci_generic"
)

// forUserSpace reports whether the driver passes devices to user space.
func forUserSpace(driver string) bool {
	return slices.Contains([]string{VFIO, IGBUIO, UIOGeneric}, driver)
}

// Device is a device to bind.
type Device struct {
	// Link is the interface. Its Device is the last observed bus address, or "".
	Link hostnet.Link
	// Driver is one of the drivers for user space.
	Driver string
	// Expected is the configured bus address, or "". The agent does not touch a device at another address.
	Expected string
}

// OriginalBinding records that a device was bound, or was about to be.
type OriginalBinding struct {
	// Name and MAC are those of the interface.
	Name, MAC string
	// Address is the bus address of the device, for example 0000:00:07.0.
	Address string
}

// Facts is what sysfs says about the PCI network devices of the host.
type Facts struct {
	Devices []DeviceFacts
	// Drivers are the PCI drivers that the kernel has.
	Drivers []string
	// Unguarded is set if vfio may be used without an IOMMU (its parameter enable_unsafe_noiommu_mode).
	Unguarded bool
	// ReadOnly is set if this process cannot write to sysfs.
	ReadOnly bool
	// Failed says why devices did not take a driver a short while ago.
	Failed map[Binding]string
}

// DeviceFacts is one PCI network device.
type DeviceFacts struct {
	Address string
	// Driver is "" if the device has none.
	Driver string
	// Override is the only driver that may take the device; "" lets the kernel choose.
	Override string
	// Guarded is set if an IOMMU confines the device.
	Guarded bool
	// Enabled is set if a driver has switched the device on. vfio-pci does while a program has it open; the other
	// drivers for user space do as soon as they have it.
	Enabled bool
}

// Binding binds a device to a driver. It is the only operation.
type Binding struct {
	Address string
	// Driver is "" for the network driver that the kernel chooses.
	Driver string
}

// String describes the operation in one line.
func (b Binding) String() string {
	if b.Driver == "" {
		return "device " + b.Address + ": give back to the network driver"
	}
	return "device " + b.Address + ": bind to " + b.Driver
}

func (f Facts) device(address string) *DeviceFacts {
	for n := range f.Devices {
		if f.Devices[n].Address == address {
			return &f.Devices[n]
		}
	}
	return nil
}

// Holds reports whether a program in user space has the device at a bus address, or can get it: the device has a driver
// for user space, or is between two drivers.
func (f Facts) Holds(address string) bool {
	device := f.device(address)
	return device != nil && (device.Driver == "" || forUserSpace(device.Driver) || forUserSpace(device.Override))
}
