// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"

	"github.com/multieni/multieni/internal/core/identity"
)

// Eviction is the eviction of the pods that have addresses of an interface, so that it can be removed.
type Eviction struct {
	Member      identity.Member
	InterfaceID string
	// Pods are the pods, as NAMESPACE/NAME.
	Pods []string
	Why  string
	// Replaces is set if the interface is replaced.
	Replaces bool
}

func (e Eviction) String() string {
	return fmt.Sprintf("evict the pods %s, which use %s: %s", strings.Join(e.Pods, ", "), e.InterfaceID, e.Why)
}
