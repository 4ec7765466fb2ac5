// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package netlink reads and changes the network of the host. It is the only user of a netlink library, and knows
// nothing of what the network should be: that is package hostnet's business.
//
// A [Host] stays in the network namespace it was opened in. [Host.Input] takes a snapshot, [Host.Apply] carries one
// operation out and takes "it is so already" for success, [Host.Events] says that something changed.
//
// Everything needs CAP_NET_ADMIN at most. The settings of IPv4 and the address generation mode of IPv6 are set by
// netlink, so they need no /proc/sys, which containers without privileges have read-only; the other settings of IPv6
// have no other way, and are left alone there.
package netlink

// Options are what a Host needs to know.
type Options struct {
	// Sysfs is where sysfs is; /sys if empty.
	Sysfs string
	// Device returns the bus address of the physical device under a link, "" for a virtual link. Nil asks the kernel.
	// Tests let virtual links pass for physical ones.
	Device func(name, mac string) string
	// Excluded says which links are never to be touched, by name. Nil excludes none.
	Excluded func(name string) bool
}
