// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lambda is a model of AWS Lambda from the view of a function: what invokes it, how often it is retried after a
// failure, and when it is killed. It is a deterministic state machine in which time is data; it starts no processes.
//
// An environment of a function, which is a process, requests its next invocation and answers it; package awssim has the
// runtime API for that. Invocations come from EventBridge (asynchronous: up to two more attempts, after one and two
// minutes, then the dead-letter queue) and from event source mappings, which receive batches of messages from a queue
// and delete those that succeeded. The starter of the processes learns from [Model.Begin] which to start, and from
// [Model.IsKilled] which to kill.
//
// model.go has functions, mappings and invocations; runtime.go has the calls of an environment.
package lambda
