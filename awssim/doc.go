// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package awssim is AWS for tests and demonstrations: the part of EC2 that has to do with network interfaces, over
// HTTP, for the unmodified AWS SDKs and CLI.
//
//	sim, err := awssim.New(awssim.Options{World: awssim.ExampleWorld()})
//	server, err := awssim.Listen(ctx, "127.0.0.1:0", sim)
//	client := ec2.New(ec2.Options{BaseEndpoint: aws.String(server.URL()), …})
//
// It refuses what EC2 refuses (slots per network card, zones, states, addresses, client tokens, one attribute per
// call, …), with EC2's error codes; it takes the time that EC2 takes, throttles with EC2's documented token buckets,
// shows changes late, and fails on order. What it does not model it refuses by name: an answer is never made up.
//
// # Tour
//
//   - [Simulator] is the account: an http.Handler. [Options] say which [World] it begins with, on which [Clock], with
//     which [ec2.Behavior] and token buckets.
//   - [Listen] puts it on a port.
//   - Under /_sim/ it can be looked into and changed; GET /_sim/ lists how. State, Calls, Launch, Terminate, AddFault
//     do the same in Go.
//   - Package ec2 is the model itself, a deterministic state machine without clock or lock that can also be driven
//     directly; package fault says what can be made to go wrong.
//   - Package conformance checks that this server, or another, does what EC2 does.
package awssim
