// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agents_test

import (
	"testing"
	"time"

	"github.com/multieni/multieni/test/bench/agents"
	"github.com/multieni/multieni/test/bench/scenario"
)

// TestEachAttachmentMakesItsNodeReady attaches interfaces to a small fleet, and expects every figure of the scenario. `make bench BENCH=g1` judges the figures.
func TestEachAttachmentMakesItsNodeReady(t *testing.T) {
	small := agents.Load{Nodes: 3, Joining: 2, Added: 3, Quiet: 100 * time.Millisecond}
	o, err := agents.Run(t.Context(), small, t.TempDir(), func(scenario.Progress) {})
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := scenario.Choose("g1")
	if err != nil {
		t.Fatal(err)
	}
	for _, figure := range chosen[0].Judge(o.Measured) {
		if figure.Measured == nil {
			t.Errorf("%s is not measured", figure.What)
		}
	}
}
