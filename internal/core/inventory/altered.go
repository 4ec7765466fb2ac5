// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"time"

	"github.com/multieni/multieni/internal/core/eni"
)

// RecordChange applies the change of an accepted call to the last known interface, and records it like
// [Inventory.RecordCall]. It does nothing for an unknown interface.
func (v *Inventory) RecordChange(now time.Time, id string, change func(eni.Interface) eni.Interface, effect Effect) {
	if i, known := v.Interface(id); known {
		v.RecordCall(now, change(i), effect)
	}
}
