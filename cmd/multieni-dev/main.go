// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Command multieni-dev runs multieni on one machine: a Kubernetes API server, a simulated AWS, and the demo
// that uses both.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/multieni/multieni/internal/core/terminal"
	"github.com/multieni/multieni/internal/dev/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := cli.New().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "multieni-dev:", terminal.Printable(err.Error()))
		os.Exit(1)
	}
}
