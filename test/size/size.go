// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package size says how much of a suite a run of tests includes:
//
//	go test -short            what neither waits nor builds programs: the inner loop
//	go test, make test        every kind of suite at least once
//	make test-all             every suite in full, 2,000 seeds, the race detector
//	make test-long            more and other random cases, faults at full length
//
// The variable [Variable] selects the last two.
package size

import (
	"os"
	"testing"
)

// Variable is the environment variable with the size of a run: "", "all" or "long".
const Variable = "MULTIENI_TESTS"

// All reports whether suites run in full.
func All() bool { return os.Getenv(Variable) == "all" || Long() }

// Long reports whether random cases and faults have the numbers and lengths of make test-long.
func Long() bool { return os.Getenv(Variable) == "long" }

// Of returns the value for the size of the run.
func Of[T any](usual, all, long T) T {
	switch {
	case Long():
		return long
	case All():
		return all
	default:
		return usual
	}
}

// NeedsAll skips a test unless suites run in full. The reason says what the test costs.
func NeedsAll(tb testing.TB, reason string) {
	tb.Helper()
	if !All() {
		tb.Skip("only in make test-all: " + reason)
	}
}

// NeedsLong skips a test unless the run is long. The reason says what the test costs.
func NeedsLong(tb testing.TB, reason string) {
	tb.Helper()
	if !Long() {
		tb.Skip("only in make test-long: " + reason)
	}
}
