// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hostile_test holds the controller to its promise while everything around it fails: the real binary, the real
// API server and the simulated EC2 over HTTP, with one named test for each calamity.
//
// A test has a [stage] of its own. It sets the world, lets things go wrong while nodes get and lose interfaces, and then
// compares what EC2 truly holds with what is wanted: each interface at its slot, none twice, none that was wanted ever
// detached or deleted, and no more calls than the calamity explains. Faults come from two gates: [apiGate] stands
// between the controller and the API server, [cloudGate] between the controller and EC2, where it also keeps the
// record. Only the simulated EC2 can live faster than real time; the controller's own periods are real.
//
// Faults last as long as the product's promise says. With MULTIENI_LONG=1 there are thousands of orphans instead of
// hundreds, and a stuck detach is waited for until it is forced.
package hostile_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multieni/multieni/internal/dev/child"
)

// program is the path of multieni.
var program string

// isLong is whether the tests may take their time.
var isLong = os.Getenv("MULTIENI_LONG") != ""

// promised is for how long a fault can last by the product's promise.
const promised = time.Minute

func TestMain(m *testing.M) {
	flag.Parse()
	// The tests wait much more than they compute, so that more of them than cores can run at once.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	ctrllog.SetLogger(logr.FromSlogHandler(slog.DiscardHandler))
	controller, err := child.Controller(context.Background(), 1, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	program = controller.Program
	os.Exit(m.Run())
}
