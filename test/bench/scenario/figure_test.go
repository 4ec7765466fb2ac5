// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario_test

import (
	"testing"
	"time"

	"github.com/multieni/multieni/test/bench/scenario"
)

// TestAShortLimitDecidesNothing measures fleets of several sizes, each 19 s over what EC2 allows.
func TestAShortLimitDecidesNothing(t *testing.T) {
	cases := map[string]struct {
		nodes   int
		verdict scenario.Verdict
		promise string
	}{
		"a fleet of 1,000": {1000, scenario.Pass, "≤ 1.05 x"},
		"of 790":           {790, scenario.Miss, "≤ 1.05 x"},
		"of 30":            {30, scenario.Shown, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			chosen, err := scenario.Choose("a1")
			if err != nil {
				t.Fatal(err)
			}
			chosen[0].Nodes = tc.nodes
			took := scenario.Documented().Attaching(tc.nodes*scenario.MembersPerNode) + 19*time.Second
			f := chosen[0].Judge(map[string]float64{scenario.Makespan: took.Seconds()})[0]
			if f.Verdict() != tc.verdict || f.Promise() != tc.promise {
				t.Errorf("%s took %s against %v s: %s, %q; want %s, %q", name, took, *f.Limit, f.Verdict(), f.Promise(), tc.verdict, tc.promise)
			}
		})
	}
}

// TestInstantCallsOfTwoUsersCoincide measures the throttled calls of another user of the buckets in both worlds.
func TestInstantCallsOfTwoUsersCoincide(t *testing.T) {
	for instant, want := range map[bool]scenario.Verdict{false: scenario.Failed, true: scenario.Shown} {
		chosen, err := scenario.Choose("a3")
		if err != nil {
			t.Fatal(err)
		}
		chosen[0].InstantCalls = instant
		for _, f := range chosen[0].Judge(map[string]float64{scenario.TenantThrottle: 0.08}) {
			if f.Key == scenario.TenantThrottle && f.Verdict() != want {
				t.Errorf("8 %% of the calls throttled, instant calls %t: %s, want %s", instant, f.Verdict(), want)
			}
		}
	}
}

// TestAProcessorTimeIsComparedWithALimitOfAnySize has a limit of some milliseconds.
func TestAProcessorTimeIsComparedWithALimitOfAnySize(t *testing.T) {
	chosen, err := scenario.Choose("g1")
	if err != nil {
		t.Fatal(err)
	}
	for took, want := range map[float64]scenario.Verdict{30: scenario.Pass, 40: scenario.Miss} {
		f := chosen[0].Judge(map[string]float64{scenario.ServerPerENI: took, scenario.ServerPerENI + scenario.LimitSuffix: 28})[0]
		if f.Verdict() != want {
			t.Errorf("%v ms against 28 ms without agents: %s, want %s", took, f.Verdict(), want)
		}
	}
}
