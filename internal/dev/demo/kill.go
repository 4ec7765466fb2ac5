// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/terminal"
)

// fate says when the controller is killed in a step.
type fate struct {
	// atWork is set if the controller is killed as soon as EC2 begins to change an interface for the step's commands.
	atWork bool
	// due are the other times, after the beginning of the step, at which it is killed.
	due []time.Duration
}

// strikes reports whether a kill is due.
func (f *fate) strikes(elapsed time.Duration) bool {
	if len(f.due) == 0 || elapsed < f.due[0] {
		return false
	}
	f.due = f.due[1:]
	return true
}

// strikesWork reports whether the controller is killed after all commands of the step were given. A step that ends
// sooner skips no kill.
func (f *fate) strikesWork(rows []row, over bool) bool {
	working := slices.ContainsFunc(rows, func(r row) bool { return r.Style == terminal.Busy })
	if f.atWork && (working || over) {
		f.atWork = false
		return true
	}
	return over && f.strikes(latest)
}

// latest is the latest time after the beginning of a step at which the controller is killed: longer than the few
// seconds of a step, so that some kills hit an idle controller.
const latest = 4 * time.Second

// fates returns the fate of each step of the story, with a number of additional kills at random moments.
func fates(chapters []chapter, kills int, random *rand.Rand) []fate {
	var all []fate
	for _, c := range chapters {
		for _, s := range c.steps {
			all = append(all, fate{atWork: s.kill})
		}
	}
	for range kills {
		f := &all[random.IntN(len(all))]
		f.due = append(f.due, time.Duration(random.Int64N(int64(latest))))
		slices.Sort(f.due)
	}
	return all
}
