// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package rig_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/multieni/multieni/test/bench/rig"
	"github.com/multieni/multieni/test/bench/scenario"
	"github.com/multieni/multieni/test/size"
)

// A controller attaches and removes the interfaces of a small fleet on the rig, and the rig measures every figure of
// the two scenarios, for our controller and for another one. `make bench` judges the figures.
func TestLiveScenariosMeasureWhatTheyPromise(t *testing.T) {
	size.NeedsAll(t, "controllers run beside an API server for a minute")
	cases := map[string]struct {
		command func(*testing.T) string
		ours    bool
	}{
		"of our controller": {func(*testing.T) string { return "" }, true},
		"of another one":    {foreign, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { measureSmallFleet(t, tc.command(t), tc.ours) })
	}
}

// foreign builds a controller that is independent of ours, and returns its command line.
func foreign(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "foreign")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./testdata/foreign").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

func measureSmallFleet(t *testing.T, command string, ours bool) {
	t.Helper()
	r, err := rig.Open(t.Context(), rig.Options{Command: command, Nodes: 5, Dir: t.TempDir(), Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, s := range scenario.Catalogue() {
		if !slices.Contains([]string{"a-live", "d1-live"}, s.ID) {
			continue
		}
		s.Nodes = 5
		t.Run(s.ID, func(t *testing.T) {
			outcome, err := r.Run(t.Context(), s, func(scenario.Progress) {})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range s.Judge(outcome.Measured) {
				switch {
				case f.Measured == nil:
					t.Errorf("%s is not measured", f.Key)
				case f.Key == scenario.Strays && *f.Measured != 0:
					t.Errorf("%v interfaces are not as declared", *f.Measured)
				case f.Key == scenario.CallsPerENI && *f.Measured < f.Target.Value:
					t.Errorf("%v calls per interface, and it takes %v", *f.Measured, f.Target.Value)
				case f.Key == scenario.APIWritesENI && (*f.Measured > 0) != ours:
					t.Errorf("%v writes per interface; another controller writes nothing, and ours does", *f.Measured)
				}
			}
		})
	}
}
