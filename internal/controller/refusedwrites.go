// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// RejectedWrites remembers which of multieni's objects the API server refuses to store: the refused object itself
// cannot report it. The zero value is ready for use.
type RejectedWrites struct {
	// mu guards said, changed and the creation of wake.
	mu      sync.Mutex
	said    map[ObjectRef]string
	changed map[string]bool
	wake    chan struct{}
}

// ObjectRef names an object of a kind without a namespace.
type ObjectRef struct{ Kind, Name string }

// Refused reports whether an error is the API server's answer to what a write says: repeating it is of no use.
func Refused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// maxNote is the most bytes of an Event's note (Kubernetes API, events.k8s.io/v1).
const maxNote = 1024

// Note returns what an error says, as an Event can say it.
func Note(err error) string {
	text := err.Error()
	return strings.ToValidUTF8(text[:min(len(text), maxNote)], "")
}

// Note takes in how the writes of an object ended, and reports whether a refusal is new.
func (r *RejectedWrites) Note(of ObjectRef, err error) (isNew bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, was := r.said[of]
	switch {
	case err == nil && was:
		delete(r.said, of)
	case err != nil && Refused(err):
		if r.said == nil {
			r.said = map[ObjectRef]string{}
		}
		r.said[of] = Note(err)
	}
	if _, is := r.said[of]; is == was {
		return false
	}
	if of.Kind == "NodeENIState" {
		if r.changed == nil {
			r.changed = map[string]bool{}
		}
		r.changed[of.Name] = true
		select {
		case r.channel() <- struct{}{}:
		default: // it is awake already
		}
	}
	return !was
}

// Of returns what the API server says against an object; empty for nothing.
func (r *RejectedWrites) Of(of ObjectRef) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said[of]
}

// Count returns how many objects are refused.
func (r *RejectedWrites) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.said)
}

// Wake returns the channel that signals a change for [RejectedWrites.Changed].
func (r *RejectedWrites) Wake() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.channel()
}

// Changed returns the names of the NodeENIStates whose refusal began or ended since the last call.
func (r *RejectedWrites) Changed() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for name := range r.changed {
		names = append(names, name)
	}
	clear(r.changed)
	return names
}

func (r *RejectedWrites) channel() chan struct{} {
	if r.wake == nil {
		r.wake = make(chan struct{}, 1)
	}
	return r.wake
}
