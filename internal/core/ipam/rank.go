// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

// Rank returns how many of those that wait for an address of a subnet come before self, in the order of their names.
// Self takes the free address at that index, counted from zero. An interface that gets its address leaves the queue,
// and its address leaves the free ones: the choices of all others stay the same, and no two are equal.
func Rank(waiting []string, self string) int {
	before := map[string]bool{}
	for _, w := range waiting {
		if w < self {
			before[w] = true
		}
	}
	return len(before)
}
