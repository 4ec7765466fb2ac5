// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package logging creates the log of a program.
package logging

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/multieni/multieni/internal/cli/options"
	"github.com/multieni/multieni/internal/core/terminal"
)

// New returns a logger that writes to w. Verbosity follows Kubernetes: V(n) messages appear at --v=n and above, and
// slog's debug messages are V(4).
func New(w io.Writer, o options.Logging) *slog.Logger {
	handlerOptions := &slog.HandlerOptions{Level: slog.Level(-o.Verbosity), ReplaceAttr: nameLevels}
	if o.Format == "json" {
		return slog.New(slog.NewJSONHandler(printable{w}, handlerOptions))
	}
	return slog.New(slog.NewTextHandler(printable{w}, handlerOptions))
}

// printable writes records that cannot control the terminal of a reader. JSON quotes fewer characters than that needs.
type printable struct{ io.Writer }

// Write implements [io.Writer]. A handler writes each record at once.
func (w printable) Write(record []byte) (int, error) {
	if _, err := io.WriteString(w.Writer, terminal.Printable(string(record))); err != nil {
		return 0, err
	}
	return len(record), nil
}

// nameLevels writes the levels below INFO as Kubernetes counts them, from V1.
func nameLevels(_ []string, a slog.Attr) slog.Attr {
	if level, ok := a.Value.Any().(slog.Level); ok && a.Key == slog.LevelKey && level < slog.LevelInfo {
		return slog.String(slog.LevelKey, fmt.Sprintf("V%d", -level))
	}
	return a
}

// Calm returns a handler that writes errors and warnings as INFO once the context has ended: after a signal to stop,
// aborted calls and a released lease are not mistakes, but still appear in the log.
func Calm(ctx context.Context, handler slog.Handler) slog.Handler { return calm{handler, ctx} }

type calm struct {
	slog.Handler
	stopped interface{ Err() error }
}

// Handle implements [slog.Handler].
func (c calm) Handle(ctx context.Context, r slog.Record) error {
	if c.stopped.Err() != nil {
		r.Level = min(r.Level, slog.LevelInfo)
	}
	return c.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (c calm) WithAttrs(attrs []slog.Attr) slog.Handler {
	return calm{c.Handler.WithAttrs(attrs), c.stopped}
}

// WithGroup implements [slog.Handler].
func (c calm) WithGroup(name string) slog.Handler { return calm{c.Handler.WithGroup(name), c.stopped} }
