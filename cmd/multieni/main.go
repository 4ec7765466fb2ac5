// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Command multieni runs the components of multieni.
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
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "multieni:", terminal.Printable(err.Error()))
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	arguments, err := cli.Arguments(os.Args[1:])
	if err != nil {
		return err
	}
	root := cli.New()
	root.SetArgs(arguments)
	return root.ExecuteContext(ctx)
}
