// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package timeline has the planned events of a simulation. The models of all services share one timeline, so that their
// changes happen in the order of their times, no matter what service is called.
//
// A planned event is data: its kind, and a value of the kind's type. [Define] says what the events of a kind do. A
// timeline can therefore be saved as JSON, and loaded where the same kinds are defined.
package timeline

import (
	"bytes"
	"cmp"
	"container/heap"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Timeline has a time and the events after it. It is not safe for concurrent use.
type Timeline struct {
	now      time.Time
	due      queue
	sequence uint64
	events   uint64 // that have happened
	running  bool   // Advance
	kinds    map[string]decoder
}

// decoder returns a planned event's data from JSON, and what the event does.
type decoder func(json.RawMessage) (data any, do func(), err error)

// New returns a timeline that begins at a time.
func New(now time.Time) *Timeline { return &Timeline{now: now, kinds: map[string]decoder{}} }

// Kind is a kind of events, whose data are of type D: a type that encoding/json writes and reads without a loss.
type Kind[D any] struct {
	timeline *Timeline
	name     string
	do       func(D)
}

// Define adds a kind of events to a timeline. Saved timelines refer to it by its name. It panics if the timeline has a
// kind of that name.
func Define[D any](t *Timeline, name string, do func(D)) Kind[D] {
	if t.kinds[name] != nil {
		panic(fmt.Sprintf("timeline: the kind of events %q is defined twice", name))
	}
	t.kinds[name] = func(text json.RawMessage) (any, func(), error) {
		var data D
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&data); err != nil {
			return nil, nil, err
		}
		return data, func() { do(data) }, nil
	}
	return Kind[D]{t, name, do}
}

// At plans an event. One for now or earlier happens at once.
func (k Kind[D]) At(due time.Time, data D) {
	if !due.After(k.timeline.now) {
		k.do(data)
		return
	}
	k.plan(due, data)
}

// After plans an event for a time from now. Without any wait it happens at once.
func (k Kind[D]) After(wait time.Duration, data D) { k.At(k.timeline.now.Add(wait), data) }

// Soon plans an event for now, after the present one.
func (k Kind[D]) Soon(data D) { k.plan(k.timeline.now, data) }

func (k Kind[D]) plan(due time.Time, data D) {
	t := k.timeline
	t.sequence++
	heap.Push(&t.due, event{at: due, sequence: t.sequence, kind: k.name, data: data, do: func() { k.do(data) }})
}

// Now returns the time: that of the present event, or the latest argument of Advance.
func (t *Timeline) Now() time.Time { return t.now }

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
	kind     string
	data     any
	do       func()
}

// Saved is a timeline as it is saved.
type Saved struct {
	Now time.Time `json:"now"`
	// Planned has the next event first.
	Planned  []SavedEvent `json:"planned"`
	Sequence uint64       `json:"sequence"`
	Events   uint64       `json:"events"`
}

// SavedEvent is a planned event as it is saved.
type SavedEvent struct {
	At       time.Time       `json:"at"`
	Sequence uint64          `json:"sequence"`
	Kind     string          `json:"kind"`
	Data     json.RawMessage `json:"data"`
}

// Save returns the timeline as it is saved.
func (t *Timeline) Save() (Saved, error) {
	saved := Saved{Now: t.now.UTC(), Planned: []SavedEvent{}, Sequence: t.sequence, Events: t.events}
	for _, e := range t.due {
		data, err := json.Marshal(e.data)
		if err != nil {
			return Saved{}, fmt.Errorf("save an event of kind %s: %w", e.kind, err)
		}
		saved.Planned = append(saved.Planned, SavedEvent{At: e.at.UTC(), Sequence: e.sequence, Kind: e.kind, Data: data})
	}
	slices.SortFunc(saved.Planned, func(a, b SavedEvent) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Sequence, b.Sequence))
	})
	return saved, nil
}

// Load replaces the time and the events of a timeline with saved ones. All kinds must be defined before.
func (t *Timeline) Load(saved Saved) error {
	due := make(queue, 0, len(saved.Planned))
	for _, s := range saved.Planned {
		decode := t.kinds[s.Kind]
		if decode == nil {
			return fmt.Errorf("planned event %d: there is no kind of events %q", s.Sequence, s.Kind)
		}
		data, do, err := decode(s.Data)
		if err != nil {
			return fmt.Errorf("planned event %d of kind %s: %w", s.Sequence, s.Kind, err)
		}
		due = append(due, event{at: s.At, sequence: s.Sequence, kind: s.Kind, data: data, do: do})
	}
	heap.Init(&due)
	t.now, t.due, t.sequence, t.events = saved.Now, due, saved.Sequence, saved.Events
	return nil
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
