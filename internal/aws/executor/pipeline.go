// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/multieni/multieni/internal/base/panics"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/ratelimit"
)

// Pipeline executes successive plans of one instance. Calls for one interface do not wait for calls for another one: as
// soon as some have ended, the caller plans again with their outcomes, and starts the next calls while others are in
// flight. A Pipeline is for one goroutine, which must call [Pipeline.Next] until no call is in flight.
type Pipeline struct {
	applier           *Applier
	members, removals *semaphore.Weighted
	group             Group
	// underWay are the started chains that Next has not returned.
	underWay []*chain
	// mu guards ended.
	mu sync.Mutex
	// ended are those of them whose calls have ended.
	ended []*chain
}

// Group runs functions concurrently with each other and with the goroutine that starts them.
type Group interface {
	// Go begins a function.
	Go(function func())
	// Wait waits until a function has ended since the last Wait, or ended before. It may return earlier.
	Wait()
}

// goroutines is a Group of goroutines. The channel has room for one value, which signals that one has ended.
type goroutines chan struct{}

// Go implements [Group]. It does not recover panics: [Pipeline.runCall] does.
func (g goroutines) Go(function func()) {
	go func() {
		function()
		select {
		case g <- struct{}{}:
		default:
		}
	}()
}

// Wait implements [Group].
func (g goroutines) Wait() { <-g }

// sequential is a Group that runs each function to its end before the next begins.
type sequential struct{}

// Go implements [Group].
func (sequential) Go(function func()) { function() }

// Wait implements [Group].
func (sequential) Wait() {}

// chain is the calls for one interface. They follow each other and stop at the first that fails.
type chain struct {
	// uid is that of the object.
	uid identity.UID
	// interfaceID is empty until the interface is created.
	interfaceID string
	calls       []plan.Call
	outcomes    []Outcome
}

// Pipeline returns a Pipeline without calls in flight.
func (a *Applier) Pipeline() *Pipeline {
	return &Pipeline{
		applier: a, group: a.newGroup(),
		members: semaphore.NewWeighted(int64(a.Members)), removals: semaphore.NewWeighted(int64(a.Removals)),
	}
}

func (a *Applier) newGroup() Group {
	switch {
	case a.Group != nil:
		return a.Group()
	case a.Members == 1:
		return sequential{}
	default:
		return make(goroutines, 1)
	}
}

// Run plans for one instance and makes the calls, until a plan has nothing to do and no call is in flight. It plans
// again whenever the calls for one interface have ended, at most rounds times, and reports whether that was enough.
// next makes one plan: it starts calls, or none, or returns again if a fact changed that the plan is based on. record
// receives the outcomes before the next plan and, after an error, those of all calls in flight.
func (a *Applier) Run(
	rounds int, next func(*Pipeline) (again bool, err error), record func([]Outcome),
) (done bool, err error) {
	calls := a.Pipeline()
	defer func() { record(calls.Drain()) }()
	for range rounds {
		again, err := next(calls)
		switch {
		case err != nil:
			return false, err
		case again:
		case !calls.Busy():
			return true, nil
		default:
			record(calls.Next())
		}
	}
	return false, nil
}

// Busy reports whether calls are in flight.
func (p *Pipeline) Busy() bool { return len(p.underWay) > 0 }

// InFlight returns the calls whose outcomes [Pipeline.Next] has not returned.
func (p *Pipeline) InFlight() (calls []plan.Call) {
	for _, c := range p.underWay {
		calls = append(calls, c.calls...)
	}
	return calls
}

// Start starts the calls. It calls end when all of them have ended.
func (p *Pipeline) Start(ctx context.Context, calls []plan.Call, end func()) {
	chains := byInterface(calls)
	p.underWay = append(p.underWay, chains...)
	var left atomic.Int64
	left.Store(int64(len(chains)))
	for _, c := range chains {
		p.group.Go(func() {
			p.runChain(ctx, c)
			if left.Add(-1) == 0 {
				end()
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			p.ended = append(p.ended, c)
		})
	}
}

// Next waits until the calls for an interface have ended, and returns all outcomes so far. It returns none if no call
// is in flight.
func (p *Pipeline) Next() []Outcome {
	for p.Busy() {
		if ended := p.collectEnded(); len(ended) > 0 {
			p.underWay = slices.DeleteFunc(p.underWay, func(c *chain) bool { return slices.Contains(ended, c) })
			return outcomesOf(ended)
		}
		p.group.Wait()
	}
	return nil
}

// collectEnded returns the chains that ended since its last call.
func (p *Pipeline) collectEnded() (ended []*chain) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ended, p.ended = p.ended, nil
	return ended
}

// Drain waits for all calls in flight and returns their outcomes.
func (p *Pipeline) Drain() (outcomes []Outcome) {
	for p.Busy() {
		outcomes = append(outcomes, p.Next()...)
	}
	return outcomes
}

func outcomesOf(chains []*chain) (outcomes []Outcome) {
	for _, c := range chains {
		outcomes = append(outcomes, c.outcomes...)
	}
	return outcomes
}

// byInterface splits calls into one chain per interface, both in the order given.
func byInterface(calls []plan.Call) (chains []*chain) {
	for _, call := range calls {
		uid, id := call.Of().UID, call.Interface()
		n := slices.IndexFunc(chains, func(c *chain) bool { return c.uid == uid && c.interfaceID == id })
		if n < 0 {
			n = len(chains)
			chains = append(chains, &chain{uid: uid, interfaceID: id})
		}
		chains[n].calls = append(chains[n].calls, call)
	}
	return chains
}

// runChain makes the calls of a chain.
func (p *Pipeline) runChain(ctx context.Context, c *chain) {
	// If the context ends this wait, each call below returns its error.
	if p.members.Acquire(ctx, 1) == nil {
		defer p.members.Release(1)
	}
	for _, call := range c.calls {
		err := ctx.Err()
		if err == nil {
			err = p.runCall(ctx, call)
		}
		c.outcomes = append(c.outcomes, Outcome{call, err})
		if err != nil {
			return
		}
	}
}

func (p *Pipeline) runCall(ctx context.Context, call plan.Call) error {
	ctx, end := traced(ratelimit.In(ctx, ClassOf(call)), call)
	err := panics.AsError(objectOf(call), func() error { return p.carryOut(ctx, call) })
	end(err)
	if err != nil {
		return fmt.Errorf("%s: %w", call, err)
	}
	return nil
}

// objectOf names the interface of a call.
func objectOf(call plan.Call) string {
	key := call.Of()
	return fmt.Sprintf("NodeENI %s on node %s", key.NodeENI, key.Node)
}

func (p *Pipeline) carryOut(ctx context.Context, call plan.Call) error {
	a := p.applier
	switch call := call.(type) {
	case plan.Create:
		return a.create(ctx, call)
	case plan.Attach:
		return a.attach(ctx, call)
	case plan.Change:
		return a.change(ctx, call)
	case plan.Detach:
		return p.limitRemovals(ctx, func() error { return a.detach(ctx, call) })
	case plan.Delete:
		return p.limitRemovals(ctx, func() error { return a.delete(ctx, call) })
	default:
		return nil
	}
}

// limitRemovals bounds the removals in flight.
func (p *Pipeline) limitRemovals(ctx context.Context, call func() error) error {
	if err := p.removals.Acquire(ctx, 1); err != nil {
		return err
	}
	defer p.removals.Release(1)
	return call()
}
