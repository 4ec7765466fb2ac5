// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario_test

import (
	"github.com/multieni/multieni/internal/cli/enibootstrap"
	"github.com/multieni/multieni/test/inputs"
)

// nodePrograms are the programs that run only on nodes.
func nodePrograms() map[string]func() {
	return map[string]func(){"eni-bootstrap": inputs.Self("eni-bootstrap", enibootstrap.New)}
}
