// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"cmp"
	"container/heap"
	"time"
)

// Class is a sort of work. A later class comes first.
type Class int

// The classes of work.
const (
	// Read is reading what is not known to have changed.
	Read Class = iota
	// Update is changing what differs on an interface that works.
	Update
	// Removal is detaching and deleting.
	Removal
	// Attach is giving a node what it waits for.
	Attach
)

// String names the class.
func (c Class) String() string {
	return [...]string{"read", "update", "removal", "attach"}[c]
}

// Rank says who comes first. It is the same for all the work of one node, so that a node is finished before the next is
// begun: with two interfaces each, half the nodes then are ready at half the time instead of three quarters of it.
type Rank struct {
	Class Class
	// Since is since when the node exists. The newest comes first: it is the likeliest to live when there is more to do
	// than can be done.
	Since time.Time
	// Name decides between nodes of one age.
	Name string
}

// Compare returns a negative number if r comes before o.
func (r Rank) Compare(o Rank) int {
	return cmp.Or(cmp.Compare(o.Class, r.Class), o.Since.Compare(r.Since), cmp.Compare(r.Name, o.Name))
}

// StarvationGuard is how often it is the turn of whoever has waited longest, whatever the rank, so that nobody waits for ever.
// While more comes than can be served, its turn makes one late that would not have been: with 16, a fleet that EC2's limits
// just suffice for had 6 % of its nodes late for that alone.
const StarvationGuard = 64

// PriorityQueue is a line of values that wait, best rank first, and of one rank in the order in which they came. The zero value
// is an empty line.
type PriorityQueue[T any] struct {
	places places[T]
	came   uint64
	served uint64
}

// Item is a place in a line.
type Item[T any] struct {
	Rank  Rank
	Value T
	came  uint64
	index int
}

// Len returns how many wait.
func (l *PriorityQueue[T]) Len() int { return len(l.places) }

// Push adds a value.
func (l *PriorityQueue[T]) Push(rank Rank, value T) *Item[T] {
	l.came++
	p := &Item[T]{Rank: rank, Value: value, came: l.came}
	heap.Push(&l.places, p)
	return p
}

// Remove removes a place; one that is no longer in the line is left alone.
func (l *PriorityQueue[T]) Remove(p *Item[T]) {
	if p.index >= 0 {
		heap.Remove(&l.places, p.index)
	}
}

// Move gives a place in the line another rank.
func (l *PriorityQueue[T]) Move(p *Item[T], rank Rank) {
	p.Rank = rank
	heap.Fix(&l.places, p.index)
}

// Pop removes and returns whose turn it is; the line must not be empty.
func (l *PriorityQueue[T]) Pop() T {
	l.served++
	next := l.places[0]
	if l.served%StarvationGuard == 0 {
		for _, p := range l.places {
			if p.came < next.came {
				next = p
			}
		}
	}
	l.Remove(next)
	return next.Value
}

// places is the heap of a line.
type places[T any] []*Item[T]

// Len is part of [heap.Interface].
func (s places[T]) Len() int { return len(s) }

// Less is part of [heap.Interface].
func (s places[T]) Less(i, j int) bool {
	return cmp.Or(s[i].Rank.Compare(s[j].Rank), cmp.Compare(s[i].came, s[j].came)) < 0
}

// Swap is part of [heap.Interface].
func (s places[T]) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = i, j
}

// Push is part of [heap.Interface].
func (s *places[T]) Push(x any) {
	p := x.(*Item[T])
	p.index = len(*s)
	*s = append(*s, p)
}

// Pop is part of [heap.Interface].
func (s *places[T]) Pop() any {
	last := len(*s) - 1
	p := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	p.index = -1
	return p
}
