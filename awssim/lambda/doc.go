// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lambda is a model of AWS Lambda as a program on it sees it: who invokes it, how often again after a failure,
// and when it is killed. It is a deterministic state machine in which time is data; processes are not its business.
//
// An environment of a function, which is a process, asks for its next invocation and answers it; package awssim has the
// runtime API for that. Invocations come from EventBridge (asynchronous: up to two more attempts, after one and two
// minutes, then the dead-letter queue) and from event source mappings, which take batches of messages from a queue and
// delete what was done. Who starts the processes learns from [Model.InitialShare] which are needed and from
// [Model.IsKilled] which are to go.
//
// model.go has functions, mappings and what invokes them; runtime.go what an environment does.
package lambda
