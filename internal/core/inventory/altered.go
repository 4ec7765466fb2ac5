// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"time"

	"github.com/multieni/multieni/internal/core/eni"
)

// RecordChange records what an accepted call of ours changed of an interface as it is last known, as [Inventory.RecordCall] does. Nothing
// is recorded of one that is not known.
func (v *Inventory) RecordChange(now time.Time, id string, change func(eni.Interface) eni.Interface, effect Effect) {
	if i, known := v.Interface(id); known {
		v.RecordCall(now, change(i), effect)
	}
}
