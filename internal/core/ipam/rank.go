// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

// Rank returns how many of those that wait for an address of a subnet come before self, in the order of their names.
// Self takes the free address of that number, counted from zero. As others are served, they leave the queue and their
// addresses leave the free ones: everybody's choice stays the same, and no two have the same.
func Rank(waiting []string, self string) int {
	before := map[string]bool{}
	for _, w := range waiting {
		if w < self {
			before[w] = true
		}
	}
	return len(before)
}
