// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package forecast predicts the outcome of a plan. It executes the actions in a model of one instance that refuses
// nothing and takes no time, plans again, and repeats this until no action is left. The sum of the actions is the cost
// of a change of the declarations, before anything changes.
//
// [Simulate] does that for one instance; [Calls] and [MinDuration] add up the EC2 calls for many instances.
package forecast
