// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"maps"
	"slices"
	"time"
)

// queueName names a work queue of a process.
type queueName int

const (
	nodeQueue queueName = iota
	instanceQueue
	nodeENIQueue
	reservationQueue
	addressQueue
	queues
)

func (q queueName) String() string {
	return [queues]string{"node", "instance", "NodeENI", "SubnetReservation", "FloatingAddress"}[q]
}

// The rate limit of the product's queues (internal/controller, Backoff).
const (
	firstBackoff = 200 * time.Millisecond
	lastBackoff  = time.Minute
)

// queue is a work queue like that of client-go: it has each key once, returns it not before its time, and never twice
// at the same time.
type queue struct {
	due      map[string]time.Time
	failures map[string]int
	busy     map[string]bool
}

func newQueue() *queue {
	return &queue{due: map[string]time.Time{}, failures: map[string]int{}, busy: map[string]bool{}}
}

// add schedules a key for a time, unless it is already scheduled for an earlier one.
func (q *queue) add(key string, at time.Time) {
	if due, there := q.due[key]; !there || at.Before(due) {
		q.due[key] = at
	}
}

// ready returns the keys that can be taken.
func (q *queue) ready(now time.Time) []string {
	var keys []string
	for key, due := range q.due {
		if !due.After(now) && !q.busy[key] {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// next returns when the next key can be taken.
func (q *queue) next() (at time.Time, any bool) {
	for _, key := range slices.Sorted(maps.Keys(q.due)) {
		if !q.busy[key] && (!any || q.due[key].Before(at)) {
			at, any = q.due[key], true
		}
	}
	return at, any
}

func (q *queue) take(key string) {
	delete(q.due, key)
	q.busy[key] = true
}

// done schedules the key again if its reconciliation failed or requested that.
func (q *queue) done(key string, now time.Time, after time.Duration, err error) {
	delete(q.busy, key)
	if err != nil {
		q.add(key, now.Add(min(firstBackoff<<min(q.failures[key], 20), lastBackoff)))
		q.failures[key]++
		return
	}
	delete(q.failures, key)
	if after > 0 {
		q.add(key, now.Add(after))
	}
}
