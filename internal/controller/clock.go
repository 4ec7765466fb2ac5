// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"log/slog"
	"sync"
	"time"
)

// ClockTolerance is how far the local clock can differ from EC2's before a warning. The controller computes ages of
// interfaces from times that controllers wrote by their own clocks, and the shortest age that matters is ten minutes.
const ClockTolerance = time.Minute

// Clock compares the local clock with EC2's, which is in the Date header of every answer. It is safe for concurrent
// use.
type Clock struct {
	Log *slog.Logger

	// mu guards ahead and warned.
	mu     sync.Mutex
	ahead  time.Duration
	warned bool
}

// Note records how far EC2's clock is ahead of the local one. It warns once, and again only after the clocks agreed.
func (c *Clock) Note(ahead time.Duration) {
	c.mu.Lock()
	c.ahead = ahead
	wrong := ahead.Abs() > ClockTolerance
	warn := wrong && !c.warned
	c.warned = wrong
	c.mu.Unlock()
	if warn {
		c.Log.Warn("the local clock differs from EC2's; synchronize the node's clock, because ages of leaks depend on it",
			"behindSeconds", ahead.Seconds())
	}
}

// Ahead returns how far EC2's clock was ahead of the local one at the last answer; 0 before the first. The Date header
// has whole seconds.
func (c *Clock) Ahead() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ahead
}
