// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package panics converts a panic to an error of the work that panicked, so that it ends neither the process nor the
// work for other objects. controller-runtime does that for reconcilers; this package is for every other goroutine.
package panics

import (
	"fmt"
	"path"
	"runtime"
	"strings"
)

// Error is a panic in the work for an object.
type Error struct {
	// Of names the work and its object, such as "node worker-1".
	Of string
	// Value is the argument of panic.
	Value any
	// Frames are the innermost calls, such as "awsec2.(*Client).Look (look.go:31)".
	Frames []string
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: panic: %v in %s; this is a bug of multieni: report it with this line", e.Of, e.Value,
		strings.Join(e.Frames, " < "))
}

// Unwrap returns the argument of panic, if that is an error.
func (e *Error) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// AsError does the work and returns its error, or an [*Error] if it panics. The work must release its locks by defer.
func AsError(of string, work func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &Error{Of: of, Value: value, Frames: frames()}
		}
	}()
	return work()
}

// depth is the maximum number of frames.
const depth = 5

// frames returns the innermost calls of the panic that a deferred function recovers from.
func frames() []string {
	counters := make([]uintptr, 64)
	all := runtime.CallersFrames(counters[:runtime.Callers(0, counters)])
	var kept []string
	for panicked, more := false, true; more && len(kept) < depth; {
		var frame runtime.Frame
		frame, more = all.Next()
		switch {
		case frame.Function == "runtime.gopanic":
			panicked = true
		case panicked && !strings.HasPrefix(frame.Function, "runtime."):
			kept = append(kept, fmt.Sprintf("%s (%s:%d)", path.Base(frame.Function), path.Base(frame.File), frame.Line))
		}
	}
	return kept
}
