// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package logging_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/multieni/multieni/internal/cli/logging"
	"github.com/multieni/multieni/internal/cli/options"
)

// Calls that a stop interrupts appear in the log below the level of errors; errors before the stop keep their level.
func TestCalm(t *testing.T) {
	var out bytes.Buffer
	ctx, stop := context.WithCancel(t.Context())
	log := slog.New(logging.Calm(ctx, logging.New(&out, options.Logging{Verbosity: 1}).Handler()))
	write := func(log *slog.Logger) {
		log.Error("failed")
		log.Warn("doubted")
		log.Info("done")
		log.Log(t.Context(), slog.Level(-1), "seen")
	}
	write(log)
	named := log.With("node", "a").WithGroup("g")
	stop()
	write(log)
	write(named)
	var levels []string
	for line := range strings.Lines(out.String()) {
		_, rest, _ := strings.Cut(line, "level=")
		level, _, _ := strings.Cut(rest, " ")
		levels = append(levels, level)
	}
	if got, want := strings.Join(levels, " "), "ERROR WARN INFO V1 INFO INFO INFO V1 INFO INFO INFO V1"; got != want {
		t.Errorf("levels are %s, want %s", got, want)
	}
	if !strings.Contains(out.String(), "node=a") {
		t.Error("attributes are lost")
	}
}
