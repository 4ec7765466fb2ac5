// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"container/heap"
	"time"
)

// event is something that the model will do by itself.
type event struct {
	at       time.Time
	sequence uint64 // of two events at one time the one planned first comes first
	do       func()
}

// eventQueue is a heap, the next event first.
type eventQueue []event

func (q eventQueue) Len() int { return len(q) }

func (q eventQueue) Less(i, j int) bool {
	if !q[i].at.Equal(q[j].at) {
		return q[i].at.Before(q[j].at)
	}
	return q[i].sequence < q[j].sequence
}

func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push is part of heap.Interface.
func (q *eventQueue) Push(x any) {
	if e, ok := x.(event); ok {
		*q = append(*q, e)
	}
}

// Pop is part of heap.Interface.
func (q *eventQueue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = event{}
	*q = (*q)[:last]
	return e
}

// at plans an event. Planned for now or earlier, it happens at once.
func (m *Model) at(due time.Time, do func()) {
	if !due.After(m.now) {
		do()
		return
	}
	m.sequence++
	heap.Push(&m.due, event{at: due, sequence: m.sequence, do: do})
}

// after plans an event for when a change of the given latency is through.
func (m *Model) after(l Latency, do func()) {
	m.at(m.now.Add(l.draw(m.random)), do)
}

// NextDue returns the time of the next change that the model will make by itself, and false if there is none:
// a step driver sleeps until then.
func (m *Model) NextDue() (time.Time, bool) {
	if len(m.due) == 0 {
		return time.Time{}, false
	}
	return m.due[0].at, true
}

// Advance lets everything happen that is due by now, in order, each change at its own time.
// Every operation does this first. Time never goes backwards: an earlier now counts as the latest seen.
func (m *Model) Advance(now time.Time) {
	for len(m.due) > 0 && !m.due[0].at.After(now) {
		m.now = m.due[0].at
		e, ok := heap.Pop(&m.due).(event)
		if ok {
			e.do()
		}
	}
	if now.After(m.now) {
		m.now = now
	}
	m.forget()
}

// expiry is a time at which something may be forgotten. Forgetting changes no answer, so that it is no event.
type expiry struct {
	at     time.Time
	forget func()
}

// forget drops what has expired. All expiries in one queue are planned with the same delay, so that the queue is sorted.
func (m *Model) forget() {
	for _, queue := range []*[]expiry{&m.tombstones, &m.tokenExpiries} {
		for len(*queue) > 0 && !(*queue)[0].at.After(m.now) {
			(*queue)[0].forget()
			*queue = (*queue)[1:]
		}
	}
}
