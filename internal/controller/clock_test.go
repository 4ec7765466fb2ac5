// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/multieni/multieni/internal/controller"
)

func TestAWrongClockIsToldOfOnce(t *testing.T) {
	var log bytes.Buffer
	clock := &controller.Clock{Log: slog.New(slog.NewTextHandler(&log, nil))}
	for _, step := range []struct {
		ahead    time.Duration
		warnings int
	}{
		{-time.Second, 0}, {time.Minute, 0}, {time.Hour, 1}, {time.Hour + time.Second, 1}, {0, 1}, {-time.Hour, 2},
	} {
		clock.Note(step.ahead)
		if got := strings.Count(log.String(), "differs from EC2's"); got != step.warnings {
			t.Errorf("after %s: %d warnings, want %d", step.ahead, got, step.warnings)
		}
		if clock.Ahead() != step.ahead {
			t.Errorf("it remembers %s, want %s", clock.Ahead(), step.ahead)
		}
	}
}
