// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command eni-bootstrap creates the network interfaces of a node while it boots.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/multieni/multieni/internal/cli/enibootstrap"
	"github.com/multieni/multieni/internal/core/terminal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	command := enibootstrap.New()
	command.SilenceUsage, command.SilenceErrors = true, true
	err := command.ExecuteContext(ctx)
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "eni-bootstrap:", terminal.Printable(err.Error()))
	if exit := (*enibootstrap.ExitError)(nil); errors.As(err, &exit) {
		os.Exit(exit.Code)
	}
	os.Exit(1)
}
