// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controller holds what the reconcilers share.
package controller

import "sync"

// InFlight tracks which reconciliations of nodes are in flight. A reconciliation that began before the cache had a
// NodeENI's deletion may still make a call for the NodeENI, so the finalizer must stay until it ends. A later
// reconciliation makes no call, because it reads the same cache. The zero value is ready for use.
type InFlight struct {
	// mu guards next and active.
	mu     sync.Mutex
	next   uint64
	active map[uint64]bool
}

// Enter marks the start of a reconciliation, before it reads anything. It returns a function that marks the end.
func (f *InFlight) Enter() (leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.active == nil {
		f.active = map[uint64]bool{}
	}
	ticket := f.next
	f.next++
	f.active[ticket] = true
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.active, ticket)
	}
}

// Mark returns a value that represents the current moment.
func (f *InFlight) Mark() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.next
}

// Drained reports whether every reconciliation that was in flight at the mark has ended.
func (f *InFlight) Drained(mark uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for ticket := range f.active {
		if ticket < mark {
			return false
		}
	}
	return true
}
