// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation_test

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/multieni/multieni/test/simulation"
	"github.com/multieni/multieni/test/size"
)

var (
	seed  = flag.Uint64("seed", 0, "seed to replay")
	steps = flag.Int("steps", 500, "steps of the run to replay")
	bear  = flag.Bool("bear", false, "replay with a part that stays broken, and without")
	calm  = flag.Bool("calm", false, "replay without faults")
	crash = flag.String("crash", "", "replay with a crash at this point alone")
)

// TestMain lets the garbage collector run rarely: the live heap of a run is small, and a run allocates a lot.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}

func TestReplay(t *testing.T) {
	if *seed == 0 {
		t.Skip("give -seed and -steps to replay a run")
	}
	options := simulation.Options{Seed: *seed, Steps: *steps, Calm: *calm, CrashAt: *crash, Verbose: func(line string) { t.Log(line) }}
	run := simulation.Run
	if *bear {
		run = simulation.RunPartialFailure
	}
	report(t, options, *bear, run(options))
}

// report fails for a violation, and says how to replay the run: partial is set if a part stayed broken.
func report(t *testing.T, options simulation.Options, partial bool, result simulation.Result) {
	t.Helper()
	if result.Violation == nil {
		return
	}
	how := ""
	if options.Calm {
		how = " -calm"
	}
	if partial {
		how += " -bear"
	}
	if options.CrashAt != "" {
		how += fmt.Sprintf(" -crash=%q", options.CrashAt)
	}
	t.Errorf("%v\n%s\nreplay: go test ./test/simulation -run TestReplay -v -seed=%d -steps=%d%s",
		result.Violation, strings.Join(result.Tail, "\n"), options.Seed, options.Steps, how)
}

func number(name string, otherwise int) int {
	text, is := os.LookupEnv(name)
	if !is {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(fmt.Sprintf("%s is %q: set a number", name, text)) // the default would be another run than the requested one
	}
	return n
}

func TestSameSeedSameTrace(t *testing.T) {
	for seed := range uint64(number("SIM_TWICE", size.Of(5, 20, 20))) {
		var traces [2][]string
		var results [2]simulation.Result
		for n := range traces {
			results[n] = simulation.Run(simulation.Options{Seed: seed + 1, Steps: 300, Verbose: func(line string) {
				traces[n] = append(traces[n], line)
			}})
		}
		if results[0].Hash != results[1].Hash {
			t.Errorf("seed %d: %s", seed+1, firstDifference(traces[0], traces[1]))
		}
	}
}

func firstDifference(a, b []string) string {
	for n := range min(len(a), len(b)) {
		if a[n] != b[n] {
			return strings.Join(a[max(0, n-8):n], "\n") + "\nthen\n" + a[n] + "\nor\n" + b[n]
		}
	}
	return "one trace is longer"
}

func TestCalm(t *testing.T) {
	for seed := range uint64(size.Of(10, 50, 50)) {
		options := simulation.Options{Seed: seed + 1, Steps: 300, Calm: true}
		result := simulation.Run(options)
		report(t, options, false, result)
		if result.Violation != nil {
			return
		}
	}
}
