// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agent makes the interfaces of one node usable: it finds their links, configures them, serves pod networks,
// and reports on the NetworkInterfaces of its instance.
//
// An [Agent] is a reconciler of one object, its node. It collects the NetworkInterfaces of the instance and the state
// of the kernel, lets package hostnet decide about links and package podnet about pods and programs, executes what they
// decide until nothing is left, and reports. It runs when the kernel reports a change, when an object changes, and
// every resync period. It watches each object by its name, and writes status.node of NetworkInterfaces, over the
// version that it has read, and the addresses of pod networks into the capacity of its Node. It never calls EC2.
package agent
