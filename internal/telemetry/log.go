// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package telemetry sets up logging and metrics.
package telemetry

import (
	"io"
	"log/slog"

	"github.com/multieni/multieni/internal/options"
)

// NewLogger returns a logger that writes to w. Verbosity follows the habit of Kubernetes: V(n) messages show at --v=n
// and above, and slog's debug messages are V(4).
func NewLogger(w io.Writer, o options.Logging) *slog.Logger {
	handlerOptions := &slog.HandlerOptions{Level: slog.Level(-o.Verbosity)}
	if o.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, handlerOptions))
	}
	return slog.New(slog.NewTextHandler(w, handlerOptions))
}
