// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim

import (
	"context"
	"time"
)

// poll retries a long poll after each change, until it is done or its time limit.
func (s *Simulator) poll(ctx context.Context, a *answer) error {
	return s.await(ctx, a.until, func() (isDone bool) {
		a.output, isDone = a.again()
		return isDone
	})
}

// await retries a function whenever anything in the account may have changed, until it is done, the time (none, if
// zero) is reached, or the context ends, whose error it returns. The function is called with the lock.
func (s *Simulator) await(ctx context.Context, until time.Time, try func() (isDone bool)) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		isDone, next, changed := s.attempt(until, try)
		if isDone {
			return nil
		}
		if err := s.sleep(ctx, changed, next); err != nil {
			return err
		}
	}
}

// attempt tries once. It returns the latest time of the next attempt, and a context that ends at a change before that.
func (s *Simulator) attempt(
	until time.Time, try func() (isDone bool),
) (isDone bool, next time.Time, changed context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	before := s.account.timeline.Happened()
	s.account.advance(now)
	isDone = try() || !until.IsZero() && !now.Before(until)
	if isDone || s.account.timeline.Happened() != before {
		s.tellPollers()
	}
	next = until
	if due, ok := s.account.timeline.NextDue(); ok && (next.IsZero() || due.Before(next)) {
		next = due
	}
	if s.wake == nil {
		s.changed, s.wake = context.WithCancel(context.Background())
	}
	return isDone, next, s.changed
}

// sleep waits for a time (without limit, if zero), for a change, or for the end of the context, whose error it returns.
func (s *Simulator) sleep(ctx, changed context.Context, until time.Time) error {
	either, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(changed, cancel)()
	if until.IsZero() {
		<-either.Done()
	} else {
		// It ends early after a change, which is not an error.
		_ = s.clock.Sleep(either, until.Sub(s.clock.Now()))
	}
	return ctx.Err()
}

// tellPollers wakes all clients that wait for a change. The caller holds the lock.
func (s *Simulator) tellPollers() {
	if s.wake != nil {
		s.wake()
		s.changed, s.wake = nil, nil
	}
}
