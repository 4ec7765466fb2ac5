// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ratelimit_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/ratelimit"
)

func rank(class ratelimit.Class, second int64, name string) ratelimit.Rank {
	return ratelimit.Rank{Class: class, Since: time.Unix(second, 0), Name: name}
}

func TestLine(t *testing.T) {
	var l ratelimit.PriorityQueue[string]
	for _, r := range []ratelimit.Rank{
		rank(ratelimit.Read, 9, "a"), rank(ratelimit.Attach, 1, "old"), rank(ratelimit.Removal, 9, "b"), rank(ratelimit.Attach, 5, "new-2"),
		rank(ratelimit.Update, 9, "c"), rank(ratelimit.Attach, 5, "new-1"),
	} {
		l.Push(r, r.Name+" once")
		l.Push(r, r.Name+" twice")
	}
	var got []string
	for l.Len() > 0 {
		got = append(got, l.Pop())
	}
	want := []string{
		"new-1 once", "new-1 twice", "new-2 once", "new-2 twice", "old once", "old twice",
		"b once", "b twice", "c once", "c twice", "a once", "a twice",
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("the newest node comes first and is finished before the next (-want +got):\n%s", diff)
	}
}

func TestLineLetsNobodyWaitForEver(t *testing.T) {
	var l ratelimit.PriorityQueue[int]
	l.Push(rank(ratelimit.Read, 0, "least"), -1)
	for n := range ratelimit.StarvationGuard {
		l.Push(rank(ratelimit.Attach, int64(n), "new"), n)
		if l.Pop() == -1 {
			return
		}
	}
	t.Errorf("after %d turns the least of all has not had one", ratelimit.StarvationGuard)
}

func TestLineKeepsEverybodyOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l ratelimit.PriorityQueue[int]
		waiting := map[int]*ratelimit.Item[int]{}
		for n := range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch act := rapid.IntRange(0, 3).Draw(t, "act"); {
			case act < 2 || len(waiting) == 0:
				r := rank(ratelimit.Class(rapid.IntRange(0, 3).Draw(t, "class")), rapid.Int64Range(0, 5).Draw(t, "since"), fmt.Sprint(n%7))
				waiting[n] = l.Push(r, n)
			case act == 2:
				gone := someone(t, waiting)
				l.Remove(waiting[gone])
				l.Remove(waiting[gone])
				delete(waiting, gone)
			default:
				next := l.Pop()
				if waiting[next] == nil {
					t.Fatalf("%d had a turn and did not wait", next)
				}
				delete(waiting, next)
			}
			if l.Len() != len(waiting) {
				t.Fatalf("%d in line, %d wait", l.Len(), len(waiting))
			}
		}
	})
}

func someone(t *rapid.T, waiting map[int]*ratelimit.Item[int]) int {
	var all []int
	for n := range waiting {
		all = append(all, n)
	}
	slices.Sort(all)
	return rapid.SampledFrom(all).Draw(t, "who")
}

func TestGate(t *testing.T) {
	g := ratelimit.NewPrioritySemaphore(2)
	for _, r := range []ratelimit.Rank{rank(ratelimit.Attach, 1, "a"), rank(ratelimit.Attach, 1, "b")} {
		for range 2 {
			if !g.TryAcquire(r) {
				t.Errorf("%s is not let in, or does not stay in, though there is room", r.Name)
			}
		}
	}
	for _, r := range []ratelimit.Rank{rank(ratelimit.Attach, 2, "c"), rank(ratelimit.Attach, 3, "d"), rank(ratelimit.Attach, 4, "c")} {
		if g.TryAcquire(r) || g.Holds(r.Name) {
			t.Errorf("%s is let in though there is no room", r.Name)
		}
	}
	if got := g.Release("nobody"); got != nil || g.Waiting() != 2 {
		t.Errorf("for nobody %v are let in, and %d wait", got, g.Waiting())
	}
	if diff := gocmp.Diff([]string{"c"}, g.Release("a")); diff != "" {
		t.Errorf("the best of those who wait, as it stands now, is let in (-want +got):\n%s", diff)
	}
	if got := append(g.Release("b"), g.Release("c")...); !slices.Equal(got, []string{"d"}) || g.Waiting() != 0 {
		t.Errorf("then %v are let in, and %d wait", got, g.Waiting())
	}
}

func TestGateIsNeverWiderNorIdle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const width = 3
		g := ratelimit.NewPrioritySemaphore(width)
		inside, waiting := map[string]bool{}, map[string]bool{}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			name := fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "node"))
			if rapid.Bool().Draw(t, "enters") {
				if g.TryAcquire(rank(ratelimit.Attach, rapid.Int64Range(0, 3).Draw(t, "since"), name)) {
					inside[name] = true
				} else {
					waiting[name] = true
				}
			} else {
				delete(inside, name)
				for _, next := range g.Release(name) {
					delete(waiting, next)
					inside[next] = true
				}
			}
			if len(inside) > width || len(waiting) > 0 && len(inside) < width || g.Waiting() != len(waiting) {
				t.Fatalf("%v are inside, %v wait", inside, waiting)
			}
		}
	})
}
