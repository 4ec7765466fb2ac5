// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ipam finds the lowest free addresses of a subnet.
//
// Who keeps the upper part of a subnet for pods wants interfaces to fill it from the start. EC2 picks at random, so the
// addresses have to be named in the call, and two that name the same one at the same time collide. There are two ways
// not to: within one process, [Reservations] promises each address to one holder; between processes that cannot speak with
// each other, everybody who waits for an address takes the free one at its own place in the queue ([Turn]), which all
// of them compute alike from what EC2 shows. Whoever loses all the same looks again and has a new turn.
package ipam
