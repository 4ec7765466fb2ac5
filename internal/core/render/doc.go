// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package render decides which interfaces one instance must have, and which existing interface is which.
//
// [Interfaces] takes what NodeENIs and networks declare for an instance ([Declared]), the evidence about its interfaces
// ([Evidence]) and the state of EC2. It returns each interface with its goal: to ensure, release or retain it. It is a
// pure function. Package plan then compares these interfaces with the state of EC2, and plans the calls. All NodeENIs
// of one instance are rendered together, so that two of them never adopt the same interface. The reading tour:
//
//   - claim.go: [Claim] is what one NodeENI asks for on the instance, and how it becomes desired interfaces.
//   - mode.go: [ModeFor] says what a NodeENI may do on the instance.
//   - interfaces.go: the interfaces of each claim.
//   - match.go: which existing interface belongs to which desired one, and its ordinal.
//   - drift.go: the differences that only a replacement can correct.
//   - adopt.go: existing interfaces that a claim takes over.
//   - evidence.go: what proves, besides its tags, that an interface belongs to the cluster.
//   - release.go: the ledger of a node that does not have the instance any more.
package render
