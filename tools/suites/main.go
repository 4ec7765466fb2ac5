// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Command suites runs the tests of this repository. Run it from the root of the checkout:
//
//	suites run [flag of go test …] PACKAGE…    run tests, with their progress and a summary
//	suites measure [-o DOCUMENT] PACKAGE…      measure what each suite costs, with the race detector too for PACKAGE…
//
// A suite is a folder of test/, or a group of folders with unit tests.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

const usage = "usage: suites run [flag of go test ...] PACKAGE..., or suites measure [-o DOCUMENT] PACKAGE..."

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "suites:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	switch args[0] {
	case "run":
		return run(ctx, args[1:])
	case "measure":
		return measure(ctx, args[1:])
	default:
		return errors.New(usage)
	}
}

const module = "github.com/multieni/multieni"

// groups are folders that contain suites; any other first folder is one suite.
var groups = []string{"internal", "test"}

// suiteOf returns the suite of a package: its first folder, or its first two below a group.
func suiteOf(pkg string) string {
	parts := strings.Split(strings.TrimPrefix(pkg, module+"/"), "/")
	for _, group := range groups {
		if parts[0] == group && len(parts) > 1 {
			return group + "/" + parts[1]
		}
	}
	return parts[0]
}
