// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package era_test

import (
	"testing"
	"time"

	"github.com/multieni/multieni/internal/core/era"
	"github.com/multieni/multieni/internal/core/inventory"
)

// TestAnEraBeginsWithTheEffectsOfTheOneBefore asks at several times after a process got the lease.
func TestAnEraBeginsWithTheEffectsOfTheOneBefore(t *testing.T) {
	since := time.Unix(1_800_000_000, 0)
	const instant = time.Nanosecond
	for name, tc := range map[string]struct {
		era              era.Era
		after            time.Duration
		settled, visible bool
	}{
		"when it begins":            {era: era.Era{Since: since}},
		"before it is settled":      {era: era.Era{Since: since}, after: inventory.StaleReadWindow - instant},
		"when it is settled":        {era: era.Era{Since: since}, after: inventory.StaleReadWindow, settled: true},
		"before all is visible":     {era: era.Era{Since: since}, after: inventory.VisibilityWindow - instant, settled: true},
		"when all is visible":       {era: era.Era{Since: since}, after: inventory.VisibilityWindow, settled: true, visible: true},
		"that of a sole process is": {settled: true, visible: true},
	} {
		t.Run(name, func(t *testing.T) {
			now := since.Add(tc.after)
			settled, visible := !now.Before(tc.era.SettledAt()), !now.Before(tc.era.VisibleAt())
			if settled != tc.settled || visible != tc.visible {
				t.Errorf("settled %t and visible %t, want %t and %t", settled, visible, tc.settled, tc.visible)
			}
		})
	}
}
