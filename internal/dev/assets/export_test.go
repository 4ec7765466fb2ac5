// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"testing"
	"time"
)

// Parts of the progress display for the external tests.
type Meter = meter

var NewMeter = newMeter

func (m *meter) Enter(phase string) { m.enter(phase) }
func (m *meter) Compile(total int)  { m.compile(total) }
func (m *meter) Compiled()          { m.compiled() }
func (m *meter) Close()             { m.close() }

// PrebuiltVersion is the release that Dir looks for in the index.
func PrebuiltVersion() string { return prebuiltVersion.String() }

// SetPatience makes a test wait for less time than a user does.
func SetPatience(t *testing.T, d time.Duration) {
	before := patience
	patience = d
	t.Cleanup(func() { patience = before })
}
