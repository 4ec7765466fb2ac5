// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ipam finds the lowest free addresses of a subnet.
//
// Users who reserve the upper part of a subnet for pods want interfaces to fill the subnet from its start. EC2 chooses
// addresses at random, so multieni names the addresses in its calls. Two processes could then name the same address at
// the same time. Two mechanisms avoid that. Within one process, [Reservations] assigns each address to one holder.
// Processes that cannot communicate rank all interfaces that wait for an address: each interface takes the free address
// at its own rank ([Rank]), which all processes compute in the same way from EC2's answers. If two still choose the
// same address, the process that EC2 refuses reads and ranks again.
package ipam
