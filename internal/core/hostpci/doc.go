// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hostpci decides which driver the PCI device of an interface must have: the kernel's network driver, or a
// driver that passes the device to a program in user space (DPDK).
//
// The MAC address of its link identifies a device, as in package hostnet. A name or a configured bus address never
// does. A bound device has no link and so no MAC address: an [OriginalBinding] then records where it is. The agent
// stores the record in status.node of the NetworkInterface, together with the hold, before it changes the device. The
// controller therefore never detaches an interface that a program uses, and a crash at any point never loses a bound
// device.
//
// The agent returns a device to the kernel's driver only when no program has it open.
//
// [PluginConfig] lists devices for the SR-IOV network device plugin.
package hostpci
