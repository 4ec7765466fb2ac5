// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

// Rank returns how many of the interfaces that wait for an address of a subnet come before self, in the order of their
// names. Self takes the free address at that index, counted from zero. When an interface gets its address, it leaves
// the queue, and the address is no longer free. The choices of all others then stay the same and distinct.
func Rank(waiting []string, self string) int {
	before := map[string]bool{}
	for _, w := range waiting {
		if w < self {
			before[w] = true
		}
	}
	return len(before)
}
