// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package netlink

// Affected returns the IDs of the namespaces that an event is about. Kernels differ in their events, and tests run on one.
var Affected = affected

// Physical reports whether a link is that of a device. No test has one.
var Physical = physical
