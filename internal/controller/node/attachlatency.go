// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// attachLatency remember since when instances lack interfaces that they are to have, by the names of their nodes.
type attachLatency struct {
	mu    sync.Mutex
	since map[string]map[string]map[identity.Key]time.Time
}

// note takes a plan of an instance in, and returns how long each interface was waited for that the plan finds attached and
// the one before did not. What the first plan finds attached was waited for under another controller, or not at all; and
// the time in which a person had to do something is not ours.
func (w *attachLatency) note(node, instanceID string, members []plan.Member, now time.Time) []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.since[node][instanceID]
	after := map[identity.Key]time.Time{}
	var ended []time.Duration
	for _, m := range members {
		since, waited := before[m.Key]
		switch {
		case !m.Desired:
		case m.Phase == plan.Attached:
			if waited {
				ended = append(ended, now.Sub(since))
			}
		case m.Why.Reason.Transient():
			if !waited {
				since = now
			}
			after[m.Key] = since
		}
	}
	w.set(node, instanceID, after)
	return ended
}

func (w *attachLatency) set(node, instanceID string, since map[identity.Key]time.Time) {
	if len(since) == 0 {
		delete(w.since[node], instanceID)
		return
	}
	if w.since == nil {
		w.since = map[string]map[string]map[identity.Key]time.Time{}
	}
	if w.since[node] == nil {
		w.since[node] = map[string]map[identity.Key]time.Time{}
	}
	w.since[node][instanceID] = since
}

// keep drops what is remembered of instances that the node has nothing to do with any more.
func (w *attachLatency) keep(node string, instances []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.since[node], func(id string, _ map[identity.Key]time.Time) bool { return !slices.Contains(instances, id) })
	if len(w.since[node]) == 0 {
		delete(w.since, node)
	}
}
