// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"strconv"
	"strings"
)

// machine is a transition system with states S. Equal values are equal states, so S has no pointers.
type machine[S comparable] interface {
	initial() S
	// next adds the steps that are possible in a state.
	next(s S, add *steps[S])
	// violated returns the safety property that a state violates, or 0.
	violated(s S) Property
	// atRest reports whether a state is one that the protocol works towards: what is wanted exists, and nothing else.
	atRest(s S) bool
	// leftover returns the property that is violated if no fair step leads from a state to rest.
	leftover() Property
}

// step is one step of a machine.
type step[S comparable] struct {
	name   string // with # for the number
	number uint8
	// fair steps happen if nothing prevents them: what the programs do with current reads, the arrival or loss of what is
	// under way, and the end of a pod. The others are faults, orders of users and starts of pods: they may never happen.
	fair bool
	to   S
}

func (s step[S]) String() string {
	return strings.ReplaceAll(s.name, "#", strconv.Itoa(int(s.number)))
}

// steps collects the steps that are possible in the state from.
type steps[S comparable] struct {
	from S
	all  []step[S]
}

// fair adds a fair step. The number replaces # in its name.
func (s *steps[S]) fair(name string, number uint8, change func(*S)) {
	s.add(name, number, true, change)
}

// free adds a step that may never happen.
func (s *steps[S]) free(name string, number uint8, change func(*S)) {
	s.add(name, number, false, change)
}

func (s *steps[S]) add(name string, number uint8, fair bool, change func(*S)) {
	s.all = append(s.all, step[S]{name, number, fair, s.from})
	change(&s.all[len(s.all)-1].to)
}

// Outcome is the result of a search.
type Outcome struct {
	States, Depth int
	Complete      bool     // all reachable states were visited
	Violated      Property // 0 if none is
	Trace         []string // the shortest steps to the violation
}

func (o Outcome) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d states, depth %d", o.States, o.Depth)
	if o.Violated == 0 {
		return text.String()
	}
	fmt.Fprintf(&text, "; %d steps violate %q:", len(o.Trace), o.Violated)
	for n, name := range o.Trace {
		fmt.Fprintf(&text, "\n%4d  %s", n+1, name)
	}
	return text.String()
}

// maxStates ends a search that has become too large by mistake.
const maxStates = 8_000_000

// search is a breadth-first search. The number of a state is its place in the order of discovery.
type search[S comparable] struct {
	machine machine[S]
	numbers map[S]int32
	states  []S
	parents []int32
	edges   []edge // of fair steps
}

type edge struct{ from, to int32 }

// explore visits the reachable states, and ends at the first one that violates a property. If no state violates a safety
// property, it looks for the first state from which no fair steps lead to rest. It gives up after limit states.
func explore[S comparable](m machine[S], limit int) Outcome {
	s := search[S]{machine: m, numbers: map[S]int32{}}
	s.visit(m.initial(), 0)
	var o Outcome
	add := steps[S]{}
	for level, at := len(s.states), int32(0); int(at) < len(s.states); at++ {
		if int(at) == level {
			level = len(s.states)
			o.Depth++
		}
		if len(s.states) > limit {
			o.States = len(s.states)
			return o
		}
		add.from, add.all = s.states[at], add.all[:0]
		m.next(add.from, &add)
		for _, next := range add.all {
			to, isNew := s.visit(next.to, at)
			if next.fair && to != at {
				s.edges = append(s.edges, edge{at, to})
			}
			if !isNew {
				continue
			}
			if p := m.violated(next.to); p != 0 {
				o.States, o.Violated, o.Trace = len(s.states), p, s.trace(to)
				return o
			}
		}
	}
	o.States, o.Complete = len(s.states), true
	if stuck, found := s.stuck(); found {
		o.Violated, o.Trace = m.leftover(), s.trace(stuck)
	}
	return o
}

// visit returns the number of a state, and whether it is new.
func (s *search[S]) visit(state S, from int32) (number int32, isNew bool) {
	if number, known := s.numbers[state]; known {
		return number, false
	}
	number = int32(len(s.states))
	s.numbers[state] = number
	s.states = append(s.states, state)
	s.parents = append(s.parents, from)
	return number, true
}

// trace returns the names of the steps to a state.
func (s *search[S]) trace(to int32) []string {
	if to == 0 {
		return nil
	}
	from := s.parents[to]
	add := steps[S]{from: s.states[from]}
	s.machine.next(add.from, &add)
	for _, next := range add.all {
		if next.to == s.states[to] {
			return append(s.trace(from), next.String())
		}
	}
	panic("a step is not repeatable: next must depend on the state alone")
}

// stuck returns the first state from which no fair steps lead to rest.
func (s *search[S]) stuck() (first int32, found bool) {
	begins := make([]int32, len(s.states)+1) // the place in sources of the edges to each state
	for _, e := range s.edges {
		begins[e.to+1]++
	}
	for n := range s.states {
		begins[n+1] += begins[n]
	}
	sources := make([]int32, len(s.edges))
	for filled, n := append([]int32(nil), begins...), 0; n < len(s.edges); n++ {
		e := s.edges[n]
		sources[filled[e.to]] = e.from
		filled[e.to]++
	}
	reaches := make([]bool, len(s.states))
	var queue []int32
	reach := func(n int32) {
		if !reaches[n] {
			reaches[n] = true
			queue = append(queue, n)
		}
	}
	for n, state := range s.states {
		if s.machine.atRest(state) {
			reach(int32(n))
		}
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, from := range sources[begins[at]:begins[at+1]] {
			reach(from)
		}
	}
	for n, ok := range reaches {
		if !ok {
			return int32(n), true
		}
	}
	return 0, false
}
