// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/multieni/multieni/internal/core/era"
)

// Fence keeps a process from changing anything after it lost its lease without noticing, for example because it was
// suspended. It records when the process got the lease and when it last renewed it, by the process's own clock.
type Fence struct {
	// Deadline is how long after a renewal the process certainly still holds the lease.
	Deadline time.Duration
	// Now returns the current time. It must not go back, like a monotonic clock.
	Now func() time.Time

	// mu guards renewed and era.
	mu      sync.Mutex
	renewed time.Time
	era     era.Era
}

// Wrap returns a lock that also records every successful renewal.
func (f *Fence) Wrap(lock resourcelock.Interface) resourcelock.Interface {
	return &fencedLock{Interface: lock, fence: f}
}

// Check returns an error when another process may have acquired the lease.
func (f *Fence) Check() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if age := f.Now().Sub(f.renewed); age > f.Deadline {
		return fmt.Errorf("the leader lease was last renewed %s ago; another replica may be the leader",
			age.Round(time.Millisecond))
	}
	return nil
}

// Era returns the era of the process. It begins with the call that got the lease: a lease is only given after it
// expired or was given up, and the holder before began its last call earlier, by its own fence.
func (f *Fence) Era() era.Era {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.era
}

func (f *Fence) note(begun time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.renewed = begun
	if f.era.Since.IsZero() {
		f.era.Since = begun
	}
}

type fencedLock struct {
	resourcelock.Interface
	fence *Fence
}

// Create implements [resourcelock.Interface].
func (g *fencedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return g.noting(record, func() error { return g.Interface.Create(ctx, record) })
}

// Update implements [resourcelock.Interface].
func (g *fencedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return g.noting(record, func() error { return g.Interface.Update(ctx, record) })
}

// noting records the time before a call that succeeds: the lease starts when the server accepts the call, which is
// later. A record without a holder, or with another one, ends the lease.
func (g *fencedLock) noting(record resourcelock.LeaderElectionRecord, call func() error) error {
	begun := g.fence.Now()
	if record.HolderIdentity != g.Identity() {
		begun = time.Time{}
	}
	err := call()
	if err == nil {
		g.fence.note(begun)
	}
	return err
}
