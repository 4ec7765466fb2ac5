// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hostpci decides which driver the PCI device of an interface shall have: the kernel's network driver, or one
// that hands the device to a program in user space (DPDK).
//
// A device is found by the MAC address of its link, as package hostnet finds it, and never by a name or by an address
// somebody wrote down. Once it is bound it has no link and so no MAC address: a [Record] says where it is. The record is
// kept where the controller sees it, on the node's NodeENIState, before the device is touched, so that an interface is
// not detached under a program, and a bound device is not forgotten whatever ends in between.
//
// A device is given back to the kernel's driver once no program has it open. Nothing is ever taken from a program.
//
// [PluginConfig] lists devices for the SR-IOV network device plugin.
package hostpci
