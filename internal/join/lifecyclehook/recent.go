// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecyclehook

import (
	"sync"
	"time"

	"github.com/multieni/multieni/internal/core/lifecycle"
)

// recentTTL is how long an answer about an instance is reused for further messages of the same kind. A flood of
// messages therefore costs one read of each instance in this time. SQS delivers a failed message again only after a
// longer time (visibility).
const recentTTL = 30 * time.Second

// recent keeps recent answers about instances, so that a flood of messages about one instance costs no more calls than
// one message. Its zero value is ready for concurrent use.
type recent struct {
	// mu guards results and hooks.
	mu      sync.Mutex
	results map[lifecycle.Event]*answer[Result]
	hooks   map[lifecycle.Event]*answer[[]lifecycle.HookRef]
}

// answer is one call, which is in flight or has ended.
type answer[T any] struct {
	done  chan struct{}
	value T
	err   error
	asked time.Time
}

// result returns the result of an event of this kind, for this instance and hook.
func (r *recent) result(event lifecycle.Event, handle func() (Result, error)) (Result, error) {
	return ask(r, &r.results, lifecycle.Event{Kind: event.Kind, InstanceID: event.InstanceID, Hook: lifecycle.HookRef{
		Group: event.Hook.Group, Name: event.Hook.Name,
	}}, handle)
}

// waiting returns the hooks in which the event's instance waits.
func (r *recent) waiting(event lifecycle.Event, look func() ([]lifecycle.HookRef, error)) ([]lifecycle.HookRef, error) {
	return ask(r, &r.hooks, lifecycle.Event{Kind: event.Kind, InstanceID: event.InstanceID}, look)
}

// ask makes a call unless the same one was made a moment ago, and waits for the answer.
func ask[T any](
	r *recent, answers *map[lifecycle.Event]*answer[T], key lifecycle.Event, call func() (T, error),
) (T, error) {
	r.mu.Lock()
	now := time.Now()
	for old, a := range *answers {
		if now.Sub(a.asked) >= recentTTL {
			delete(*answers, old)
		}
	}
	a, known := (*answers)[key]
	if !known {
		if *answers == nil {
			*answers = map[lifecycle.Event]*answer[T]{}
		}
		a = &answer[T]{asked: now, done: make(chan struct{}), err: ErrRetry} // in case the call panics
		(*answers)[key] = a
	}
	r.mu.Unlock()
	if known {
		<-a.done
		return a.value, a.err
	}
	defer close(a.done)
	a.value, a.err = call()
	return a.value, a.err
}
