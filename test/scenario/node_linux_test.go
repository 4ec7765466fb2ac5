// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario_test

import "github.com/multieni/multieni/internal/cli/enibootstrap"

// nodePrograms are the programs that run only on nodes.
func nodePrograms() map[string]func() {
	return map[string]func(){"eni-bootstrap": program("eni-bootstrap", enibootstrap.New)}
}
