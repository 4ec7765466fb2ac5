// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/multieni/multieni/test/bench/report"
	"github.com/multieni/multieni/test/bench/scenario"
)

// screen shows the progress of the bench: on a terminal in one line that changes, otherwise in a new line from time to
// time.
type screen struct {
	out        io.Writer
	isTerminal bool
	of, number int
	current    scenario.Scenario
	begun      time.Time
	shown      time.Time
	// phase is the present phase and its start.
	phase string
	since time.Time
}

// seldom is the interval of lines that stay.
const (
	seldom = 20 * time.Second
	often  = 200 * time.Millisecond
)

func newScreen(out io.Writer, of int) *screen {
	file, isFile := out.(*os.File)
	return &screen{out: out, of: of, isTerminal: isFile && term.IsTerminal(int(file.Fd()))}
}

// say writes a line that stays.
func (s *screen) say(what string) { fmt.Fprintf(s.out, "[%d/%d] %s\n", s.number, s.of, what) }

func (s *screen) begin(c scenario.Scenario) {
	s.number++
	s.current, s.begun, s.shown, s.phase = c, time.Now(), time.Now(), ""
	fmt.Fprintf(s.out, "[%d/%d] %s  %s\n", s.number, s.of, c.ID, c.Title)
}

func (s *screen) show(p scenario.Progress) {
	if p.Phase != s.phase {
		s.phase, s.since = p.Phase, time.Now()
	}
	pause := seldom
	if s.isTerminal {
		pause = often
	}
	if time.Since(s.shown) < pause {
		return
	}
	s.shown = time.Now()
	line := fmt.Sprintf("      %s: %s ready, %s in the cluster, %s here%s", p.Phase, nodes(p.Ready, s.current.Nodes),
		round(p.Seconds), round(time.Since(s.begun).Seconds()), s.left(p.Done))
	if s.isTerminal {
		fmt.Fprintf(s.out, "\r\033[K%s", line)
		return
	}
	fmt.Fprintln(s.out, line)
}

// nodes formats the number of nodes of a fleet. With nodes that join later, or are about to end, it can exceed the
// fleet's size.
func nodes(count, fleet int) string {
	if count > fleet {
		return fmt.Sprintf("%d nodes", count)
	}
	return fmt.Sprintf("%d of %d nodes", count, fleet)
}

// left formats the estimated rest of the phase, once it can be estimated.
func (s *screen) left(done float64) string {
	if done < 0.05 || done >= 1 {
		return ""
	}
	return fmt.Sprintf(", about %s to go", round(time.Since(s.since).Seconds()*(1-done)/done))
}

func round(seconds float64) time.Duration {
	return time.Duration(seconds) * time.Second
}

func (s *screen) end(r report.Result) {
	if s.isTerminal {
		fmt.Fprint(s.out, "\r\033[K")
	}
	counts := map[scenario.Verdict]int{}
	for _, row := range r.Figures {
		counts[row.Verdict]++
	}
	fmt.Fprintf(s.out, "      took %s: %d pass, %d miss, %d fail\n", round(r.Seconds), counts[scenario.Pass],
		counts[scenario.Miss], counts[scenario.Failed])
}
