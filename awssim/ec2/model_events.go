// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import "time"

// now returns the time of the present event.
func (m *Model) now() time.Time { return m.timeline.Now() }

// at plans an event. One for now or earlier happens at once.
func (m *Model) at(due time.Time, do func()) { m.timeline.At(due, do) }

// after plans an event for the end of a change with the given latency.
func (m *Model) after(l Latency, do func()) { m.at(m.now().Add(l.Draw(m.random)), do) }

// NextDue returns the time of the next change that the model will make by itself, and false if there is none: a driver
// sleeps until then.
func (m *Model) NextDue() (time.Time, bool) { return m.timeline.NextDue() }

// Advance executes all changes that are due by now, in order, each at its own time. Every operation does this first.
// Time never goes backwards: an earlier now counts as the latest seen.
func (m *Model) Advance(now time.Time) {
	m.timeline.Advance(now)
	m.forget()
}

// expiry is a time from which a record may be dropped. This changes no answer, so it is not an event.
type expiry struct {
	at     time.Time
	forget func()
}

// forget drops expired records. All expiries in one queue have the same delay, so the queue is sorted.
func (m *Model) forget() {
	for _, queue := range []*[]expiry{&m.tombstones, &m.tokenExpiries} {
		for len(*queue) > 0 && !(*queue)[0].at.After(m.now()) {
			(*queue)[0].forget()
			*queue = (*queue)[1:]
		}
	}
}

// Watch calls back after each state change of an instance, until the model ends. The callback may read the model; it
// plans changes with [timeline.Timeline.Soon].
func (m *Model) Watch(changed func(*Instance)) { m.watchers = append(m.watchers, changed) }

func (m *Model) tell(before, after *Instance) {
	if after == nil || before != nil && before.State.Name == after.State.Name {
		return
	}
	for _, changed := range m.watchers {
		changed(after)
	}
}
