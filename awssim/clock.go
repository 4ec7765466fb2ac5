// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim

import (
	"context"
	"time"
)

// Clock is the time of the simulator. Refill of buckets, latencies and faults all follow it.
type Clock interface {
	// Now is the simulated time.
	Now() time.Time
	// Sleep waits for a simulated duration, or for the end of the context, whose error it returns.
	Sleep(ctx context.Context, d time.Duration) error
}

// RealClock is the time of the machine. Inside a testing/synctest bubble that is the bubble's time.
func RealClock() Clock { return ScaledClock(1) }

// ScaledClock begins at the time of the machine and runs speed times as fast.
func ScaledClock(speed float64) Clock { return scaledClock{start: time.Now(), speed: speed} }

type scaledClock struct {
	start  time.Time     // of the machine
	offset time.Duration // of the simulated time at the start
	speed  float64
}

// Now is part of Clock.
func (c scaledClock) Now() time.Time {
	return c.start.Add(c.offset + time.Duration(float64(time.Since(c.start))*c.speed))
}

// machine returns the real time at which the clock will show a time.
func (c scaledClock) machine(t time.Time) time.Time {
	return c.start.Add(time.Duration(float64(t.Sub(c.start)-c.offset) / c.speed))
}

// Sleep is part of Clock.
func (c scaledClock) Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(time.Duration(float64(d) / c.speed))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
