// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/multieni/multieni/test/simulation"
)

// TestSimulation runs seed after seed, each with its own swarm of faults.
func TestSimulation(t *testing.T) {
	seeds, steps, first := number("SIM_SEEDS", defaultSeeds), number("SIM_STEPS", 500), number("SIM_FIRST", 1)
	begun := time.Now()
	var next, total, struck atomic.Int64
	var failed atomic.Int64
	var mu sync.Mutex
	calls, points := map[string]int{}, map[string]int{}
	var virtual time.Duration
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				n := next.Add(1) - 1
				if n >= int64(seeds) || failed.Load() >= int64(number("SIM_FAILURES", 3)) {
					return
				}
				seed := uint64(first) + uint64(n)
				result := simulation.Run(simulation.Options{Seed: seed, Steps: steps})
				total.Add(int64(result.Steps))
				struck.Add(int64(result.Struck))
				mu.Lock()
				virtual += result.Virtual
				for action, n := range result.Calls {
					calls[action] += n
				}
				for point, n := range result.CrashPoints {
					points[point] += n
				}
				if result.Violation != nil {
					failed.Add(1)
					report(t, seed, steps, result)
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	took := time.Since(begun)
	t.Logf("%d seeds, %d steps (%.0f per second), %d faults, %d h of virtual time, in %s",
		min(next.Load(), int64(seeds)), total.Load(), float64(total.Load())/took.Seconds(), struck.Load(), int(virtual.Hours()), took.Round(time.Second))
	t.Logf("calls: %v", calls)
	t.Logf("crashes: %v", points)
}

const defaultSeeds = 2000
