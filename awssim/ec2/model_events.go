// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import "time"

// now is the time of what is happening.
func (m *Model) now() time.Time { return m.timeline.Now() }

// at plans an event. Planned for now or earlier, it happens at once.
func (m *Model) at(due time.Time, do func()) { m.timeline.At(due, do) }

// after plans an event for when a change of the given latency is through.
func (m *Model) after(l Latency, do func()) { m.at(m.now().Add(l.Draw(m.random)), do) }

// NextDue returns the time of the next change that the model will make by itself, and false if there is none:
// a step driver sleeps until then.
func (m *Model) NextDue() (time.Time, bool) { return m.timeline.NextDue() }

// Advance lets everything happen that is due by now, in order, each change at its own time.
// Every operation does this first. Time never goes backwards: an earlier now counts as the latest seen.
func (m *Model) Advance(now time.Time) {
	m.timeline.Advance(now)
	m.forget()
}

// expiry is a time at which something may be forgotten. Forgetting changes no answer, so that it is no event.
type expiry struct {
	at     time.Time
	forget func()
}

// forget drops what has expired. All expiries in one queue are planned with the same delay, so that the queue is
// sorted.
func (m *Model) forget() {
	for _, queue := range []*[]expiry{&m.tombstones, &m.tokenExpiries} {
		for len(*queue) > 0 && !(*queue)[0].at.After(m.now()) {
			(*queue)[0].forget()
			*queue = (*queue)[1:]
		}
	}
}

// Watch calls back whenever an instance has come into another state, until the model ends. The callback may read the
// model; what it wants to change it plans with [timeline.Timeline.Soon].
func (m *Model) Watch(changed func(*Instance)) { m.watchers = append(m.watchers, changed) }

func (m *Model) tell(before, after *Instance) {
	if after == nil || before != nil && before.State.Name == after.State.Name {
		return
	}
	for _, changed := range m.watchers {
		changed(after)
	}
}
