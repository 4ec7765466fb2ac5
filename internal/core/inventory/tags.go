// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// made returns the member that an interface was created for; the zero value for an unknown interface.
func (v *Inventory) made(id string) identity.Member {
	if e, known := v.entries[id]; known {
		return e.Member
	}
	return identity.Member{}
}

// dropForeign removes an interface whose tags, by a read that counts, no longer name this cluster. Their tags were
// changed by hand, and multieni never touches foreign interfaces.
func (v *Inventory) dropForeign(begun time.Time, seen eni.Interface) []identity.Member {
	e, known := v.entries[seen.ID]
	if !known || !e.accepts(begun, seen) {
		return nil
	}
	v.drop(begun, e, true)
	return []identity.Member{e.Member}
}
