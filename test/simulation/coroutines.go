// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"iter"
	"slices"

	"github.com/multieni/multieni/internal/aws/executor"
)

// coroutines run the calls for the interfaces of one instance interleaved in one goroutine: each stops in the middle of
// its calls, and the seed chooses which one continues. A call can thus take effect, and be answered, before or after
// any other call and any plan that is made meanwhile.
type coroutines struct {
	p   *process
	all []*coroutine
}

var _ executor.Group = (*coroutines)(nil)

type coroutine struct {
	of   *coroutines
	goOn func() (struct{}, bool)
	stop func(struct{}) bool
	// depth is that of the process' frame that the coroutine belongs to. A frame that begins while a call of the
	// coroutine is in flight has coroutines of its own.
	depth int
}

// Go implements [apply.Group].
func (c *coroutines) Go(function func()) {
	one := &coroutine{of: c, depth: c.p.depth}
	one.goOn, _ = iter.Pull(func(yield func(struct{}) bool) {
		one.stop = yield
		function()
	})
	c.all = append(c.all, one)
}

// Wait implements [apply.Group].
func (c *coroutines) Wait() {
	for {
		n := c.p.run.pick(len(c.all))
		if !c.goOn(c.all[n]) {
			c.all = slices.Delete(c.all, n, n+1)
			return
		}
	}
}

// goOn runs a coroutine until it stops, and reports whether it continues later.
func (c *coroutines) goOn(one *coroutine) bool {
	before := c.p.running
	c.p.running = one
	defer func() { c.p.running = before }()
	_, more := one.goOn()
	return more
}

// yields lets the other calls for the same instance continue while a call is in flight. The process may have crashed
// when yields returns.
func (p *process) yields(action string) {
	if one := p.running; one != nil && one.depth == p.depth {
		if len(one.of.all) > 1 {
			p.run.covers.Overlaps[action]++
		}
		one.stop(struct{}{})
	}
	p.mustLive()
}
