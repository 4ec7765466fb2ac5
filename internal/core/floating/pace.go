// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package floating

import (
	"maps"
	"time"
)

// Pace bounds how often the addresses on an instance change. It counts per instance and not per interface, because all
// interfaces of an instance share its reads. The zero value is ready for use.
type Pace struct {
	begun  map[string]time.Time
	pruned time.Time
}

// Take reports whether addresses on an instance may change now, and counts the change. Otherwise it returns when.
func (p *Pace) Take(instanceID string, now time.Time) (until time.Time, taken bool) {
	if until := p.begun[instanceID].Add(MoveInterval); now.Before(until) {
		return until, false
	}
	if now.Sub(p.pruned) >= time.Minute {
		p.pruned = now
		maps.DeleteFunc(p.begun, func(_ string, at time.Time) bool { return now.Sub(at) >= MoveInterval })
	}
	if p.begun == nil {
		p.begun = map[string]time.Time{}
	}
	p.begun[instanceID] = now
	return time.Time{}, true
}

// GiveBack ends the interval of a change that was not made.
func (p *Pace) GiveBack(instanceID string) { delete(p.begun, instanceID) }
