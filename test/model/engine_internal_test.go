// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ladder is a machine that climbs by one or two rungs to the top, breaks on one rung, and can fall to the ground from
// another. It is at rest at the top, and on one more rung.
type ladder struct{ top, broken, ground, rest int }

func (l ladder) initial() int { return 0 }

func (l ladder) next(s int, add *steps[int]) {
	if s < 0 || s >= l.top {
		return
	}
	add.fair("one rung from #", uint8(s), func(s *int) { *s++ })
	add.fair("two rungs from #", uint8(s), func(s *int) { *s = min(*s+2, l.top) })
	if s == l.ground {
		add.free("falls from #", uint8(s), func(s *int) { *s = -1 })
	}
}

func (l ladder) violated(s int) Property {
	if s == l.broken {
		return OrderFirst
	}
	return 0
}

func (l ladder) atRest(s int) bool { return s == l.top || s == l.rest }

func (ladder) leftover() Property { return NothingLeaks }

func TestExplore(t *testing.T) {
	never := -2
	for name, c := range map[string]struct {
		machine ladder
		limit   int
		want    Outcome
	}{
		"visits all states": {ladder{top: 5, broken: never, ground: never, rest: never}, 100,
			Outcome{States: 6, Depth: 3, Complete: true}},
		"finds the shortest way to a violation": {ladder{top: 5, broken: 4, ground: never, rest: never}, 100,
			Outcome{States: 5, Depth: 1, Violated: OrderFirst, Trace: []string{"two rungs from 0", "two rungs from 2"}}},
		"finds a state without fair steps to rest": {ladder{top: 5, broken: never, ground: 2, rest: never}, 100,
			Outcome{States: 7, Depth: 3, Complete: true, Violated: NothingLeaks,
				Trace: []string{"two rungs from 0", "falls from 2"}}},
		"finds a step that leaves rest": {ladder{top: 5, broken: never, ground: never, rest: 2}, 100,
			Outcome{States: 6, Depth: 3, Complete: true, Violated: RestLasts,
				Trace: []string{"two rungs from 0", "one rung from 2"}}},
		"gives up": {ladder{top: 100, broken: never, ground: never, rest: never}, 10, Outcome{States: 11, Depth: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, explore(c.machine, c.limit)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
