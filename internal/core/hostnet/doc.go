// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hostnet decides what the network links of a node shall look like.
//
// The desired [Link]s, known by MAC address, and the [Input] of the kernel go in. [Configure] finds the links and says
// in a [HostConfig] how they, their routes and their rules shall be; [Diff] turns the difference into [Operation]s;
// [Observe] says for each desired link how far it is. A second run over the resulting facts yields no operations.
//
// # Whose is what
//
// A link is ours if a physical device carries the wanted MAC address: names, indices and the virtual links that share
// the address (ipvlan, macvlan) say nothing. Everything else is left alone, and so is whatever others did to our links,
// except addresses that EC2 gave to the interface itself and routes that came with them: those would draw traffic of
// the node out of the wrong interface.
//
// What we do is written down where it was done, so that an agent that starts anew knows it without a file: routes and
// rules carry [Protocol], an address of ours is one that a rule of ours begins with, and a link remembers in its alias
// what it was like before ([Record]). The record is written before the change, so that a crash loses nothing. The
// host-device plugin of the CNI project writes an alias of its own on a link it gives to a pod; the record is lost then,
// and what the link has when it comes back passes for what it had, except the name that is ours by its form.
//
// # Text
//
// Facts and HostConfig print as sorted text. [Networkd] prints the file by which systemd-networkd leaves a link alone.
package hostnet
