// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package volatile

import (
	"maps"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// Deferrals are the nodes with a write that waits for more changes, and when the wait began. After a restart the delay
// begins again, so the write is late by at most one more delay.
type Deferrals struct {
	since map[string]time.Time
}

// Due returns when the deferred write for a node must be made. The delay counts from the first call since
// [Deferrals.End].
func (d *Deferrals) Due(node string, delay time.Duration, now time.Time) time.Time {
	since, deferred := d.since[node]
	if !deferred {
		if d.since == nil {
			d.since = map[string]time.Time{}
		}
		since = now
		d.since[node] = now
	}
	return since.Add(delay)
}

// End records that no write for a node is deferred.
func (d *Deferrals) End(node string) { delete(d.since, node) }

// AttachLatency measures how long nodes wait for their interfaces. After a restart it does not measure the interfaces
// that a node already waits for.
type AttachLatency struct {
	since map[string]map[string]map[identity.Key]time.Time
}

// Record takes the members of an instance's plan, and returns how long the node waited for each interface that is
// attached in this plan and was not in the previous one. It excludes time in which a person must act, and interfaces
// that are already attached in the first plan of the instance.
func (l *AttachLatency) Record(node, instanceID string, members []plan.Member, now time.Time) []time.Duration {
	before, after := l.since[node][instanceID], map[identity.Key]time.Time{}
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
	if len(after) == 0 {
		removeEntry(l.since, node, instanceID)
	} else {
		entry(&l.since, node)[instanceID] = after
	}
	return ended
}

// Keep drops all instances of a node except the given ones.
func (l *AttachLatency) Keep(node string, instances []string) {
	maps.DeleteFunc(l.since[node], func(id string, _ map[identity.Key]time.Time) bool {
		return !slices.Contains(instances, id)
	})
	if len(l.since[node]) == 0 {
		delete(l.since, node)
	}
}
