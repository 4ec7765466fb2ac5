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
	// atWork is set when it is killed as soon as EC2 is at work on what the step's commands asked for.
	atWork bool
	// due are the times after the beginning of the step when it is killed besides.
	due []time.Duration
}

// strikes tells whether a kill is due.
func (f *fate) strikes(elapsed time.Duration) bool {
	if len(f.due) == 0 || elapsed < f.due[0] {
		return false
	}
	f.due = f.due[1:]
	return true
}

// strikesWork tells whether the controller is killed now that all commands of the step were given. No kill is spared by
// a step that is over sooner.
func (f *fate) strikesWork(rows []row, over bool) bool {
	working := slices.ContainsFunc(rows, func(r row) bool { return r.Style == terminal.Busy })
	if f.atWork && (working || over) {
		f.atWork = false
		return true
	}
	return over && f.strikes(latest)
}

// latest is how long after the beginning of a step the controller may be killed: beyond the few seconds that a step
// takes, so that some kills find it idle.
const latest = 4 * time.Second

// fates gives each step of the story its own, with so many kills at random moments besides.
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
