// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package assets

// What the external tests need of the progress display.
type Meter = meter

var NewMeter = newMeter

func (m *meter) Enter(phase string) { m.enter(phase) }
func (m *meter) Compile(total int)  { m.compile(total) }
func (m *meter) Compiled()          { m.compiled() }
func (m *meter) Close()             { m.close() }
