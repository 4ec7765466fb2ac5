// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package virtual runs scenarios in virtual time: the whole controller in a testing/synctest bubble, with an API server
// and an EC2 in memory. An hour takes seconds, and computation takes no virtual time. It therefore measures the effect
// of EC2's limits and of the controller's decisions, and not the machine.
//
// The files: run.go is the process with the bubble, stage.go the world in it, and each other file one kind of scenario.
package virtual
