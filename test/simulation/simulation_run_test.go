// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation_test

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/multieni/multieni/test/simulation"
	"github.com/multieni/multieni/test/size"
)

// fullSeeds is how many runs guard a landing. Only with as many must every fault and every crash appear.
const fullSeeds = 2000

// defaultSeeds is how many runs there are. A few are enough for the race detector, since a run is one goroutine.
func defaultSeeds() int {
	if raced {
		return 50
	}
	return size.Of(100, fullSeeds, fullSeeds)
}

// bearEvery says that one seed in this many also runs with a part that stays broken.
const bearEvery = 10

// TestSimulation runs seed after seed, each with its own swarm of faults.
func TestSimulation(t *testing.T) {
	begun, s := time.Now(), newSweep()
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() { s.run(t) })
	}
	workers.Wait()
	s.tell(t, time.Since(begun))
	s.writeTraces(t)
	if s.seeds < fullSeeds || t.Failed() {
		return
	}
	for _, point := range s.coverage.RareCrashes() {
		s.crashAt(t, point)
	}
	for _, gap := range s.coverage.Missing() {
		t.Errorf("after %d seeds %s", s.seeds, gap)
	}
}

// sweep is a range of seeds and their results.
type sweep struct {
	first, seeds, steps, failures int
	next                          atomic.Int64

	mu       sync.Mutex
	traces   []string
	failed   int
	total    int
	virtual  time.Duration
	coverage simulation.Coverage
}

func newSweep() *sweep {
	return &sweep{
		first: number("SIM_FIRST", 1), seeds: number("SIM_SEEDS", defaultSeeds()), steps: number("SIM_STEPS", 500), failures: number("SIM_FAILURES", 3),
		coverage: simulation.NewCoverage(),
	}
}

// run runs one seed after the other.
func (s *sweep) run(t *testing.T) {
	for n := s.next.Add(1) - 1; n < int64(s.seeds); n = s.next.Add(1) - 1 {
		seed := uint64(s.first) + uint64(n)
		options := simulation.Options{Seed: seed, Steps: s.steps}
		if !s.add(t, options, false, simulation.Run(options)) {
			return
		}
		if seed%bearEvery == 0 && !s.add(t, options, true, simulation.RunPartialFailure(options)) {
			return
		}
	}
}

// directedSeeds is how many seeds run for a point at which hardly any process crashed.
const directedSeeds = 500

// crashAt runs seeds in which a process crashes only at one point, until enough have crashed there.
func (s *sweep) crashAt(t *testing.T, point string) {
	for n := range directedSeeds {
		options := simulation.Options{Seed: uint64(s.first + n), Steps: s.steps, CrashAt: point}
		if !s.add(t, options, false, simulation.Run(options)) {
			return
		}
		if !slices.Contains(s.coverage.RareCrashes(), point) {
			t.Logf("%d seeds with a crash %s", n+1, point)
			return
		}
	}
}

// add adds a run, and reports whether more runs are wanted.
func (s *sweep) add(t *testing.T, options simulation.Options, partial bool, result simulation.Result) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.traces = append(s.traces, fmt.Sprintf("%12d %-5t %016x", options.Seed, partial, result.Hash))
	s.total += result.Steps
	s.virtual += result.Virtual
	s.coverage.Add(result.Coverage)
	if result.Violation != nil {
		s.failed++
		report(t, options, partial, result)
	}
	return s.failed < s.failures
}

// writeTraces writes, to the file that SIM_TRACES names, a line for each run: its seed, whether a part of it stayed
// broken, and the hash of its trace. Two sources with equal files behave alike.
func (s *sweep) writeTraces(t *testing.T) {
	file, is := os.LookupEnv("SIM_TRACES")
	if !is {
		return
	}
	slices.Sort(s.traces)
	if err := os.WriteFile(file, []byte(strings.Join(s.traces, "\n")+"\n"), 0o600); err != nil {
		t.Error(err)
	}
}

func (s *sweep) tell(t *testing.T, took time.Duration) {
	t.Logf("%d seeds, %d steps (%.0f per second), %d faults, %d h of virtual time, in %s",
		min(int(s.next.Load()), s.seeds), s.total, float64(s.total)/took.Seconds(), sum(s.coverage.Faults), int(s.virtual.Hours()), took.Round(time.Second))
	for _, part := range []struct {
		name   string
		counts map[string]int
	}{{"faults", s.coverage.Faults}, {"calls", s.coverage.Calls}, {"crashes", s.coverage.CrashPoints}, {"actors", s.coverage.Actors}, {"checks", s.coverage.Checks}} {
		for _, key := range slices.Sorted(maps.Keys(part.counts)) {
			t.Logf("%s: %7d %s", part.name, part.counts[key], key)
		}
	}
}

func sum(counts map[string]int) (all int) {
	for _, n := range counts {
		all += n
	}
	return all
}
