// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Command awssim runs the simulated AWS. It knows no Kubernetes.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/multieni/multieni/internal/cli/simulate"
	"github.com/multieni/multieni/internal/core/terminal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := simulate.New().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "awssim:", terminal.Printable(err.Error()))
		os.Exit(1)
	}
}
