// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// RejectedWrites holds the multieni objects that the API server refuses to store: the refused object itself cannot
// report it. The zero value is ready for use.
type RejectedWrites struct {
	// mu guards said, changed and the creation of wake.
	mu      sync.Mutex
	said    map[ObjectRef]string
	changed map[string]bool
	wake    chan struct{}
}

// ObjectRef names an object of a kind without a namespace. NodeENI is that of a NetworkInterface, and Writer the name
// of the Node or the ID of the instance whose reconciliation writes it.
type ObjectRef struct{ Kind, Name, NodeENI, Writer string }

// Refused reports whether the API server refused a write because of its content: repeating the write is useless.
func Refused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// maxNote is the most bytes of an Event's note (Kubernetes API, events.k8s.io/v1).
const maxNote = 1024

// Note returns the text of an error, cut to the length of an Event's note.
func Note(err error) string {
	text := err.Error()
	return strings.ToValidUTF8(text[:min(len(text), maxNote)], "")
}

// Note records how a write of an object ended, and reports whether a refusal is new.
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
	r.signal(of.NodeENI)
	return !was
}

// Settle forgets the refusals of a writer but for the named objects: it needs no write of the others any more.
func (r *RejectedWrites) Settle(kind, writer string, names map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for of := range r.said {
		if of.Kind == kind && of.Writer == writer && !names[of.Name] {
			delete(r.said, of)
			r.signal(of.NodeENI)
		}
	}
}

func (r *RejectedWrites) signal(nodeENI string) {
	if nodeENI == "" {
		return
	}
	if r.changed == nil {
		r.changed = map[string]bool{}
	}
	r.changed[nodeENI] = true
	select {
	case r.channel() <- struct{}{}:
	default: // already signaled
	}
}

// Of returns why the API server refuses an object, or "".
func (r *RejectedWrites) Of(of ObjectRef) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said[of]
}

// Count returns the number of refused objects.
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

// OfNodeENI returns why the API server refuses NetworkInterfaces of a NodeENI, by name. Two writers can have a reason
// each; the result does not depend on which refusal came first.
func (r *RejectedWrites) OfNodeENI(nodeENI string) map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	refused := map[string]string{}
	for of, why := range r.said {
		if of.NodeENI == nodeENI {
			refused[of.Name] = max(refused[of.Name], why)
		}
	}
	return refused
}

// Changed returns the names of the NodeENIs with a NetworkInterface whose refusal began or ended since the last call.
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
