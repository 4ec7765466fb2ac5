// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"slices"
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
	depth   int    // of the states whose steps are known
}

type edge struct{ from, to int32 }

// explore visits the reachable states, and ends at the first one that violates a safety property. If it finds none, it
// looks for the first state from which no fair steps lead to rest, then for the first fair step that leaves it. It
// gives up after limit states.
func explore[S comparable](m machine[S], limit int) Outcome {
	s := search[S]{machine: m, numbers: map[S]int32{}}
	s.visit(m.initial(), 0)
	violation, complete := s.run(limit)
	o := Outcome{States: len(s.states), Depth: s.depth, Complete: complete}
	switch {
	case violation != 0:
		o.Violated, o.Trace = m.violated(s.states[violation]), s.trace(violation)
	case complete:
		o.Violated, o.Trace = s.unrest()
	}
	return o
}

// run visits the states after those in s. It returns the first one that violates a safety property, or 0.
func (s *search[S]) run(limit int) (violation int32, complete bool) {
	var add steps[S]
	level := len(s.states)
	for at := int32(0); int(at) < len(s.states); at++ {
		if len(s.states) > limit {
			return 0, false
		}
		if int(at) == level {
			level = len(s.states)
			s.depth++
		}
		add.from, add.all = s.states[at], add.all[:0]
		s.machine.next(add.from, &add)
		for _, next := range add.all {
			to, isNew := s.visit(next.to, at)
			if next.fair && to != at {
				s.edges = append(s.edges, edge{at, to})
			}
			if isNew && s.machine.violated(next.to) != 0 {
				return to, false
			}
		}
	}
	return 0, true
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
	return append(s.trace(from), s.name(edge{from, to}))
}

// name returns the name of a step.
func (s *search[S]) name(e edge) string {
	add := steps[S]{from: s.states[e.from]}
	s.machine.next(add.from, &add)
	for _, next := range add.all {
		if next.to == s.states[e.to] {
			return next.String()
		}
	}
	panic("a step is not repeatable: next must depend on the state alone")
}

// unrest returns the property that is violated by the way to rest, with its steps, or 0.
func (s *search[S]) unrest() (Property, []string) {
	if stuck, found := s.stuck(); found {
		return s.machine.leftover(), s.trace(stuck)
	}
	for _, e := range s.edges {
		if s.machine.atRest(s.states[e.from]) && !s.machine.atRest(s.states[e.to]) {
			return RestLasts, append(s.trace(e.from), s.name(e))
		}
	}
	return 0, nil
}

// stuck returns the first state from which no fair steps lead to rest.
func (s *search[S]) stuck() (first int32, found bool) {
	before := s.predecessors()
	reaches := make([]bool, len(s.states))
	var queue []int32
	for n, state := range s.states {
		if s.machine.atRest(state) {
			reaches[n] = true
			queue = append(queue, int32(n))
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, from := range before(queue[0]) {
			if !reaches[from] {
				reaches[from] = true
				queue = append(queue, from)
			}
		}
	}
	n := slices.Index(reaches, false)
	return int32(n), n >= 0
}

// predecessors returns a function that lists the states from which a fair step leads to a state.
func (s *search[S]) predecessors() func(to int32) []int32 {
	// The sources of the edges to a state are those from ends[to] up to ends[to+1], once each edge has moved its end down.
	ends := make([]int32, len(s.states)+1)
	for _, e := range s.edges {
		ends[e.to]++
	}
	for n := range s.states {
		ends[n+1] += ends[n]
	}
	sources := make([]int32, len(s.edges))
	for _, e := range s.edges {
		ends[e.to]--
		sources[ends[e.to]] = e.from
	}
	return func(to int32) []int32 { return sources[ends[to]:ends[to+1]] }
}
