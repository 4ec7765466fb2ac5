// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ratelimit_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/ratelimit"
)

func TestPace(t *testing.T) {
	fresh := ratelimit.New(ratelimit.InitialShare)
	climbed := fresh.After(time.Minute, true)
	refused := climbed.Refused(0.5, time.Minute)
	light := climbed.Refused(0.8, time.Minute)
	cases := map[string]struct {
		pace      ratelimit.AdaptiveRate
		low, high float64
	}{
		"begins with room for others":                      {fresh, ratelimit.InitialShare, ratelimit.InitialShare},
		"climbs while requests wait":                       {fresh.After(26*time.Second, true), 1, ratelimit.MaxBurstShare},
		"climbs no further than the top":                   {climbed, ratelimit.MaxBurstShare, ratelimit.MaxBurstShare},
		"does not climb while nothing is wanted":           {fresh.After(time.Hour, false), ratelimit.InitialShare, ratelimit.InitialShare},
		"keeps what it knows over a short rest":            {climbed.After(time.Second, false), ratelimit.MaxBurstShare, ratelimit.MaxBurstShare},
		"begins again after a long one":                    {climbed.After(time.Minute, false), ratelimit.InitialShare, ratelimit.InitialShare},
		"is half of what was left after a refusal":         {refused, 0.25, 0.25},
		"hurries back to below what others left":           {light.After(24*time.Second, true), 0.59, 0.61},
		"and stays there a while":                          {light.After(34*time.Second, true), 0.6, 0.64},
		"is not lower than half where others take much":    {refused.After(10*time.Second, true), 0.25, 0.27},
		"before it asks slowly for more":                   {refused.After(50*time.Second, true), 0.75, 0.9},
		"and for all of it in the end":                     {refused.After(80*time.Second, true), 1, ratelimit.MaxBurstShare},
		"recovers while nothing is wanted":                 {refused.After(time.Hour, false), ratelimit.InitialShare, ratelimit.InitialShare},
		"is cut to no less than the least":                 {refused.Refused(0, time.Minute).Refused(0, time.Minute), ratelimit.MinShare, ratelimit.MinShare},
		"comes back to the mean of what was left":          {refused.Refused(1, time.Minute).After(31*time.Second, true), 0.61, 0.63},
		"learns nothing from a short time":                 {refused.Refused(0, time.Second).After(11*time.Second, true), 0.12, 0.14},
		"is cut whatever is said to be left":               {refused.Refused(1, time.Second), 0.125, 0.125},
		"is the same whether looked at once or many times": {fresh.After(5*time.Second, true).After(5*time.Second, true), fresh.After(10*time.Second, true).Share(), fresh.After(10*time.Second, true).Share()},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.pace.Share(); got < tc.low-1e-9 || got > tc.high+1e-9 {
				t.Errorf("share %.3f, want %.3f to %.3f", got, tc.low, tc.high)
			}
		})
	}
}

// history draws the history of a rate.
func history(t *rapid.T) ratelimit.AdaptiveRate {
	p := ratelimit.New(rapid.Float64Range(ratelimit.MinShare, 1).Draw(t, "begin"))
	for range rapid.IntRange(0, 30).Draw(t, "events") {
		if rapid.Bool().Draw(t, "refused") {
			before := p.Share()
			if p = p.Refused(rapid.Float64Range(0, 1).Draw(t, "left"), time.Duration(rapid.IntRange(0, 300).Draw(t, "seconds"))*time.Second); p.Share() > max(before/2, ratelimit.MinShare)+1e-6 {
				t.Fatalf("a refusal brought the share from %g to %g, which is not half", before, p.Share())
			}
			continue
		}
		passed := time.Duration(rapid.IntRange(0, 120_000).Draw(t, "milliseconds")) * time.Millisecond
		p = p.After(passed, rapid.Bool().Draw(t, "wanted"))
	}
	return p
}

func TestPaceNeverStopsNorRunsAway(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if share := history(t).Share(); share < ratelimit.MinShare || share > ratelimit.MaxBurstShare {
			t.Errorf("share %g", share)
		}
	})
}

func TestPaceRecoversWithinNinetySeconds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if share := history(t).After(90*time.Second, true).Share(); share < 1 {
			t.Errorf("share %g ninety seconds after the last refusal", share)
		}
	})
}

func TestLeft(t *testing.T) {
	cases := map[string]struct {
		spare, refill float64
		since         time.Duration
		want          float64
	}{
		"nobody else took anything":       {0, 5, 10 * time.Second, 1},
		"others took half":                {25, 5, 10 * time.Second, 0.5},
		"others took more than came back": {60, 5, 10 * time.Second, 0},
		"no time":                         {50, 5, 0, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := ratelimit.AvailableShare(tc.spare, tc.refill, tc.since); got != tc.want {
				t.Errorf("got %g, want %g", got, tc.want)
			}
		})
	}
}

// TestBatchesAreLargerBesideOthers has EC2 throttle a request after the bucket was measured long enough to know of
// other programs.
func TestBatchesAreLargerBesideOthers(t *testing.T) {
	alone := ratelimit.New(ratelimit.InitialShare)
	if got := alone.Batch(); got != ratelimit.BatchSize {
		t.Errorf("alone it sends %d requests together, want %d", got, ratelimit.BatchSize)
	}
	if got := alone.Refused(0.5, time.Minute).Batch(); got != ratelimit.SharedBatchSize {
		t.Errorf("beside others it sends %d requests together, want %d", got, ratelimit.SharedBatchSize)
	}
}
