// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agent makes the interfaces of one node usable: it finds their links, configures them, reports their state on
// the node's NodeENIState and Node, and removes the startup taint once all required ones are ready.
//
// An [Agent] is a reconciler of one object, its node. It collects the desired interfaces (status.interfaces of the
// NodeENIState) and the state of the kernel, lets package hostnet decide, executes the operations until none are left,
// and reports. It runs when the kernel reports a change, when the NodeENIState or the Node changes, and every resync
// period. It reads two objects, by name, and writes status.links of the one and a condition, labels, an annotation and
// a taint of the other. It never calls EC2.
package agent
