// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cache keeps the answers of a slow source for a time. Concurrent callers share one read of a value.
package cache

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// Cache keeps values by key until they expire. It is safe for concurrent use; make one with [New].
type Cache[T any] struct {
	now    func() time.Time
	flight singleflight.Group

	// mu guards what follows.
	mu      sync.Mutex
	entries map[string]entry[T]
	// forgotten counts the calls of Forget, so that the cache does not store a value that was read before one.
	forgotten uint64
}

type entry[T any] struct {
	value   T
	expires time.Time
}

// New returns an empty cache that reads the time from now.
func New[T any](now func() time.Time) *Cache[T] {
	return &Cache[T]{now: now, entries: map[string]entry[T]{}}
}

// Get returns the value of a key, and loads it if the cache has none. load also returns how long its value stays
// cached; errors are not cached. A caller whose context ends gets the cause of that, and the load continues for the
// others.
func (c *Cache[T]) Get(
	ctx context.Context, key string, load func(context.Context) (T, time.Duration, error),
) (T, error) {
	value, kept, forgotten := c.lookup(key)
	if kept {
		return value, nil
	}
	loaded := c.flight.DoChan(key, func() (any, error) {
		value, keep, err := load(context.WithoutCancel(ctx))
		if err == nil {
			c.store(key, entry[T]{value, c.now().Add(keep)}, forgotten)
		}
		return value, err
	})
	select {
	case result := <-loaded:
		value, _ := result.Val.(T)
		return value, result.Err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// Forget makes the next Get of a key load it.
func (c *Cache[T]) Forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, key)
	c.flight.Forget(key)
	c.forgotten++
}

func (c *Cache[T]) lookup(key string) (value T, kept bool, forgotten uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	return e.value, ok && c.now().Before(e.expires), c.forgotten
}

// store stores a value unless Forget was called since the given count, and drops expired values.
func (c *Cache[T]) store(key string, e entry[T], forgotten uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	for old, other := range c.entries {
		if now.After(other.expires) {
			delete(c.entries, old)
		}
	}
	if c.forgotten == forgotten {
		c.entries[key] = e
	}
}
