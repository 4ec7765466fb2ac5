// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan decides what to do about the interfaces of one instance.
//
// [Compute] takes what is wanted ([Desired]), what is known ([Observed]) and the time, and returns a [Plan]: the
// ledger to store first, the calls to make now, where every member stands, and when to look again. It is a pure
// function; carrying a plan out, and gathering what it needs, is the work of others. A plan only ever contains calls
// that can be made at once; after they are made, the same function is asked again, until a plan has no actions.
//
// All NodeENIs that concern one instance are planned together, so that two of them never race for a slot. The reading
// tour:
//
//   - desired.go: [Claim] is what one NodeENI asks of the instance, [Judge] says whether it may still ask.
//   - observed.go: what EC2, the ledger and earlier failures tell.
//   - match.go: which existing interface is which wished one.
//   - slots.go: who sits where, and who gets which free slot.
//   - drift.go: what an interface has other than wished, and the calls that mend it.
//   - compute.go: the order of a member's life: create, attach, mend, and detach, delete.
//   - action.go: the calls, each with its effect on the interface, so that simulation and reality agree on it.
//   - explain.go: a plan in words.
package plan
