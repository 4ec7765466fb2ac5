// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agent makes the interfaces of one node usable: it finds their links, configures them, says on the node's
// NodeENIState and Node how far they are, and lets pods in once all that are required are ready.
//
// An [Agent] is a reconciler of one object, its node. It gathers what the controller promised (status.interfaces of the
// NodeENIState) and what the kernel has, lets package hostnet decide, carries the operations out until none are left,
// and reports. It wakes up when the kernel tells of a change, when the NodeENIState or the Node changes, and every resync
// period. It reads two objects, by name, and writes status.links of the one and a condition, labels, an annotation and a
// taint of the other. It never talks to EC2.
package agent
