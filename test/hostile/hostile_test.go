// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hostile_test checks the guarantees of the controller while everything around it fails: the real program, the
// real API server and the simulated EC2 over HTTP, with one named test for each kind of failure.
//
// A test has a [stage] of its own. It sets up the world, injects faults while nodes get and lose interfaces, and then
// compares the true state of EC2 with the desired one: each interface is in its slot, none exists twice, no desired one
// was detached or deleted, and there were no more calls than the failure explains. Faults come from two gates:
// [apiGate] is between the controller and the API server, [cloudGate] between the controller and EC2, where it also
// records the calls. Only the simulated EC2 can run faster than real time; the controller's own periods are real.
//
// Faults last as long as the product guarantees to tolerate them, so most tests take a minute or more: make test runs one
// of each kind. In make test-long there are thousands of orphans
// instead of hundreds, and the test of stuck detaches waits until they are forced.
package hostile_test

import (
	"flag"
	"log/slog"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/rogpeppe/go-internal/testscript"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multieni/multieni/internal/cli"
	"github.com/multieni/multieni/test/inputs"
)

// promised is how long a fault can last by the product's guarantee.
const promised = time.Minute

func TestMain(m *testing.M) {
	testscript.Main(suite{m}, map[string]func(){"multieni": inputs.Self("multieni", cli.New)})
}

// suite runs the tests of this package.
type suite struct{ *testing.M }

func (s suite) Run() int {
	flag.Parse()
	// The tests wait much more than they compute, so more tests than cores can run at once.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	ctrllog.SetLogger(logr.FromSlogHandler(slog.DiscardHandler))
	return s.M.Run()
}
