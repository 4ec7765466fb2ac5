// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// A meter shows a user the progress of a build: on a terminal in one line that it redraws each second, elsewhere in a
// plain line every 15 seconds. Builds that end within the first interval print nothing.
type meter struct {
	out      io.Writer
	what     string // is built
	terminal bool
	began    time.Time
	stop     chan struct{}
	stopped  sync.WaitGroup

	mu    sync.Mutex
	phase string
	total int // packages of the program, 0 before compiling
	done  int // packages compiled by now; those in Go's build cache do not count
}

func newMeter(out io.Writer, what string) *meter {
	m := &meter{out: out, what: what, terminal: isTerminal(out), began: time.Now(), stop: make(chan struct{})}
	m.stopped.Go(m.run)
	return m
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

func (m *meter) run() {
	interval := 15 * time.Second
	if m.terminal {
		interval = time.Second
	}
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for shown := false; ; shown = true {
		select {
		case <-ticks.C:
			m.show()
		case <-m.stop:
			if shown && m.terminal {
				fmt.Fprintln(m.out)
			}
			return
		}
	}
}

func (m *meter) show() {
	line := m.what + ", built once per version: " + m.String()
	if m.terminal {
		const restart, clearRest = "\r", "\x1b[K"
		fmt.Fprint(m.out, restart, line, clearRest)
		return
	}
	fmt.Fprintln(m.out, line)
}

// String returns the present phase of the build, and its duration so far.
func (m *meter) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	elapsed := time.Since(m.began).Round(time.Second)
	if m.total == 0 {
		return fmt.Sprintf("%s, %s", elapsed, m.phase)
	}
	return fmt.Sprintf("%s, %d of at most %d packages compiled", elapsed, m.done, m.total)
}

// enter begins a phase that has no measure.
func (m *meter) enter(phase string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.phase = phase
}

// compile begins the phase that is measured in packages.
func (m *meter) compile(total int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total = total
}

// compiled counts one package.
func (m *meter) compiled() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done++
}

// close ends the display.
func (m *meter) close() {
	close(m.stop)
	m.stopped.Wait()
}
