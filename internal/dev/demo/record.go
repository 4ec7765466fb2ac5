// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"io"
	"time"

	"github.com/multieni/multieni/internal/dev/cast"
)

const (
	// recordedHeight is the height of a recording in lines: a step and its table.
	recordedHeight = 32
	recordedTitle  = "make demo: multieni between a real API server and a simulated AWS"
)

// recorder writes what is printed, and when, into a recording.
type recorder struct {
	into *cast.Recording
	last time.Time
	// pause is added to the time until the next text.
	pause time.Duration
}

func (r *recorder) Write(text []byte) (int, error) {
	now := time.Now()
	r.into.Print(now.Sub(r.last)+r.pause, string(text))
	r.last, r.pause = now, 0
	return len(text), nil
}

// recordingScreen returns a screen that records. It redraws nothing, so that a recording stays small, but has colours.
func recordingScreen(out io.Writer, into *cast.Recording) *screen {
	*into = cast.Recording{Title: recordedTitle, Width: widest, Height: recordedHeight}
	r := &recorder{into: into, last: time.Now()}
	return &screen{out: io.MultiWriter(out, r), recorder: r, colours: true}
}
