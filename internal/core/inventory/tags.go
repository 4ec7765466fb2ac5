// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// made returns the member that an interface is known to be made for; the zero value of one that is not known.
func (v *Inventory) made(id string) identity.Member {
	if e, known := v.entries[id]; known {
		return e.Member
	}
	return identity.Member{}
}

// dropForeign lets go of an interface that a believable reading shows with tags that do not make it ours: somebody changed
// them, and what is not ours is not touched.
func (v *Inventory) dropForeign(begun time.Time, seen eni.Interface) []identity.Member {
	e, known := v.entries[seen.ID]
	if !known || !e.accepts(begun, seen) {
		return nil
	}
	v.drop(begun, e, true)
	return []identity.Member{e.Member}
}
