// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package autoscaling is a model of Amazon EC2 Auto Scaling as far as lifecycle hooks need it: a deterministic state
// machine in which time is data, on the timeline of package ec2.
//
// A [Model] keeps as many instances as a group desires, from its launch template, spread over its subnets or zones.
// Hooks hold an instance in Pending:Wait or Terminating:Wait until they are completed or their heartbeat times out.
// Each hook notifies EventBridge, and its notification target if it has one. Scaling policies, warm pools, mixed
// instances, load balancers and instance refresh are not modelled; the model refuses them.
//
// types.go has the types, actions.go the groups' actions, hooks.go those of lifecycle hooks, scaling.go what a group
// does by itself, world.go the initial state.
package autoscaling
