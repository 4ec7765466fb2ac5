// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package era says how long a leader must expect effects of the processes that led before it.
//
// A process begins no call after its lease has ended, but a call that it began may take effect later, and a read may
// show the effect later still. The next leader knows nothing of such a call. It needs only one time to be safe: when it
// got the lease, by its own clock.
package era

import (
	"time"

	"github.com/multieni/multieni/internal/core/inventory"
)

// Era is the time for which one process leads. The zero Era belongs to a process that had no predecessor.
type Era struct {
	// Since is when the process got the lease, by its own clock. Every earlier leader began its last call before that.
	Since time.Time
}

// SettledAt returns the time from which a read of EC2 shows all changes of earlier leaders to interfaces that it
// returns: a call takes effect within the window and reads show that, or it never does.
func (e Era) SettledAt() time.Time { return e.Since.Add(inventory.StaleReadWindow) }

// VisibleAt returns the time from which EC2 returns every interface that earlier leaders created.
func (e Era) VisibleAt() time.Time { return e.Since.Add(inventory.VisibilityWindow) }
