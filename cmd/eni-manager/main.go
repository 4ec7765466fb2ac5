// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Command eni-manager configures the interfaces of the node that it runs on.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/multieni/multieni/internal/cli/enimanager"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := enimanager.New().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "eni-manager:", err)
		os.Exit(1)
	}
}
