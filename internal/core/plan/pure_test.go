// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
)

// situation returns what a controller plans with in the middle of a story.
func situation(rt *rapid.T) ([]plan.Interface, plan.Facts, time.Time) {
	s := newStory(rt, trouble{faults: true, lag: 10, strangers: true, interference: true})
	s.upheaval(rapid.IntRange(1, 4).Draw(rt, "changes"))
	look := s.cloud.look()
	s.c.known.ObserveInstance(look)
	return s.c.want(), s.c.facts(&look), s.c.now()
}

func shuffled[T any](rt *rapid.T, all []T) []T {
	if len(all) < 2 {
		return all
	}
	return rapid.Permutation(all).Draw(rt, "order")
}

// TestTheOrderOfFactsDoesNotMatter leaves the objects in their order: it decides about slots.
func TestTheOrderOfFactsDoesNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		want, f, now := situation(rt)
		ordered := plan.Compute(want, f, now)
		f.Interfaces = shuffled(rt, f.Interfaces)
		look := *f.Snapshot
		look.Interfaces = shuffled(rt, look.Interfaces)
		f.Snapshot = &look
		if diff := cmp.Diff(ordered, plan.Compute(want, f, now), exact); diff != "" {
			rt.Errorf("another order of the same facts makes another plan:\n%s", diff)
		}
	})
}

func TestComputeLeavesItsArgumentsAlone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		want, f, now := situation(rt)
		before, records, attempts := slices.Clone(want), slices.Clone(f.Interfaces), maps.Clone(f.Attempts)
		for n := range before {
			before[n].Tags = maps.Clone(want[n].Tags)
			before[n].Settings.Subnets = slices.Clone(want[n].Settings.Subnets)
		}
		for n := range records {
			records[n].Interface = records[n].Clone()
		}
		plan.Compute(want, f, now)
		for name, diff := range map[string]string{
			"objects": cmp.Diff(before, want, exact), "records": cmp.Diff(records, f.Interfaces, exact), "attempts": cmp.Diff(attempts, f.Attempts, exact),
		} {
			if diff != "" {
				rt.Errorf("Compute changed the %s:\n%s", name, diff)
			}
		}
	})
}

// TestForcedDetaches: they come only after a long wait since the last request, by what a reading shows.
func TestForcedDetaches(t *testing.T) {
	t.Parallel()
	i, r := attached()
	i.Goal = plan.Release
	r = withStatus(r, eni.AttachmentDetaching)
	for after, want := range map[time.Duration]int{0: 0, plan.ForcedDetachAfter - time.Second: 0, plan.ForcedDetachAfter: 1} {
		r.DetachingSince, r.LastRead = start, start.Add(after)
		f := facts(r)
		f.Snapshot.At = start.Add(after)
		p := plan.Compute([]plan.Interface{i}, f, start.Add(after))
		if len(p.Calls) != want || want == 1 && !p.Calls[0].(plan.Detach).Force {
			t.Errorf("after %s: %v", after, p.Calls)
		}
	}
}
