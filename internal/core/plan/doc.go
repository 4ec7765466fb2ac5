// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan decides what to do about the interfaces of one instance.
//
// Package render makes the desired state ([Desired]) of the declarations, and package fleet adds which interface may be
// replaced. [Compute] takes the desired state, the observed state ([Observed]) and the time, and returns a [Plan]: the
// ledger to store first, the calls to make now, the state of every member, and the time of the next plan. It is a pure
// function; its callers gather the input and execute the plan. A plan only contains calls that can be made at once.
// Callers then compute the next plan, until one has no actions.
//
// All NodeENIs of one instance are planned together, so that two of them never race for a slot. The reading tour:
//
//   - desired.go: [Interface] is one interface, with its goal.
//   - observed.go: the state of EC2, the ledger and earlier failures. stored.go: what the API server stores about one
//     interface. attempts.go: the results of earlier calls.
//   - slots.go: the holders of slots, and the allocation of free ones.
//   - drift.go: the calls that update an interface in place, and what happens to one that differs otherwise.
//   - rules.go: the rule for each goal and situation of an interface. transitions.go and remove.go have the rules.
//   - compute.go: how the steps of all members become one plan.
//   - action.go: the calls, each with its effect on the interface, which simulation and inventory share.
//   - explain.go: a plan in words.
package plan
