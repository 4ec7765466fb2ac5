// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ratelimit

// PrioritySemaphore lets a number of nodes in at a time; the others wait in line, without anybody having to wait with them.
// It is not safe for concurrent use.
type PrioritySemaphore struct {
	width  int
	inside map[string]bool
	line   PriorityQueue[string]
	places map[string]*Item[string]
}

// NewGate returns a gate through which as many nodes can be at a time as it is wide.
func NewGate(width int) *PrioritySemaphore {
	return &PrioritySemaphore{width: width, inside: map[string]bool{}, places: map[string]*Item[string]{}}
}

// TryAcquire asks for a node to be let in, and reports whether it is inside. If not, it stands in line by its rank, and a call
// of [PrioritySemaphore.Leave] will return its name.
func (g *PrioritySemaphore) TryAcquire(rank Rank) bool {
	name := rank.Name
	switch place, waits := g.places[name]; {
	case g.inside[name]:
		return true
	case waits:
		g.line.Move(place, rank)
		return false
	case len(g.inside) < g.width:
		g.inside[name] = true
		return true
	default:
		g.places[name] = g.line.Push(rank, name)
		return false
	}
}

// Holders reports whether a node is inside.
func (g *PrioritySemaphore) Holders(name string) bool { return g.inside[name] }

// Release says that a node that was inside, or was not, has nothing more to do there, and returns who is let in for it:
// they are inside from now on, and must be told.
func (g *PrioritySemaphore) Release(name string) (admitted []string) {
	delete(g.inside, name)
	for len(g.inside) < g.width && g.line.Len() > 0 {
		next := g.line.Pop()
		delete(g.places, next)
		g.inside[next] = true
		admitted = append(admitted, next)
	}
	return admitted
}

// Waiting returns how many stand in line.
func (g *PrioritySemaphore) Waiting() int { return g.line.Len() }
