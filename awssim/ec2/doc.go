// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ec2 is a model of Amazon EC2 for programs that manage network interfaces: a deterministic state machine in
// which time is data.
//
// [New] builds a [Model] from a [World]. Each action of the API is a method of the model that takes a [Call], which has
// the present time, and a request, and returns an answer or an [*Error]. Everything that EC2 does later by itself
// (attaching, detaching, terminating, becoming visible) is planned with its due time, and happens when a later call, or
// [Model.Advance], reaches that time; [Model.NextDue] returns the next due time. There is no goroutine, timer or lock:
// the same options and calls always give the same answers.
//
// # Tour
//
//   - types.go: EC2's types, with the names of its API in the tags.
//   - world*.go: the initial state of an account. behavior.go: durations, and switches for undocumented behaviour.
//   - table.go: the store of resources. A resource is replaced, never changed, and keeps its earlier versions, so that
//     readers can see it late, and answers can be encoded without a lock.
//   - describe.go: filters, pages and late reads, the same for all Describe actions.
//   - interface*.go: the life of a network interface: its attachments, addresses and attributes.
//   - subnet*.go: subnets, security groups, reservations, and the free addresses of a subnet.
//   - instance*.go: the life of an instance with its interfaces: launch requests, their checks and their resources,
//     and the simulated VPC CNI. image.go: machine images.
//   - launchtemplate*.go: launch templates, their versions, and the checks of their data.
//   - fleet*.go: EC2 Fleets and Spot Fleet requests, which launch from templates.
//   - tags*.go, tokens.go: tags, and idempotency by client token.
//   - model*.go: the model, its time, and all actions by name, for a server.
//
// Error codes are EC2's. Where it is known that EC2 refuses a request, but not with which code, [Behavior] has a
// switch, or a comment calls the code an estimate. The model refuses everything that is not modelled, with its name.
package ec2
