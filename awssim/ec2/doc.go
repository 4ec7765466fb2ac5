// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ec2 is a model of Amazon EC2 as seen by someone who manages network interfaces: a deterministic state machine
// in which time is data.
//
// [New] builds a [Model] from a [World]. Each action of the API is a method of the model that takes a [Call], which
// says what time it is, and a request, and returns an answer or an [*Error]. Everything that EC2 does later by itself
// (attaching, detaching, terminating, becoming visible) is planned with its due time and happens when a later call, or
// [Model.Advance], brings the clock there; [Model.NextDue] tells a driver when that will be. There is no goroutine, no
// timer, no lock: the same options and calls always give the same answers.
//
// # Tour
//
//   - types.go: EC2's nouns, with the names of its API in the tags.
//   - world*.go: what an account has at the beginning. behavior.go: how long EC2 takes, and the switches for what AWS
//     does not document.
//   - table.go: where resources live. A resource is replaced, never changed, and remembers its earlier versions: so
//     that readers can see it late, and so that answers can be encoded without a lock.
//   - describe.go: filters, pages and late reads, the same for all Describe actions.
//   - interface*.go: the life of a network interface: its attachments, addresses and attributes.
//   - subnet*.go: subnets, security groups, reservations, and the addresses that a subnet has left.
//   - instance*.go: the life of an instance with its interfaces: what a launch asks for, what is checked, what it
//     makes, and the simulated VPC CNI. image.go: machine images.
//   - launchtemplate*.go: launch templates, their versions, and what of their data is checked.
//   - fleet*.go: EC2 Fleets and Spot Fleet requests, which launch from templates.
//   - tags*.go, tokens.go: tags, and idempotency by client token.
//   - model*.go: the model, its time, and all actions by name, for a server.
//
// Error codes are EC2's. Where only the fact of a refusal is known and not its code, [Behavior] has a switch, or a
// comment calls the code an estimate. Nothing that is not modelled is accepted: it is refused by name.
package ec2
