// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package netlink reads and changes the network of the host. It is the only user of a netlink library. Package hostnet
// computes the desired network.
//
// A [Host] stays in the network namespace it was opened in. [Host.Facts] takes a snapshot, [Host.Apply] executes one
// operation and succeeds if the state is already as desired, [Host.Events] reports changes.
//
// Everything needs CAP_NET_ADMIN at most. The settings of IPv4 and the address generation mode of IPv6 are set by
// netlink, so they do not need /proc/sys, which is read-only in containers without privileges. The other IPv6 settings
// can only be set through /proc/sys; in such containers they stay unchanged.
package netlink

// Options configure a Host.
type Options struct {
	// Sysfs is the mount point of sysfs; /sys if empty.
	Sysfs string
	// Device returns the bus address of the physical device under a link, "" for a virtual link. If nil, the kernel is
	// asked. Tests treat virtual links as physical ones.
	Device func(name, mac string) string
	// Excluded reports whether the link of a name must never be changed. Nil excludes none.
	Excluded func(name string) bool
}
