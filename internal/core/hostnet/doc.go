// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hostnet decides the desired state of the network links of a node.
//
// Its inputs are the desired [Link]s, identified by MAC address, and the [Facts] of the kernel. [Configure] finds the
// links and returns the desired state of the links, their routes and their rules as a [HostConfig]; [Diff] turns the
// difference into [Operation]s; [Observe] reports the state of each desired link. A second run over the resulting facts
// yields no operations.
//
// # Ownership
//
// A link is ours if a physical device has the desired MAC address. Names, indices and the virtual links that share the
// address (ipvlan, macvlan) do not matter. Everything else stays as it is, and so do all changes of other programs to
// our links. There is one exception: addresses that EC2 assigned to the interface itself, and the routes that came with
// them, would direct traffic of the node out of the wrong interface.
//
// Our changes are recorded where they are, so that an agent that restarts knows them without a file. Routes and rules
// carry [Protocol]; an address is ours if one of our rules begins with it; a link stores its original state in its
// alias ([OriginalState]). The record is written before the change, so a crash loses nothing. The host-device plugin of
// the CNI project writes an alias of its own on a link that it moves into a pod and thereby overwrites the record. The
// state of the link when it comes back then counts as its original state, except the name that is ours by its form.
//
// # Text
//
// Facts and HostConfig print as sorted text. [Networkd] returns the file that makes systemd-networkd ignore a link.
package hostnet
