// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"math/rand/v2"
	"slices"
	"time"
)

// fate says when the controller is killed in a step.
type fate struct {
	// atWork is set when it is killed as soon as EC2 is at work.
	atWork bool
	// due are the times after the step's commands when it is killed besides.
	due []time.Duration
}

// strikes tells whether to kill the controller now. No kill is spared by a step that is over sooner.
func (f *fate) strikes(elapsed time.Duration, rows []row, over bool) bool {
	working := slices.ContainsFunc(rows, func(r row) bool { return r.Mood == busy })
	switch {
	case f.atWork && (working || over):
		f.atWork = false
		return true
	case len(f.due) > 0 && (elapsed >= f.due[0] || over):
		f.due = f.due[1:]
		return true
	default:
		return false
	}
}

// latest is how long after the commands of a step the controller may be killed: beyond the second or two that a step
// takes, so that some kills find it idle.
const latest = 2 * time.Second

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
