// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan decides what to do about the interfaces of one instance.
//
// [Compute] takes the objects of the instance ([Interface]), what else is known of it ([Facts]) and the time, and
// returns a [Plan]: the calls to make now, the state of every object, and the time of the next plan. It is a pure
// function; its callers gather the input, execute the plan and record the states. A plan only contains calls that can
// be made at once. Callers then compute the next plan, until one has no calls.
//
// All objects of one instance are planned together, so that two of them never race for a slot. The reading tour:
//
//   - interface.go: an object, with its goal. facts.go: the state of EC2. attempts.go: the results of earlier calls.
//   - rules.go: the rule for each goal and situation of an interface.
//   - takeover.go: which existing interface is that of an object that records none.
//   - slots.go: the holders of slots, and the allocation of free ones.
//   - planner.go: what the steps of one computation share. step.go: the part of a plan that concerns one object.
//   - compute.go: how the steps of all objects become one plan (plan.go).
//   - call.go: the calls, each with its effect on the interface, which simulation and inventory share.
package plan
