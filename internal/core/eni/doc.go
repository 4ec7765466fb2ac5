// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package eni is the vocabulary of multieni: what an elastic network interface, a slot on an instance, a subnet and a
// security group are, as plain values.
//
// Everything the other core packages exchange is declared here, in EC2's own terms, so that a plan can be computed,
// printed and tested with values alone. Read it in this order:
//
//   - [Slot] is a place on an instance: network card and device index.
//   - [Interface] and its [Attachment] are what EC2 says about one network interface.
//   - [Spec] is what a member of a NodeENI asks an interface to be.
//   - [Limits] is what an instance type can carry.
//   - [Subnet], [SecurityGroup] and [Instance] are the surroundings.
package eni
