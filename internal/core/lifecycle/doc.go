// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle decides what to do when an instance is born or ends: the join-time way of giving nodes their
// network interfaces.
//
// [Decode] reads the many shapes in which AWS tells of it: Auto Scaling hooks and EC2 state changes, straight from
// EventBridge, out of a queue, through a topic. An event is a hint and no more: it can come late, twice, in the wrong
// order, never, or from somebody who made it up. So it only ever names an instance to look at; what is done follows
// from what EC2 says of it. [Config] is what the operator wants done.
package lifecycle
