// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/multieni/multieni/eni"
	"github.com/multieni/multieni/internal/panics"
	"github.com/multieni/multieni/ownership"
	"github.com/multieni/multieni/pace"
	"github.com/multieni/multieni/plan"
)

// Pipeline carries out successive plans of one instance. Calls for one interface do not wait for calls for another one: as
// soon as some have ended, the caller plans again with what they did, and starts what follows beside those under way.
// A Pipeline is for one goroutine, which has to call [Pipeline.Next] until nothing is under way.
type Pipeline struct {
	applier           *Applier
	members, removals *semaphore.Weighted
	// underWay are the chains that were started and that Next has not returned.
	underWay []*chain
	ended    chan *chain
}

// chain is the actions for one interface of a member. They follow each other and stop at the first that fails.
type chain struct {
	ownership.Key
	// interfaceID is empty while the interface is to be made.
	interfaceID string
	actions     []plan.Action
	outcomes    []Outcome
	ctx         context.Context
	end         func()
}

// Pipeline returns a Pipeline with nothing under way.
func (a *Applier) Pipeline() *Pipeline {
	return &Pipeline{
		applier: a, ended: make(chan *chain),
		members: semaphore.NewWeighted(int64(a.Members)), removals: semaphore.NewWeighted(int64(a.Removals)),
	}
}

// Busy reports whether calls are under way.
func (p *Pipeline) Busy() bool { return len(p.underWay) > 0 }

// Slots returns the slot of each member whose interface is being made or attached.
func (p *Pipeline) Slots() map[ownership.Key]eni.Slot {
	slots := map[ownership.Key]eni.Slot{}
	for _, c := range p.underWay {
		for _, action := range c.actions {
			switch action := action.(type) {
			case plan.Create:
				slots[c.Key] = action.Slot
			case plan.Attach:
				slots[c.Key] = action.Slot
			}
		}
	}
	return slots
}

// Ready leaves out the actions that have to wait for calls under way: those for an interface whose earlier call has not
// ended, and those that attach an interface to a slot to which another one is being attached.
func (p *Pipeline) Ready(actions []plan.Action) []plan.Action {
	return slices.DeleteFunc(slices.Clone(actions), func(action plan.Action) bool {
		return slices.ContainsFunc(p.underWay, func(c *chain) bool { return c.holdsUp(action) })
	})
}

// holdsUp reports whether an action has to wait for the end of the chain.
func (c *chain) holdsUp(action plan.Action) bool {
	if c.Key == action.Of().Key && (c.interfaceID == "" || c.interfaceID == interfaceOf(action)) {
		return true
	}
	attach, attaches := action.(plan.Attach)
	return attaches && slices.ContainsFunc(c.actions, func(before plan.Action) bool {
		other, is := before.(plan.Attach)
		return is && other.Slot == attach.Slot
	})
}

// follows says in which context the calls are made, and what is done when they have ended.
func (c *chain) follows(ctx context.Context, end func()) { c.ctx, c.end = ctx, end }

// Start begins to make the calls, and calls end when all of them have ended.
func (p *Pipeline) Start(ctx context.Context, actions []plan.Action, end func()) {
	chains := byInterface(actions)
	var left atomic.Int64
	left.Store(int64(len(chains)))
	ended := func() {
		if left.Add(-1) == 0 {
			end()
		}
	}
	for _, c := range chains {
		c.follows(ctx, ended)
		if p.applier.Members > 1 {
			go func() {
				p.follow(c)
				p.ended <- c
			}()
		}
	}
	p.underWay = append(p.underWay, chains...)
}

// Next waits until the calls for an interface have ended, and returns the outcomes of all that have. With one member at a
// time it makes all the calls that were started.
func (p *Pipeline) Next() []Outcome {
	if p.applier.Members == 1 {
		for _, c := range p.underWay {
			p.follow(c)
		}
		defer func() { p.underWay = nil }()
		return outcomesOf(p.underWay)
	}
	ended := []*chain{<-p.ended}
	for isNews := true; isNews; {
		select {
		case c := <-p.ended:
			ended = append(ended, c)
		default:
			isNews = false
		}
	}
	p.underWay = slices.DeleteFunc(p.underWay, func(c *chain) bool { return slices.Contains(ended, c) })
	return outcomesOf(ended)
}

// Drain waits for all calls under way and returns their outcomes.
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
		key, id := action.Of().Key, interfaceOf(action)
		n := slices.IndexFunc(chains, func(c *chain) bool { return c.Key == key && c.interfaceID == id })
		if n < 0 {
			n = len(chains)
			chains = append(chains, &chain{Key: key, interfaceID: id})
		}
		chains[n].actions = append(chains[n].actions, action)
	}
	return chains
}

// interfaceOf returns the ID of the interface that an action is about; one to be made has none.
func interfaceOf(action plan.Action) string {
	switch action := action.(type) {
	case plan.Attach:
		return action.InterfaceID
	case plan.Detach:
		return action.InterfaceID
	case plan.Delete:
		return action.InterfaceID
	case plan.Change:
		return action.InterfaceID
	default:
		return ""
	}
}

// follow makes the calls of a chain.
func (p *Pipeline) follow(c *chain) {
	defer c.end()
	// The context of the calls ends this wait too, and each call finds that out by itself.
	if p.members.Acquire(c.ctx, 1) == nil {
		defer p.members.Release(1)
	}
	for _, action := range c.actions {
		err := c.ctx.Err()
		if err == nil {
			err = p.one(c.ctx, action)
		}
		c.outcomes = append(c.outcomes, Outcome{action, err})
		if err != nil {
			return
		}
	}
}

func (p *Pipeline) one(ctx context.Context, action plan.Action) error {
	ctx, end := traced(pace.In(ctx, ClassOf(action)), action)
	err := panics.AsError(objectOf(action), func() error { return p.carryOut(ctx, action) })
	end(err)
	if err != nil {
		return fmt.Errorf("%s: %w", action, err)
	}
	return nil
}

// objectOf names what an action is done for.
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
		return p.removing(ctx, func() error { return a.detach(ctx, action) })
	case plan.Delete:
		return p.removing(ctx, func() error { return a.delete(ctx, action) })
	default:
		return nil
	}
}

// removing bounds how many removals are under way.
func (p *Pipeline) removing(ctx context.Context, call func() error) error {
	if err := p.removals.Acquire(ctx, 1); err != nil {
		return err
	}
	defer p.removals.Release(1)
	return call()
}
