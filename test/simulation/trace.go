// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"runtime/debug"
	"slices"
	"time"
)

// kept is how many lines of a trace are kept.
const kept = 40

// trace records what happens, the last lines as text and all of it as a hash.
type trace struct {
	hash    uint64
	lines   [kept]string
	count   int
	buffer  []byte
	verbose func(string)
}

// note adds a line: when, who, what.
func (r *run) note(p *process, format string, args ...any) {
	t := &r.trace
	t.buffer = fmt.Appendf(t.buffer[:0], "%9.3fs %4d ", r.now.Sub(beginning).Seconds(), r.steps)
	if p != nil {
		t.buffer = append(append(t.buffer, p.name...), ' ')
	}
	t.buffer = fmt.Appendf(t.buffer, format, args...)
	t.add()
}

func (t *trace) add() {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	if t.count == 0 {
		t.hash = offset
	}
	for _, b := range t.buffer {
		t.hash = (t.hash ^ uint64(b)) * prime
	}
	line := string(t.buffer)
	t.lines[t.count%kept] = line
	t.count++
	if t.verbose != nil {
		t.verbose(line)
	}
}

// tail returns the last lines, oldest first.
func (t *trace) tail() []string {
	if t.count <= kept {
		return slices.Clone(t.lines[:t.count])
	}
	at := t.count % kept
	return slices.Concat(t.lines[at:], t.lines[:at])
}

func stack() string { return string(debug.Stack()) }

func seconds(d time.Duration) string { return d.Round(time.Second).String() }
