// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package virtual runs scenarios in virtual time: the whole controller in a testing/synctest bubble, beside an API server
// and an EC2 in memory. An hour takes seconds, and what is computed takes no time at all; so it measures what EC2's limits
// and the controller's decisions make of a situation, and nothing of the machine it runs on.
//
// The reading tour: run.go is the process that has the bubble, stage.go what is on it, and each other file one kind of
// scenario.
package virtual
