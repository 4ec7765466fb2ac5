// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-eni is the kubectl plugin "kubectl eni".
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/multieni/multieni/internal/cli"
	"github.com/multieni/multieni/internal/core/terminal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := cli.NewPlugin().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "kubectl eni:", terminal.Printable(err.Error()))
		os.Exit(1)
	}
}
