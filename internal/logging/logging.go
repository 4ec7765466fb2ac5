// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package logging makes the log of a program.
package logging

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/multieni/multieni/internal/options"
)

// New returns a logger that writes to w. Verbosity follows the habit of Kubernetes: V(n) messages show at --v=n
// and above, and slog's debug messages are V(4).
func New(w io.Writer, o options.Logging) *slog.Logger {
	handlerOptions := &slog.HandlerOptions{Level: slog.Level(-o.Verbosity), ReplaceAttr: nameLevels}
	if o.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, handlerOptions))
	}
	return slog.New(slog.NewTextHandler(w, handlerOptions))
}

// nameLevels writes the levels below INFO as Kubernetes counts them, V1 and on.
func nameLevels(_ []string, a slog.Attr) slog.Attr {
	if level, ok := a.Value.Any().(slog.Level); ok && a.Key == slog.LevelKey && level < slog.LevelInfo {
		return slog.String(slog.LevelKey, fmt.Sprintf("V%d", -level))
	}
	return a
}
