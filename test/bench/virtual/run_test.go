// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/multieni/multieni/test/bench/scenario"
	"github.com/multieni/multieni/test/bench/virtual"
	"github.com/multieni/multieni/test/synctest/bubble"
)

// Every scenario runs with a small fleet, and measures all its figures. `make bench` judges the figures; this test
// judges only figures that do not depend on the fleet.
func TestScenariosMeasureWhatTheyPromise(t *testing.T) {
	bubble.Prepare()
	// Scenarios of hours or days, and those that need a large fleet, take too long for this test.
	sizes := map[string]int{"a1": 10, "a3": 30, "c": 3, "c2": 120, "d1": 10, "d2": 10, "e": 10, "g": 10, "p1": 2, "p2": 2,
		"p3": 4}
	fixed := []string{scenario.Mutating, scenario.PodsWaiting, scenario.MostPrefixes, scenario.SlowestPrefix,
		scenario.SlowestAddress}
	for _, s := range scenario.Catalogue() {
		if sizes[s.ID] == 0 {
			continue
		}
		s.Nodes = sizes[s.ID]
		t.Run(s.ID, func(t *testing.T) {
			var events bytes.Buffer
			virtual.Run(t, s, &events)
			outcome := last(t, &events)
			for _, f := range s.Judge(outcome.Measured) {
				if f.Measured == nil {
					t.Errorf("%s is not measured", f.Key)
				}
				if slices.Contains(fixed, f.Key) && f.Verdict() == scenario.Failed {
					t.Errorf("%s: %v, beyond %+v", f.What, *f.Measured, *f.Fail)
				}
			}
			if s.Curve != nil && (len(outcome.Ready) == 0 || outcome.Ready[len(outcome.Ready)-1].Nodes != s.Nodes) {
				t.Errorf("the curve ends with %v", outcome.Ready)
			}
			if slices.ContainsFunc(s.Judge(outcome.Measured), func(f scenario.Figure) bool {
				return (f.Key == scenario.Strays || f.Key == scenario.Leaked) && *f.Measured != 0
			}) {
				t.Errorf("EC2 does not hold what was declared: %v", outcome.Measured)
			}
		})
	}
}

// last returns the outcome of the run.
func last(t *testing.T, events *bytes.Buffer) *scenario.Outcome {
	t.Helper()
	var e virtual.Event
	for decoder := json.NewDecoder(events); decoder.More(); {
		e = virtual.Event{}
		if err := decoder.Decode(&e); err != nil {
			t.Fatal(err)
		}
	}
	if e.Outcome == nil {
		t.Fatal("the run found nothing")
	}
	return e.Outcome
}
