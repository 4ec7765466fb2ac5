// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"gotest.tools/gotestsum/testjson"
)

// tickEvery is the time between two lines about suites that still run.
const tickEvery = 20 * time.Second

// actionStart is the action of the event with which a package begins.
const actionStart testjson.Action = "start"

// progress prints a line for each package that ends, and now and then one about those that run. It is the handler of the
// events of go test.
type progress struct {
	out   io.Writer
	begun time.Time

	mu      sync.Mutex
	running map[string]int  // tests that have ended, by package
	cached  map[string]bool // packages whose result comes from the cache
}

func newProgress(out io.Writer, begun time.Time) *progress {
	return &progress{out: out, begun: begun, running: map[string]int{}, cached: map[string]bool{}}
}

// Event implements [testjson.EventHandler].
func (p *progress) Event(event testjson.TestEvent, execution *testjson.Execution) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case event.Package == "":
	case event.PackageEvent():
		p.packageEvent(event, execution)
	case event.Action == testjson.ActionFail:
		fmt.Fprintf(p.out, "FAIL  %s %s\n", short(event.Package), event.Test)
	case event.Action.IsTerminal():
		p.running[event.Package]++
	}
	return nil
}

func (p *progress) packageEvent(event testjson.TestEvent, execution *testjson.Execution) {
	switch {
	case event.Action == actionStart:
		p.running[event.Package] = 0
	case event.Action == testjson.ActionOutput && strings.Contains(event.Output, "\t(cached)"):
		p.cached[event.Package] = true
	case event.Action.IsTerminal():
		delete(p.running, event.Package)
		took := time.Duration(event.Elapsed * float64(time.Second)).Round(10 * time.Millisecond).String()
		switch {
		case event.Action == testjson.ActionFail:
			fmt.Fprintf(p.out, "FAIL  %-60s %s\n", short(event.Package), took)
		case execution.Package(event.Package).Total == 0:
		case p.cached[event.Package]:
			fmt.Fprintf(p.out, "ok    %-60s cached\n", short(event.Package))
		default:
			fmt.Fprintf(p.out, "ok    %-60s %s\n", short(event.Package), took)
		}
	}
}

// Err implements [testjson.EventHandler]: it prints what go test itself reports, such as errors of the compiler.
func (p *progress) Err(text string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintln(p.out, text)
	return nil
}

// tick prints at times what runs, until the returned function is called.
func (p *progress) tick() (stop func()) {
	ticker, done := time.NewTicker(tickEvery), make(chan struct{})
	go func() {
		for {
			select {
			case <-ticker.C:
				p.tell()
			case <-done:
				return
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(done)
	}
}

func (p *progress) tell() {
	p.mu.Lock()
	defer p.mu.Unlock()
	after := time.Since(p.begun).Round(time.Second)
	if len(p.running) == 0 {
		fmt.Fprintf(p.out, "      after %s: the compiler runs\n", after)
		return
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(p.running)) {
		parts = append(parts, fmt.Sprintf("%s (%d tests done)", short(name), p.running[name]))
	}
	fmt.Fprintf(p.out, "      after %s: %s\n", after, strings.Join(parts, ", "))
}

func short(pkg string) string { return strings.TrimPrefix(pkg, module+"/") }
