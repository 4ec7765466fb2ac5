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

// Go implements [Group]. It does not recover panics: [Pipeline.runAction] does.
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

// chain is the actions for one interface of a member. They follow each other and stop at the first that fails.
type chain struct {
	identity.Key
	// interfaceID is empty until the interface is created.
	interfaceID string
	actions     []plan.Action
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

// InFlight returns the actions whose outcomes [Pipeline.Next] has not returned.
func (p *Pipeline) InFlight() (actions []plan.Action) {
	for _, c := range p.underWay {
		actions = append(actions, c.actions...)
	}
	return actions
}

// Start starts the calls. It calls end when all of them have ended.
func (p *Pipeline) Start(ctx context.Context, actions []plan.Action, end func()) {
	chains := byInterface(actions)
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

// byInterface splits actions into one chain per interface of a member, both in the order given.
func byInterface(actions []plan.Action) (chains []*chain) {
	for _, action := range actions {
		key, id := action.Of().Key, action.Interface()
		n := slices.IndexFunc(chains, func(c *chain) bool { return c.Key == key && c.interfaceID == id })
		if n < 0 {
			n = len(chains)
			chains = append(chains, &chain{Key: key, interfaceID: id})
		}
		chains[n].actions = append(chains[n].actions, action)
	}
	return chains
}

// runChain makes the calls of a chain.
func (p *Pipeline) runChain(ctx context.Context, c *chain) {
	// If the context ends this wait, each action below returns its error.
	if p.members.Acquire(ctx, 1) == nil {
		defer p.members.Release(1)
	}
	for _, action := range c.actions {
		err := ctx.Err()
		if err == nil {
			err = p.runAction(ctx, action)
		}
		c.outcomes = append(c.outcomes, Outcome{action, err})
		if err != nil {
			return
		}
	}
}

func (p *Pipeline) runAction(ctx context.Context, action plan.Action) error {
	ctx, end := traced(ratelimit.In(ctx, ClassOf(action)), action)
	err := panics.AsError(objectOf(action), func() error { return p.carryOut(ctx, action) })
	end(err)
	if err != nil {
		return fmt.Errorf("%s: %w", action, err)
	}
	return nil
}

// objectOf names the interface or member of an action.
func objectOf(action plan.Action) string {
	m := action.Of()
	return fmt.Sprintf("NodeENI %s on node %s", m.NodeENI, m.Node)
}

func (p *Pipeline) carryOut(ctx context.Context, action plan.Action) error {
	a := p.applier
	switch action := action.(type) {
	case plan.Create:
		return a.create(ctx, action)
	case plan.Attach:
		return a.attach(ctx, action)
	case plan.Change:
		return a.change(ctx, action)
	case plan.Detach:
		return p.limitRemovals(ctx, func() error { return a.detach(ctx, action) })
	case plan.Delete:
		return p.limitRemovals(ctx, func() error { return a.delete(ctx, action) })
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
