// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/multieni/multieni/internal/base/panics"
	"github.com/multieni/multieni/internal/core/ratelimit"
)

// batcher answers many callers, each with a request for one key, with one call for each batch of keys. A batch collects
// keys until it is full or its delay ends, which is longer if the last batch began less than a window before. No caller
// joins a batch that is in flight, because its answer may be older than the caller's last change.
type batcher[V any] struct {
	size int
	call func(context.Context, []string) (map[string]V, error)

	// mu guards collecting and next, and the keys and callers of batches.
	mu         sync.Mutex
	collecting *batch[V]
	// next is the earliest begin of the next batch.
	next time.Time
}

type batch[V any] struct {
	keys    map[string]bool
	callers int
	timer   *time.Timer

	// ctx ends when the last caller has left.
	ctx    context.Context
	cancel context.CancelFunc

	done   chan struct{}
	answer map[string]V
	err    error
}

func newCoalescer[V any](size int, call func(context.Context, []string) (map[string]V, error)) *batcher[V] {
	return &batcher[V]{size: size, call: call}
}

// get returns the answer for the key, or the error of its batch, or of the caller's own context.
func (c *batcher[V]) get(ctx context.Context, key string) (V, error) {
	b := c.join(ctx, key)
	defer c.leave(b)
	select {
	case <-b.done:
		return b.answer[key], b.err
	case <-ctx.Done():
		var none V
		return none, context.Cause(ctx)
	}
}

func (c *batcher[V]) join(ctx context.Context, key string) *batch[V] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.collecting == nil {
		c.collecting = c.open(ctx)
	}
	b := c.collecting
	b.callers++
	b.keys[key] = true
	if len(b.keys) >= c.size {
		c.collecting = nil
		if b.timer.Stop() {
			go c.run(b)
		}
	}
	return b
}

// open begins a batch. For tracing it keeps the values of the first caller's context, but not its end or its priority:
// a batch has the highest priority of the callers that may join it.
func (c *batcher[V]) open(ctx context.Context) *batch[V] {
	b := &batch[V]{keys: map[string]bool{}, done: make(chan struct{})}
	ctx = ratelimit.WithRequest(context.WithoutCancel(ctx),
		ratelimit.Request{Rank: ratelimit.Rank{Class: ratelimit.Attach}})
	b.ctx, b.cancel = context.WithCancel(ctx)
	now := time.Now()
	begin := now.Add(batchDelay)
	if c.next.After(begin) {
		begin = c.next
	}
	c.next = begin.Add(window)
	b.timer = time.AfterFunc(begin.Sub(now), func() {
		c.close(b)
		c.run(b)
	})
	return b
}

// close prevents further callers from joining.
func (c *batcher[V]) close(b *batch[V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.collecting == b {
		c.collecting = nil
	}
}

func (c *batcher[V]) run(b *batch[V]) {
	defer close(b.done)
	if b.err = b.ctx.Err(); b.err == nil {
		keys := slices.Sorted(maps.Keys(b.keys))
		b.err = panics.AsError("reading "+strings.Join(keys, ", "), func() (err error) {
			b.answer, err = c.call(b.ctx, keys)
			return err
		})
	}
}

func (c *batcher[V]) leave(b *batch[V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b.callers--; b.callers > 0 {
		return
	}
	b.cancel()
	b.timer.Stop()
	if c.collecting == b {
		c.collecting = nil
	}
}
