// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Command lifecycle-hook is `multieni lifecycle-hook` as a program of its own, without Kubernetes: built as "bootstrap"
// it is a function for AWS Lambda's runtime provided.al2023.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/multieni/multieni/internal/cli/lifecyclehook"
	"github.com/multieni/multieni/internal/core/terminal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	command := lifecyclehook.New()
	command.SilenceUsage, command.SilenceErrors = true, true
	if err := command.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "lifecycle-hook:", terminal.Printable(err.Error()))
		os.Exit(1)
	}
}
