// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package model checks the protocol of NetworkInterface objects: leaders, agents, users, EC2 and the API server as
// machines with few states. A search visits each state. docs/model.md says what the machines cover.
//
// The searches are breadth-first, so a counterexample is a shortest one. A machine is a set of functions of its state,
// and one file per actor has them:
//
//   - lifecycle: the interfaces of one name, EC2's calls, leaders and their caches
//   - pods: the hold of a node on an interface, with agent processes, boots, files and pods
//   - prefix: one prefix of pods, from EC2 to the file of the node and back
//   - address: a floating address that moves between two nodes
//
// A machine keeps each rule of the protocol unless it is the one that a search leaves out. Section numbers are those of
// the design of NetworkInterface.
package model
