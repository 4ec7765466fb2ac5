// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/multieni/multieni/internal/base/cache"
)

// source counts how often it is read, and takes a second each time.
type source struct {
	reads int
	err   error
}

func (s *source) load(context.Context) (int, time.Duration, error) {
	s.reads++
	read := s.reads
	time.Sleep(time.Second)
	return read, time.Minute, s.err
}

func TestGet(t *testing.T) {
	for name, tc := range map[string]struct {
		err       error
		between   func(*cache.Cache[int])
		key       string
		wantReads int
	}{
		"a value is kept":                  {key: "a", wantReads: 1},
		"another key is loaded":            {key: "b", wantReads: 2},
		"an error is not kept":             {err: errors.New("no"), key: "a", wantReads: 2},
		"an expired value is loaded again": {between: func(*cache.Cache[int]) { time.Sleep(time.Minute) }, key: "a", wantReads: 2},
		"a forgotten one is loaded again":  {between: func(c *cache.Cache[int]) { c.Forget("a") }, key: "a", wantReads: 2},
		"forgetting another changes nothing": {
			between: func(c *cache.Cache[int]) { c.Forget("b") }, key: "a", wantReads: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, s := cache.New[int](time.Now), &source{err: tc.err}
				if _, err := c.Get(t.Context(), "a", s.load); !errors.Is(err, tc.err) {
					t.Fatal(err)
				}
				if tc.between != nil {
					tc.between(c)
				}
				got, err := c.Get(t.Context(), tc.key, s.load)
				if got != tc.wantReads || !errors.Is(err, tc.err) || s.reads != tc.wantReads {
					t.Errorf("got the value of read %d of %d (%v), want %d", got, s.reads, err, tc.wantReads)
				}
			})
		})
	}
}

func TestManyCallersShareOneLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := cache.New[int](time.Now), &source{}
		done := make(chan int)
		for range 10 {
			go func() {
				value, _ := c.Get(t.Context(), "a", s.load)
				done <- value
			}()
		}
		for range 10 {
			if got := <-done; got != 1 {
				t.Errorf("got the value of read %d, want the first", got)
			}
		}
	})
}

func TestACallerThatLeavesDoesNotStopTheLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := cache.New[int](time.Now), &source{}
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { cancel(gone) })
		if _, err := c.Get(ctx, "a", s.load); !errors.Is(err, gone) {
			t.Errorf("got %v, want the cause", err)
		}
		if got, err := c.Get(t.Context(), "a", s.load); got != 1 || err != nil {
			t.Errorf("got the value of read %d (%v), want the first", got, err)
		}
	})
}

func TestAValueReadBeforeForgetIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := cache.New[int](time.Now), &source{}
		time.AfterFunc(time.Millisecond, func() { c.Forget("a") })
		if _, err := c.Get(t.Context(), "a", s.load); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Get(t.Context(), "a", s.load); got != 2 || err != nil {
			t.Errorf("got the value of read %d (%v), want the second", got, err)
		}
	})
}
