// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package pace

// Gate lets a number of nodes in at a time; the others wait in line, without anybody having to wait with them.
// It is not safe for concurrent use.
type Gate struct {
	width  int
	inside map[string]bool
	line   Line[string]
	places map[string]*Place[string]
}

// NewGate returns a gate through which as many nodes can be at a time as it is wide.
func NewGate(width int) *Gate {
	return &Gate{width: width, inside: map[string]bool{}, places: map[string]*Place[string]{}}
}

// Enter asks for a node to be let in, and reports whether it is inside. If not, it stands in line by its rank, and a call
// of [Gate.Leave] will return its name.
func (g *Gate) Enter(rank Rank) bool {
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
		g.places[name] = g.line.Join(rank, name)
		return false
	}
}

// Inside reports whether a node is inside.
func (g *Gate) Inside(name string) bool { return g.inside[name] }

// Leave says that a node that was inside, or was not, has nothing more to do there, and returns who is let in for it:
// they are inside from now on, and must be told.
func (g *Gate) Leave(name string) (admitted []string) {
	delete(g.inside, name)
	for len(g.inside) < g.width && g.line.Len() > 0 {
		next := g.line.Next()
		delete(g.places, next)
		g.inside[next] = true
		admitted = append(admitted, next)
	}
	return admitted
}

// Waiting returns how many stand in line.
func (g *Gate) Waiting() int { return g.line.Len() }
