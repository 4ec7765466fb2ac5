// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/multieni/multieni/test/bench/scenario"
	"github.com/multieni/multieni/test/synctest/bubble"
)

// Event is a line that the process of a run writes: its progress or, as the last one, its outcome.
type Event struct {
	Progress *scenario.Progress `json:"progress,omitempty"`
	Outcome  *scenario.Outcome  `json:"outcome,omitempty"`
}

// Main runs a scenario, writes its events, and ends the process. A bubble needs a test around it, so this is one: it
// reports failures on standard output, as tests do, and by the exit code.
func Main(s scenario.Scenario, events io.Writer) {
	testing.Init()
	// Otherwise the testing package would parse the arguments of this program.
	_ = flag.CommandLine.Parse([]string{"-test.timeout=0"})
	bubble.Prepare()
	every := func(string, string) (bool, error) { return true, nil }
	testing.Main(every, []testing.InternalTest{{Name: s.ID, F: func(t *testing.T) { Run(t, s, events) }}}, nil, nil)
}

// Run runs a scenario in a bubble.
func Run(t *testing.T, s scenario.Scenario, events io.Writer) {
	t.Helper()
	run, known := runs()[s.ID]
	if !known {
		t.Fatalf("scenario %s does not run in virtual time", s.ID)
	}
	encoder := json.NewEncoder(events)
	var one sync.Mutex
	ended := false
	tell := func(e Event) {
		one.Lock()
		defer one.Unlock()
		if ended {
			return // A report of progress at the moment at which the run ended.
		}
		ended = e.Outcome != nil
		if err := encoder.Encode(e); err != nil {
			panic(fmt.Sprintf("the progress of scenario %s cannot be written: %v", s.ID, err))
		}
	}
	synctest.Test(t, func(t *testing.T) {
		stage := newStage(t, s, tell)
		run(stage)
		tell(Event{Outcome: stage.outcome()})
	})
}

func runs() map[string]func(*stage) {
	return map[string]func(*stage){
		"a1": coldStart, "a2": coldStart, "a3": coldStartBesideTenant, "b": idle, "c": joinIdle, "c2": joinQueue,
		"d1": undeclare, "d2": terminate, "e": restart, "f1": churnForAnHour, "f2": churnForTenMinutes,
		"f3": churnForHalfAnHour,
		"g":  coldStartWithLeaks, "p1": podsInPreparedPrefixes, "p2": podsInGrowingPrefixes,
		"p3": fixedPods,
	}
}
