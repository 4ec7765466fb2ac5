// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package model

// protocol is the protocol, whole or without one of its rules.
type protocol struct{ without Rule }

func (p protocol) keeps(r Rule) bool { return p.without != r }

// set is a set of numbers from 1 to 7.
type set uint8

// setOf returns the set of a number, or an empty one for 0.
func setOf(n uint8) set {
	if n == 0 {
		return 0
	}
	return 1 << n
}

func (s set) has(n uint8) bool { return s&setOf(n) != 0 }
