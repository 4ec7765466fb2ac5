// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package clock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/multieni/multieni/internal/base/clock"
)

func TestSleep(t *testing.T) {
	for name, tc := range map[string]struct {
		stopped time.Duration
		slept   time.Duration
		want    bool
	}{
		"the whole time":         {time.Hour, time.Minute, true},
		"until the context ends": {time.Second, time.Second, false},
		"not at all once it has": {0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tc.stopped)
				defer cancel()
				start := time.Now()
				if got := clock.Sleep(ctx, time.Minute); got != tc.want || time.Since(start) != tc.slept {
					t.Errorf("%t after %s, want %t after %s", got, time.Since(start), tc.want, tc.slept)
				}
			})
		})
	}
}
