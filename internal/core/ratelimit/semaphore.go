// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ratelimit

// PrioritySemaphore bounds the number of nodes that are worked on at a time. The others wait in a queue, without a
// goroutine for each. It is not safe for concurrent use.
type PrioritySemaphore struct {
	width   int
	holders map[string]bool
	queue   PriorityQueue[string]
	items   map[string]*Item[string]
}

// NewPrioritySemaphore returns a semaphore for a number of nodes.
func NewPrioritySemaphore(width int) *PrioritySemaphore {
	return &PrioritySemaphore{width: width, holders: map[string]bool{}, items: map[string]*Item[string]{}}
}

// TryAcquire reports whether a node holds the semaphore, and acquires it if possible. Otherwise the node waits in the
// queue by its rank, and a later [PrioritySemaphore.Release] returns its name.
func (s *PrioritySemaphore) TryAcquire(rank Rank) bool {
	name := rank.Name
	switch item, waits := s.items[name]; {
	case s.holders[name]:
		return true
	case waits:
		s.queue.Move(item, rank)
		return false
	case len(s.holders) < s.width:
		s.holders[name] = true
		return true
	default:
		s.items[name] = s.queue.Push(rank, name)
		return false
	}
}

// Holds reports whether a node holds the semaphore.
func (s *PrioritySemaphore) Holds(name string) bool { return s.holders[name] }

// Release releases the semaphore of a node, and returns the nodes that acquired it instead. The caller has to reconcile
// these. It does nothing for a node without the semaphore.
func (s *PrioritySemaphore) Release(name string) (admitted []string) {
	delete(s.holders, name)
	for len(s.holders) < s.width && s.queue.Len() > 0 {
		next := s.queue.Pop()
		delete(s.items, next)
		s.holders[next] = true
		admitted = append(admitted, next)
	}
	return admitted
}

// Waiting returns the number of nodes that wait.
func (s *PrioritySemaphore) Waiting() int { return s.queue.Len() }
