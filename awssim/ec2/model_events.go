// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"time"

	"github.com/multieni/multieni/awssim/timeline"
)

// now returns the time of the present event.
func (m *Model) now() time.Time { return m.timeline.Now() }

// eventKinds are the kinds of events that EC2 plans.
type eventKinds struct {
	settled    timeline.Kind[resource]   // a change becomes visible to all readers
	available  timeline.Kind[string]     // a pending interface
	attached   timeline.Kind[attachment] // an attaching interface
	left       timeline.Kind[leaving]    // a detaching interface
	running    timeline.Kind[string]     // a pending instance
	stopped    timeline.Kind[string]     // a stopping instance
	terminated timeline.Kind[string]     // an instance that is shutting down
	forgotten  timeline.Kind[string]     // a terminated instance
	warmed     timeline.Kind[string]     // an instance, by its VPC CNI
	fulfilled  timeline.Kind[string]     // a fleet that lacks instances
	changed    timeline.Kind[string]     // a fleet one of whose instances ended
	deleted    timeline.Kind[string]     // a fleet that was deleted long ago
}

// resource names a resource by its table.
type resource struct {
	Table string `json:"table"`
	ID    string `json:"id"`
}

// attachment names an attachment with its interface.
type attachment struct {
	NetworkInterfaceID string `json:"networkInterfaceId"`
	AttachmentID       string `json:"attachmentId"`
}

// leaving is a detachment.
type leaving struct {
	NetworkInterfaceID string     `json:"networkInterfaceId"`
	Attachment         Attachment `json:"attachment"`
	Force              bool       `json:"force"`
}

func (m *Model) defineEvents() {
	t := m.timeline
	m.events = eventKinds{
		settled: timeline.Define(t, "ec2.settled", func(r resource) {
			if table := m.tables[r.Table]; table != nil {
				table.settle(r.ID, m.now())
			}
		}),
		available: timeline.Define(t, "ec2.available", m.available),
		attached: timeline.Define(t, "ec2.attached", func(a attachment) {
			m.attached(a.NetworkInterfaceID, a.AttachmentID)
		}),
		left:       timeline.Define(t, "ec2.left", m.left),
		running:    timeline.Define(t, "ec2.running", m.enterRunning),
		stopped:    timeline.Define(t, "ec2.stopped", m.stopped),
		terminated: timeline.Define(t, "ec2.terminated", m.terminated),
		forgotten:  timeline.Define(t, "ec2.forgotten", func(id string) { m.putInstance(id, nil) }),
		warmed:     timeline.Define(t, "ec2.warmed", m.runCNI),
		fulfilled:  timeline.Define(t, "ec2.fulfilled", m.fulfil),
		changed:    timeline.Define(t, "ec2.changed", m.fleetChanged),
		deleted: timeline.Define(t, "ec2.deleted", func(id string) {
			m.burn(id)
			put(m, m.fleetsLike(id), id, nil)
		}),
	}
}

// after plans an event that a latency delays.
func after[D any](m *Model, l Latency, kind timeline.Kind[D], data D) {
	kind.After(l.Draw(m.random), data)
}

// NextDue returns the time of the next change that the model will make by itself, and false if there is none: a driver
// sleeps until then.
func (m *Model) NextDue() (time.Time, bool) { return m.timeline.NextDue() }

// Advance executes all changes that are due by now, in order, each at its own time. Every operation does this first.
// Time never goes backwards: an earlier now counts as the latest seen.
func (m *Model) Advance(now time.Time) {
	m.timeline.Advance(now)
	m.forget()
}

// tombstone is a deleted resource that late readers still see until a time.
type tombstone struct {
	At       time.Time `json:"at"`
	Resource resource  `json:"resource"`
}

// forget forgets deleted resources and old tokens. Their times are in the order in which they were added.
func (m *Model) forget() {
	for len(m.tombstones) > 0 && !m.tombstones[0].At.After(m.now()) {
		gone := m.tombstones[0].Resource
		if table := m.tables[gone.Table]; table != nil {
			table.remove(gone.ID)
		}
		m.tombstones = m.tombstones[1:]
	}
	for len(m.tokenExpiries) > 0 && !m.tokenExpiries[0].At.After(m.now()) {
		m.forgetToken(m.tokenExpiries[0])
		m.tokenExpiries = m.tokenExpiries[1:]
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
