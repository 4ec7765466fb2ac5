// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

var (
	count  int
	byName = map[string]int{}
	config struct{ size int }
	fixed  = []int{1}
)

func use(name string) int {
	count++
	byName[name] = count
	config.size = 1
	fixed := append(fixed, 2)
	fixed[0] = 3
	other := &config
	return other.size + fixed[0]
}
