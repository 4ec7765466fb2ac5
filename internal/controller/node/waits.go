// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"sync"
	"time"

	"github.com/multieni/multieni/ownership"
	"github.com/multieni/multieni/plan"
)

// waits remember since when instances lack interfaces that they are to have.
type waits struct {
	mu    sync.Mutex
	since map[string]map[ownership.Key]time.Time
}

// note takes a plan of an instance in, and returns how long each interface was waited for that the plan finds attached and
// the one before did not. What the first plan finds attached was waited for under another controller, or not at all; and
// the time in which a person had to do something is not ours.
func (w *waits) note(instanceID string, members []plan.Member, now time.Time) []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.since[instanceID]
	var after map[ownership.Key]time.Time
	var ended []time.Duration
	for _, m := range members {
		since, waited := before[m.Key]
		switch {
		case !m.Wanted:
		case m.Phase == plan.Attached:
			if waited {
				ended = append(ended, now.Sub(since))
			}
		case m.Why.Reason.Passing():
			if !waited {
				since = now
			}
			if after == nil {
				after = map[ownership.Key]time.Time{}
			}
			after[m.Key] = since
		}
	}
	switch {
	case after != nil && w.since == nil:
		w.since = map[string]map[ownership.Key]time.Time{instanceID: after}
	case after != nil:
		w.since[instanceID] = after
	default:
		delete(w.since, instanceID)
	}
	return ended
}
