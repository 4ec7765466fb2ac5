// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"cmp"
	"container/heap"
	"time"
)

// Class is the class of work, which decides its priority. A later class comes first.
type Class int

// The classes of work.
const (
	// Read is a read without a known change.
	Read Class = iota
	// Update changes an interface that works.
	Update
	// Removal detaches and deletes interfaces.
	Removal
	// Move moves an address to the node of the pod that has it.
	Move
	// Attach gives a node an interface that it waits for.
	Attach
)

// String returns the name of the class, which is also a value of a metric's label.
func (c Class) String() string {
	return [...]string{"read", "update", "removal", "move", "attach"}[c]
}

// Rank is the priority of work. All work of one class for one node has the same rank, so that one node is finished
// before the next one begins. With two interfaces per node, the median node is then ready after half of the time
// instead of three quarters.
type Rank struct {
	Class Class
	// Since is the creation time of the node. The newest comes first: if there is more work than EC2's limits allow,
	// the newest node is the likeliest to live until it is served.
	Since time.Time
	// Name orders nodes of the same age.
	Name string
}

// Compare returns a negative number if r comes before o.
func (r Rank) Compare(o Rank) int {
	return cmp.Or(cmp.Compare(o.Class, r.Class), o.Since.Compare(r.Since), cmp.Compare(r.Name, o.Name))
}

// StarvationGuard is the interval of turns at which the oldest item is next, regardless of its rank, so that each item
// is served eventually. During overload each of these turns delays an item that would have been on time: with an
// interval of 16, in a fleet at EC2's limit, 6 % of the nodes were late for this reason alone.
const StarvationGuard = 64

// PriorityQueue is a queue of values, best rank first; values of one rank are in their order of arrival. The zero value
// is an empty queue.
type PriorityQueue[T any] struct {
	items  items[T]
	came   uint64
	served uint64
}

// Item is an entry of a queue.
type Item[T any] struct {
	Rank  Rank
	Value T
	came  uint64
	index int
}

// Len returns the number of items.
func (q *PriorityQueue[T]) Len() int { return len(q.items) }

// Push adds a value.
func (q *PriorityQueue[T]) Push(rank Rank, value T) *Item[T] {
	q.came++
	p := &Item[T]{Rank: rank, Value: value, came: q.came}
	heap.Push(&q.items, p)
	return p
}

// Remove removes an item. It does nothing if the item is no longer in the queue.
func (q *PriorityQueue[T]) Remove(p *Item[T]) {
	if p.index >= 0 {
		heap.Remove(&q.items, p.index)
	}
}

// Move gives an item of the queue another rank.
func (q *PriorityQueue[T]) Move(p *Item[T], rank Rank) {
	p.Rank = rank
	heap.Fix(&q.items, p.index)
}

// Pop removes the next item and returns its value. The queue must not be empty.
func (q *PriorityQueue[T]) Pop() T {
	q.served++
	next := q.items[0]
	if q.served%StarvationGuard == 0 {
		for _, p := range q.items {
			if p.came < next.came {
				next = p
			}
		}
	}
	q.Remove(next)
	return next.Value
}

// items is the heap of a queue.
type items[T any] []*Item[T]

// Len is part of [heap.Interface].
func (s items[T]) Len() int { return len(s) }

// Less is part of [heap.Interface].
func (s items[T]) Less(i, j int) bool {
	return cmp.Or(s[i].Rank.Compare(s[j].Rank), cmp.Compare(s[i].came, s[j].came)) < 0
}

// Swap is part of [heap.Interface].
func (s items[T]) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = i, j
}

// Push is part of [heap.Interface].
func (s *items[T]) Push(x any) {
	p := x.(*Item[T])
	p.index = len(*s)
	*s = append(*s, p)
}

// Pop is part of [heap.Interface].
func (s *items[T]) Pop() any {
	last := len(*s) - 1
	p := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	p.index = -1
	return p
}
