// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"sync"
	"time"
)

// clock is EC2's time. Its speed can change: the rig need not wait for a fleet as long as with the real EC2, and
// measures a controller's own time against an EC2 at real speed. It implements awssim.Clock.
type clock struct {
	mu    sync.Mutex
	base  time.Time // EC2's time at since
	since time.Time
	speed float64
}

func newClock(speed float64) *clock {
	now := time.Now()
	return &clock{base: now, since: now, speed: speed}
}

// Now is part of awssim.Clock.
func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

func (c *clock) now() time.Time {
	return c.base.Add(time.Duration(float64(time.Since(c.since)) * c.speed))
}

// set makes the clock run speed times as fast as real time from now on.
func (c *clock) set(speed float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base, c.since, c.speed = c.now(), time.Now(), speed
}

// Sleep is part of awssim.Clock. It keeps the speed at which it began.
func (c *clock) Sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	speed := c.speed
	c.mu.Unlock()
	timer := time.NewTimer(time.Duration(float64(d) / speed))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
