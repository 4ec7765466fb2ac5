// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/era"
	"github.com/multieni/multieni/internal/core/fleet"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// restartable is a controller of one instance that can crash after any call. Inventory, planner and executor are the
// real ones; the code between them does the work of the node reconciler.
type restartable struct {
	rt    *rapid.T
	cloud *hostile
	// desired returns the present desired state.
	desired func() render.Declared
	// crashes makes it crash sometimes; forgetful makes it also lose the ledger then.
	crashes, forgetful bool

	known    *inventory.Inventory
	ledger   identity.Generations
	attempts plan.Attempts
	// recorded are the requested addresses in the node's state.
	recorded   map[string]eni.Addresses
	mayReplace bool
	// since is the time of the last start.
	since  time.Time
	listed time.Time
	next   time.Time
	last   plan.Plan
	// denied are the interfaces that the last plan leaves for a person.
	denied []string
	// unsettled are the owners of desired interfaces that were not attached at the last plan.
	unsettled []identity.Owner
	log       []string
}

func newRestartable(rt *rapid.T, cloud *hostile, desired func() render.Declared) *restartable {
	c := &restartable{rt: rt, cloud: cloud, desired: desired, mayReplace: true, ledger: identity.Generations{}, recorded: map[string]eni.Addresses{}}
	c.restart()
	return c
}

// restart discards all state in memory and lists the cluster's interfaces again.
func (c *restartable) restart() {
	c.known = inventory.New(cluster)
	c.attempts = plan.Attempts{}
	if c.forgetful {
		c.ledger = identity.Generations{}
	}
	c.list()
	c.since, c.next = c.now(), c.now()
}

func (c *restartable) now() time.Time { return c.cloud.clock }

func (c *restartable) list() (changed bool) {
	c.listed = c.now()
	return len(c.known.ObserveList(c.now(), c.cloud.list())) > 0
}

func (c *restartable) say(format string, args ...any) {
	c.log = append(c.log, c.now().UTC().Format("15:04:05 ")+fmt.Sprintf(format, args...))
}

// reconcile plans and executes until a plan has no actions. It reports whether it crashed meanwhile.
func (c *restartable) reconcile() (crashed bool) {
	var look *eni.InstanceSnapshot
	for range 12 {
		o := plan.Observed{
			Owned: c.known.Of(instance), UsedGenerations: c.known.UsedGenerations(instance), RemovedExternally: c.known.RemovedExternally(instance), Snapshot: look, Ledger: c.ledger, Attempts: c.attempts,
			Era: era.Era{Since: c.since}, Stored: requested(c.requested()),
		}
		if look != nil {
			o.Limits = c.cloud.limits
		}
		rendered := render.Interfaces(c.desired(), render.Evidence{}, o, c.now())
		rollout := fleet.Next(rendered.Desired, o, c.now())
		c.last = plan.Compute(rollout.Decide(rendered.Desired, fleet.Permission{Granted: c.mayReplace}), o, c.now())
		c.denied, c.unsettled = denied(rendered), rollout.Unsettled
		c.next = c.last.RequeueAt
		c.record(c.last)
		c.known.Judged(c.now(), instance, rendered.Verified, c.denied)
		if c.last.NeedsDescribe {
			seen := c.cloud.look()
			look = &seen
			c.known.ObserveInstance(seen)
			continue
		}
		c.ledger = c.last.Ledger
		if len(c.last.Actions) == 0 {
			return false
		}
		if c.carryOut(c.last.Actions) {
			c.say("CRASH")
			c.restart()
			return true
		}
	}
	c.next = c.now()
	return false
}

// requested returns the addresses that EC2's answers named, to this process and to earlier ones.
func (c *restartable) requested() map[string]eni.Addresses {
	all := maps.Clone(c.recorded)
	maps.Copy(all, c.known.Requested(instance))
	return all
}

// record stores the requested addresses of a plan, as the node's state does.
func (c *restartable) record(p plan.Plan) {
	for _, m := range p.Members {
		if m.Interface != nil {
			c.recorded[m.Interface.ID] = m.Requested
		}
	}
}

// denied returns the IDs of the interfaces that a rendering retains as unverified.
func denied(r render.Rendering) []string {
	var ids []string
	for _, u := range r.Unverified {
		ids = append(ids, u.ID)
	}
	return ids
}

// carryOut makes the calls one by one, so that a run can be replayed.
func (c *restartable) carryOut(actions []plan.Action) (crashed bool) {
	applier := executor.New(c.cloud, c.known, executor.Options{Members: 1, Removals: 1, Now: c.now})
	failed := map[identity.Key]bool{}
	for _, action := range actions {
		key := action.Of().Key
		if failed[key] {
			continue
		}
		outcome := applier.Do(context.Background(), []plan.Action{action})[0]
		c.say("%s[%d/%d] %s -> %v", key.Owner, key.Ordinal, action.Of().Generation, action, outcome.Err)
		if c.crashes && rapid.IntRange(0, 9).Draw(c.rt, "crash") == 9 {
			return true
		}
		failed[key] = outcome.Err != nil
		c.attempts = c.attempts.After(action, outcome.Err, c.now())
	}
	return false
}

// poll reads the interfaces that EC2 is changing.
func (c *restartable) poll() (changed bool) {
	ids := c.known.InTransition()
	if len(ids) == 0 {
		return false
	}
	shown := c.cloud.describe(ids)
	members := c.known.ObserveInterfaces(c.now(), shown...)
	for _, id := range ids {
		if !slices.ContainsFunc(shown, func(i eni.Interface) bool { return i.ID == id }) {
			members = append(members, c.known.ObserveAbsence(c.now(), id)...)
		}
	}
	return len(members) > 0
}

// idle lets time pass as for the real controller, which plans after a change and at the requeue time, and otherwise
// only lists every five minutes.
func (c *restartable) idle(d time.Duration) {
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
