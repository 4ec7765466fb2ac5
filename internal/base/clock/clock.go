// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clock has a sleep that ends with a context.
package clock

import (
	"context"
	"time"
)

// Sleep returns true after a time, or false as soon as the context ends.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
