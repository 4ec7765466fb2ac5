// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package timeline has the planned events of a simulation. The models of all services share one timeline, so that their
// changes happen in the order of their times, no matter what service is called.
package timeline

import (
	"container/heap"
	"time"
)

// Timeline has a time and the events after it. It is not safe for concurrent use.
type Timeline struct {
	now      time.Time
	due      queue
	sequence uint64
	events   uint64 // that have happened
	running  bool   // Advance
}

// New returns a timeline that begins at a time.
func New(now time.Time) *Timeline { return &Timeline{now: now} }

// Now returns the time: that of the present event, or the latest argument of Advance.
func (t *Timeline) Now() time.Time { return t.now }

// At plans an event. One for now or earlier happens at once.
func (t *Timeline) At(due time.Time, do func()) {
	if !due.After(t.now) {
		do()
		return
	}
	t.plan(due, do)
}

// Soon plans an event for now, after the present one.
func (t *Timeline) Soon(do func()) { t.plan(t.now, do) }

func (t *Timeline) plan(due time.Time, do func()) {
	t.sequence++
	heap.Push(&t.due, event{at: due, sequence: t.sequence, do: do})
}

// NextDue returns the time of the next event, and false if there is none.
func (t *Timeline) NextDue() (time.Time, bool) {
	if len(t.due) == 0 {
		return time.Time{}, false
	}
	return t.due[0].at, true
}

// Happened returns the number of planned events that have happened, so that a caller of Advance can tell whether any
// has.
func (t *Timeline) Happened() uint64 { return t.events }

// Advance executes all events that are due by now, in order, each at its own time. Time never goes backwards: an
// earlier now counts as the latest one. During an event it does nothing: the outer Advance continues after the event.
func (t *Timeline) Advance(now time.Time) {
	if t.running {
		return
	}
	t.running = true
	defer func() { t.running = false }()
	for len(t.due) > 0 && !t.due[0].at.After(now) {
		e, ok := heap.Pop(&t.due).(event)
		if !ok {
			return
		}
		if e.at.After(t.now) {
			t.now = e.at
		}
		t.events++
		e.do()
	}
	if now.After(t.now) {
		t.now = now
	}
}

// event is a planned event.
type event struct {
	at       time.Time
	sequence uint64 // orders events of the same time
	do       func()
}

// queue is a heap, the next event first.
type queue []event

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool {
	if !q[i].at.Equal(q[j].at) {
		return q[i].at.Before(q[j].at)
	}
	return q[i].sequence < q[j].sequence
}

func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push is part of heap.Interface.
func (q *queue) Push(x any) {
	if e, ok := x.(event); ok {
		*q = append(*q, e)
	}
}

// Pop is part of heap.Interface.
func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = event{}
	*q = (*q)[:last]
	return e
}
