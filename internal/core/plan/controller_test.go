// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/era"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
)

// stored is an object at the API server.
type stored struct {
	key      identity.Interface
	settings eni.Settings
	eniID    string
	evidence plan.Evidence
	// requested and ena are what the status says.
	requested        eni.Addresses
	ena              plan.ENA
	since            time.Time
	deleting, paused bool
	// answered is set once an agent has answered, and open is its answer.
	answered, open bool
	// birth is the number of the process in whose time the object was created.
	birth int
}

func (o *stored) held() bool {
	if o.answered {
		return o.open
	}
	return o.eniID != "" && o.evidence != plan.Created
}

func (o *stored) goal() plan.Goal {
	switch {
	case o.paused:
		return plan.Keep
	case o.deleting:
		return plan.Release
	default:
		return plan.Serve
	}
}

// controller is a controller of one instance that can crash after any call. Inventory, planner and executor are the real
// ones; the code between them does the work of the instance reconciler.
type controller struct {
	rt    *rapid.T
	cloud *hostile
	// objects are those at the API server.
	objects []*stored
	// crashes makes it crash sometimes.
	crashes bool

	known    *inventory.Inventory
	attempts map[identity.UID]plan.Attempts
	era      era.Era
	process  int
	listed   time.Time
	next     time.Time
	last     plan.Plan
	log      []string
}

func newController(rt *rapid.T, cloud *hostile) *controller {
	c := &controller{rt: rt, cloud: cloud}
	c.restart()
	return c
}

// restart discards all state in memory and lists the cluster's interfaces again.
func (c *controller) restart() {
	c.process++
	c.known, c.attempts = inventory.New(cluster), nil
	c.era.Since = c.now()
	c.list()
	c.next = c.now()
}

func (c *controller) now() time.Time { return c.cloud.clock }

func (c *controller) list() (changed bool) {
	c.listed = c.now()
	return len(c.known.ObserveList(c.now(), c.cloud.list())) > 0
}

func (c *controller) say(format string, args ...any) {
	c.log = append(c.log, c.now().UTC().Format("15:04:05 ")+fmt.Sprintf(format, args...))
}

// want returns the objects for the planner.
func (c *controller) want() []plan.Interface {
	var all []plan.Interface
	for _, o := range c.objects {
		i := plan.Interface{
			Key: o.key, Goal: o.goal(), Tags: o.key.Tags(o.since, nil), Settings: o.settings, ENIID: o.eniID,
			Launched: o.evidence == plan.Launched, Registered: true, Inherited: o.birth < c.process, Held: o.held(),
			Requested: o.requested, ENA: o.ena, Since: o.since,
		}
		if o.paused {
			i.Problem = &plan.Problem{Reason: plan.Retained, Message: "paused"}
		}
		all = append(all, i)
	}
	return all
}

func (c *controller) facts(look *eni.InstanceSnapshot) plan.Facts {
	f := plan.Facts{Interfaces: c.known.Of(instance), Snapshot: look, Attempts: c.attempts, Era: c.era}
	if look != nil {
		f.Limits = c.cloud.limits
	}
	return f
}

// reconcile plans and executes until a plan has no calls. It reports whether it crashed meanwhile.
func (c *controller) reconcile() (crashed bool) {
	var look *eni.InstanceSnapshot
	for range 20 {
		c.last = plan.Compute(c.want(), c.facts(look), c.now())
		c.next = c.last.Next
		if c.last.NeedsRead {
			seen := c.cloud.look()
			look = &seen
			c.known.ObserveInstance(seen)
			continue
		}
		changed := c.record(c.last)
		if len(c.last.Calls) == 0 && !changed {
			return false
		}
		if c.carryOut(c.last.Calls) {
			c.say("CRASH")
			c.restart()
			return true
		}
	}
	c.next = c.now()
	return false
}

func (c *controller) find(uid identity.UID) *stored {
	for _, o := range c.objects {
		if o.key.UID == uid {
			return o
		}
	}
	return nil
}

// record writes the states of a plan into the objects, and reports whether that changes what the next plan is based on.
func (c *controller) record(p plan.Plan) (changed bool) {
	for _, state := range p.Interfaces {
		o := c.find(state.Key.UID)
		if state.Evidence != plan.Unknown {
			for _, other := range c.objects {
				if other != o && other.eniID == state.Interface.ID {
					c.rt.Fatalf("%s is that of two objects", other.eniID)
				}
			}
			o.eniID, o.evidence, changed = state.Interface.ID, state.Evidence, true
			c.say("%s records %s by evidence %d", o.key.Name, o.eniID, o.evidence)
		}
		o.requested, o.ena = state.Requested, state.ENA
	}
	for _, uid := range p.Spent {
		if o := c.find(uid); !o.deleting {
			o.deleting, changed = true, true
			c.say("%s is spent", o.key.Name)
		}
	}
	for _, uid := range p.Gone {
		if o := c.find(uid); o != nil && o.deleting && !o.paused {
			c.say("%s is gone", o.key.Name)
			c.remove(o)
			changed = true
		}
	}
	return changed
}

func (c *controller) remove(o *stored) {
	c.objects = slices.DeleteFunc(c.objects, func(other *stored) bool { return other == o })
}

// carryOut makes the calls one by one, so that a run can be replayed.
func (c *controller) carryOut(calls []plan.Call) (crashed bool) {
	applier := executor.New(c.cloud, c.known, executor.Options{Members: 1, Removals: 1, Now: c.now})
	failed := map[identity.UID]bool{}
	for _, call := range calls {
		uid := call.Of().UID
		if failed[uid] {
			continue
		}
		outcome := applier.Do(context.Background(), []plan.Call{call})[0]
		c.say("%s %s -> %v", uid, call, outcome.Err)
		if c.crashes && rapid.IntRange(0, 9).Draw(c.rt, "crash") == 9 {
			return true
		}
		failed[uid] = outcome.Err != nil
		c.attempts = plan.Record(c.attempts, call, outcome.Err, c.now())
	}
	return false
}

// poll reads the interfaces that EC2 is changing.
func (c *controller) poll() (changed bool) {
	ids := c.known.InTransition()
	if len(ids) == 0 {
		return false
	}
	shown := c.cloud.describe(ids)
	seen := c.known.ObserveInterfaces(c.now(), shown...)
	for _, id := range ids {
		if !slices.ContainsFunc(shown, func(i eni.Interface) bool { return i.ID == id }) {
			seen = append(seen, c.known.ObserveAbsence(c.now(), id)...)
		}
	}
	return len(seen) > 0
}

// idle lets time pass as for the real controller, which plans after a change and at the requeue time, and otherwise
// only lists every five minutes.
func (c *controller) idle(d time.Duration) {
	end := c.now().Add(d)
	for c.now().Before(end) {
		wait := c.listed.Add(5 * time.Minute).Sub(c.now())
		if !c.next.IsZero() {
			wait = min(wait, c.next.Sub(c.now()))
		}
		if len(c.known.InTransition()) > 0 {
			wait = min(wait, 2*time.Second)
		}
		c.cloud.clock = c.now().Add(min(max(wait, 50*time.Millisecond), end.Sub(c.now())))
		changed := c.poll()
		if c.now().Sub(c.listed) >= 5*time.Minute {
			changed = c.list() || changed
		}
		if changed || !c.next.IsZero() && !c.now().Before(c.next) {
			c.reconcile()
		}
	}
}
