// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agent makes the interfaces of one node usable: it finds their links, configures them, and reports their state
// on the node's NodeENIState.
//
// An [Agent] is a reconciler of one object, its node. It collects the desired interfaces (status.interfaces of the
// NodeENIState) and the state of the kernel, lets package hostnet decide, executes the operations until none are left,
// and reports. It runs when the kernel reports a change, when the NodeENIState or the Node changes, and every resync
// period. It reads two objects, by name, and writes its report into the status of the one and the addresses of pod
// networks into the capacity of the other. It never calls EC2.
package agent
