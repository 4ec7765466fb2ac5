// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package eni is the vocabulary of multieni: elastic network interfaces, slots on an instance, subnets and security
// groups, as plain values.
//
// It declares everything that the other core packages exchange, in EC2's own terms, so that a plan can be computed,
// printed and tested with values alone. Read it in this order:
//
//   - [Slot] is a network card index and a device index on an instance.
//   - [Interface] and its [Attachment] are EC2's state of one network interface.
//   - [Spec] is the desired state of a member's interface.
//   - [Limits] are the limits of an instance type.
//   - [Subnet], [SecurityGroup] and [Instance] are the surroundings.
package eni
