// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import "github.com/multieni/multieni/internal/core/plan"

// AddFacts adds a fact about each interface to what the API server stores about it. The maps have interface IDs.
func AddFacts[T any](all map[string]plan.Stored, facts map[string]T, set func(*plan.Stored, T)) {
	for id, fact := range facts {
		i := all[id]
		set(&i, fact)
		all[id] = i
	}
}
