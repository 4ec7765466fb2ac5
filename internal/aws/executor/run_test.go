// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package executor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/core/plan"
)

// planned is what a test's plan does in one round.
type planned struct {
	actions []plan.Call
	again   bool
	err     error
}

// TestRun runs plans for an instance whose calls take one, two and five seconds, by ordinal. After the last one nothing
// is left to do.
func TestRun(t *testing.T) {
	failed := errors.New("EC2 could not be read")
	first, second, third := describe(1, "one"), describe(2, "two"), describe(3, "three")
	cases := map[string]struct {
		plans []planned
		// recorded are the ordinals of the outcomes, one group for each call of record.
		recorded [][]int
		after    time.Duration
		rounds   int // the number of plans
		done     bool
		err      error
	}{
		"nothing to do ends at once": {rounds: 1, done: true},
		"each interface's end leads to a plan": {
			plans:    []planned{{actions: []plan.Call{first, third}}, {actions: []plan.Call{second}}},
			recorded: [][]int{{1}, {2}, {3}}, after: 5 * time.Second, rounds: 4, done: true,
		},
		"a changed fact leads to a plan at once, while calls are in flight": {
			plans:    []planned{{actions: []plan.Call{second}}, {again: true}},
			recorded: [][]int{{2}}, after: 2 * time.Second, rounds: 3, done: true,
		},
		"an error waits for the calls in flight and records them": {
			plans:    []planned{{actions: []plan.Call{first, third}}, {err: failed}},
			recorded: [][]int{{1}, {3}}, after: 5 * time.Second, rounds: 2, err: failed,
		},
		"facts that change with every plan end it too": {
			plans:  []planned{{again: true}, {again: true}, {again: true}, {again: true}, {again: true}, {again: true}},
			rounds: 5,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := cloud(func(_ context.Context, call string) error {
					time.Sleep(map[byte]time.Duration{'1': time.Second, '2': 2 * time.Second, '3': 5 * time.Second}[call[len("description eni-")]])
					return nil
				})
				var recorded [][]int
				rounds, begun := 0, time.Now()
				done, err := executor.New(calls, silent{}, executor.Options{Members: 4, Removals: 1, Now: time.Now}).Run(5,
					func(p *executor.Pipeline) (bool, error) {
						rounds++
						if rounds > len(tc.plans) {
							return false, nil
						}
						now := tc.plans[rounds-1]
						p.Start(t.Context(), now.actions, func() {})
						return now.again, now.err
					},
					func(outcomes []executor.Outcome) {
						var ordinals []int
						for _, o := range outcomes {
							ordinals = append(ordinals, o.Call.Of().Ordinal)
						}
						if len(ordinals) > 0 {
							recorded = append(recorded, ordinals)
						}
					})
				if done != tc.done || !errors.Is(err, tc.err) || rounds != tc.rounds || time.Since(begun) != tc.after {
					t.Errorf("got done %t, error %v, %d plans after %s; want %t, %v, %d after %s",
						done, err, rounds, time.Since(begun), tc.done, tc.err, tc.rounds, tc.after)
				}
				if diff := cmp.Diff(tc.recorded, recorded); diff != "" {
					t.Errorf("recorded (-want +got):\n%s", diff)
				}
			})
		})
	}
}
