// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/aws/observer"
	"github.com/multieni/multieni/internal/base/clock"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/lifecycle"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// run is the state of the work on one instance.
type run struct {
	*Joiner
	instanceID string
	watch      *observer.Observer
	applier    *executor.Applier
	attempts   plan.Attempts
	ledger     identity.Generations
	// created are the interfaces that this run created or attached.
	created  map[string]bool
	attached int
	look     eni.InstanceSnapshot
	// failed is set when a call of the last round failed; the next round then reads the instance again.
	failed   bool
	failures int
	// spent is when EC2 first reported the client token of a member as used, until a call has another token. recreatedAt
	// is when that happened last.
	spent       map[identity.Key]time.Time
	recreatedAt time.Time
	limits      eni.Limits
	demand      lifecycle.Desired
	plan        plan.Plan
}

func (j *Joiner) newRun(instanceID string) *run {
	watch := observer.New(j.Cloud, observer.Options{Cluster: j.Config.Cluster, Now: j.Now, Log: j.Log})
	return &run{
		Joiner: j, instanceID: instanceID, watch: watch,
		applier: executor.New(j.Cloud, watch, executor.Options{Members: maxParallelMembers,
			Removals: maxParallelMembers, Addresses: j.Addresses, Now: j.Now}),
		ledger: identity.Generations{}, created: map[string]bool{}, spent: map[identity.Key]time.Time{},
	}
}

// round makes all calls that are possible without waiting, and returns how long to wait until the next round.
func (r *run) round(ctx context.Context) (lifecycle.Result, time.Duration, error) {
	state := r.look.Instance.State
	if r.failed || !state.Attachable() || r.Now().Sub(r.look.At) >= snapshotMaxAge {
		look, err := r.watch.DescribeInstance(ctx, r.instanceID)
		if err != nil {
			return lifecycle.Result{}, 0, err
		}
		r.look, state = look, look.Instance.State
	}
	if state.Terminating() || state == eni.InstanceMissing {
		return r.Config.Evaluate(state, r.demand, r.plan), 2 * poll, nil
	}
	if err := r.settle(ctx); err != nil {
		return lifecycle.Result{}, 0, err
	}
	r.failures = 0
	wait := 2 * poll
	if again := r.plan.RequeueAt.Sub(r.Now()); !r.plan.RequeueAt.IsZero() && state.Attachable() {
		wait = min(max(again, poll), snapshotMaxAge)
	}
	return r.Config.Evaluate(state, r.demand, r.plan), wait, nil
}

// settle computes and executes plans until one has no action.
func (r *run) settle(ctx context.Context) error {
	found, err := r.find(ctx)
	if err != nil {
		return err
	}
	if r.limits, err = r.Cloud.Limits(ctx, r.look.Instance.Type); err != nil {
		return err
	}
	r.failed = false
	next := func(calls *executor.Pipeline) (again bool, err error) {
		r.demand = r.Config.Desired(r.look, found)
		r.plan = r.compute(r.look, r.demand.Declared, r.limits, calls.InFlight())
		r.announce(ctx, r.plan.Actions)
		calls.Start(ctx, r.plan.Actions, func() {})
		return false, nil
	}
	_, err = r.applier.Run(maxRounds, next, r.record)
	return err
}

// compute plans for the instance. The generation of its members is the time at which the instance was launched, so that
// all processes use the same client token.
func (r *run) compute(
	look eni.InstanceSnapshot, d render.Declared, limits eni.Limits, inFlight []plan.Action,
) plan.Plan {
	for _, claim := range d.Claims {
		for _, desired := range claim.Interfaces {
			key := identity.Key{Owner: claim.Owner, Ordinal: desired.Ordinal}
			r.ledger[key] = max(r.ledger[key], identity.GenerationAt(look.Instance.LaunchedAt))
		}
	}
	known := r.watch.Of(r.instanceID)
	o := plan.Observed{
		Owned: networksOf(known.Owned), UsedGenerations: known.UsedGenerations,
		RemovedExternally: known.RemovedExternally, MissingSince: missingSince(known),
		Snapshot: &look, Limits: limits, Ledger: r.ledger, Attempts: r.attempts, InFlight: inFlight,
	}
	p := plan.Compute(render.Interfaces(d, render.Evidence{}, o, r.Now()).Desired, o, r.Now())
	r.ledger = p.Ledger
	return p
}

// networksOf returns the interfaces of networks, without those of NodeENIs.
func networksOf(owned []inventory.Record) []inventory.Record {
	var ours []inventory.Record
	for _, r := range owned {
		if r.Member.Owner.IsNetwork() {
			ours = append(ours, r)
		}
	}
	return ours
}

// missingSince returns the time from which an instance that EC2 does not return counts as missing. EC2 may not return a
// new instance for a while; the generation of its interfaces is its start time.
func missingSince(known observer.NodeInventory) time.Time {
	since := known.MissingSince
	for _, record := range known.Owned {
		if started := record.Member.Generation.Time(); !since.IsZero() && started.Before(since) {
			since = started
		}
	}
	return since
}

// do executes actions and records their outcomes.
func (r *run) do(ctx context.Context, actions []plan.Action) []executor.Outcome {
	r.announce(ctx, actions)
	outcomes := r.applier.Do(ctx, actions)
	r.record(outcomes)
	return outcomes
}

// record stores the outcomes of actions.
func (r *run) record(outcomes []executor.Outcome) {
	for _, o := range outcomes {
		r.attempts = r.attempts.After(o.Action, o.Err, r.Now())
		r.recordToken(o)
		log := r.Log.With("instance", r.instanceID, "network", o.Action.Of().NodeENI,
			"action", o.Action.String())
		if o.Err != nil {
			r.failed = true
			log.Warn("could not be carried out", "class", eni.ErrorClass(o.Err), "err", o.Err)
			continue
		}
		r.recordCreated(o.Action)
		log.Info("carried out")
		if create, is := o.Action.(plan.Create); is {
			r.warnOfNeighbours(create, log)
		}
	}
}

// recordToken stores which members wait because their client token is used. The wait of a member ends with the first
// call that has another token.
func (r *run) recordToken(o executor.Outcome) {
	create, is := o.Action.(plan.Create)
	if !is {
		return
	}
	_, waits := r.spent[create.Member.Key]
	switch isSpent := eni.ErrorClass(o.Err) == eni.IdempotencyMismatch; {
	case isSpent && !waits:
		r.spent[create.Member.Key] = r.Now()
	case !isSpent && waits:
		delete(r.spent, create.Member.Key)
		r.recreatedAt = r.Now()
	}
}

// warnOfNeighbours says that the instance has an interface without an owner in the subnet of a new one, at another
// slot: a published Multus function may have attached it for the same network.
func (r *run) warnOfNeighbours(create plan.Create, log *slog.Logger) {
	for _, i := range r.look.Interfaces {
		if identity.HasNoOwner(i.Tags) && i.AttachedTo(r.instanceID) && i.SubnetID == create.SubnetID {
			log.Warn("the instance has two interfaces in this subnet now: the tags of one name no owner, and it is not at the "+
				"declared slot; detach it, and declare its slot for further instances if it should serve the network",
				"interface", i.ID, "subnet", i.SubnetID, "slot", i.Attachment.Slot.String(), "declared", create.Slot.String())
		}
	}
}

// extend returns the end of the time to wait. The interface of a used client token may only be too new to be returned,
// so another one is created after [inventory.VisibilityWindow] at the latest. No shorter timeout may end this wait: the
// next attempt would know nothing of it and begin again.
func (r *run) extend(until time.Time, timeout time.Duration) time.Time {
	ends := []time.Time{until}
	for _, at := range r.spent {
		ends = append(ends, at.Add(inventory.VisibilityWindow+timeout))
	}
	if !r.recreatedAt.IsZero() {
		ends = append(ends, r.recreatedAt.Add(timeout))
	}
	return slices.MaxFunc(ends, time.Time.Compare)
}

// announce calls Attaching for each interface that is about to be attached.
func (r *run) announce(ctx context.Context, actions []plan.Action) {
	if r.Attaching == nil {
		return
	}
	for _, action := range actions {
		for _, record := range r.watch.Of(r.instanceID).Owned {
			if attach, is := action.(plan.Attach); is && record.ID == attach.InterfaceID {
				r.Attaching(ctx, record.MAC)
			}
		}
	}
}

// recordCreated stores the interfaces that were created or attached.
func (r *run) recordCreated(action plan.Action) {
	switch a := action.(type) {
	case plan.Attach:
		r.created[a.InterfaceID] = true
		r.attached++
	case plan.Create:
		for _, record := range r.watch.Of(r.instanceID).Owned {
			if record.Member.Key == a.Member.Key && record.Member.Generation == a.Member.Generation {
				r.created[record.ID] = true
			}
		}
	}
}

// rollBack removes interfaces of the instance until none is left or detachTimeout has passed. It reads before each
// attempt: a NodeENI may have adopted one meanwhile.
func (r *run) rollBack(ctx context.Context, which func(inventory.Record) bool, why string) {
	ctx, cancel := context.WithTimeout(ctx, detachTimeout)
	defer cancel()
	for ctx.Err() == nil {
		if !slices.ContainsFunc(networksOf(r.watch.Of(r.instanceID).Owned), which) {
			return
		}
		if _, err := r.watch.DescribeInstance(ctx, r.instanceID); err != nil {
			r.Log.Warn("reading EC2 failed before the removal of interfaces; the program retries",
				"instance", r.instanceID, "err", err)
		} else {
			r.do(ctx, lifecycle.RollbackActions(r.watch.Of(r.instanceID).Owned, which, why))
		}
		r.waitForTransitions(ctx, 5*poll)
	}
	r.Log.Warn("not all interfaces could be removed; their tags identify them", "instance", r.instanceID)
}

// rolledBack reports whether the rollback removes an interface when a required network is not available.
func (r *run) rolledBack(id string, unused bool) bool { return unused || r.created[id] }

// withoutRolledBack removes from a result the interfaces that the rollback removed, or left to garbage collection.
func (r *run) withoutRolledBack(result Result, unused bool) Result {
	result.Members = slices.DeleteFunc(slices.Clone(result.Members), func(m plan.Member) bool {
		return m.Interface == nil || r.rolledBack(m.Interface.ID, unused)
	})
	return result
}

// waitForTransitions waits until no interface of the instance is in transition, for the given time at most. If none is
// at first, it waits for the whole time.
func (r *run) waitForTransitions(ctx context.Context, most time.Duration) {
	until := r.Now().Add(most)
	moving := r.inTransition()
	for wait := most; wait > 0; wait = until.Sub(r.Now()) {
		if !clock.Sleep(ctx, min(poll, wait)) {
			return
		}
		r.watch.PollOnce(ctx)
		if moving && !r.inTransition() {
			return
		}
	}
}

// inTransition reports whether EC2 is changing an interface of the instance.
func (r *run) inTransition() bool {
	return slices.ContainsFunc(r.watch.Of(r.instanceID).Owned, func(i inventory.Record) bool { return i.InTransition() })
}

// backoff returns how long to wait after a failed read.
func (r *run) backoff() time.Duration {
	r.failures++
	return min(poll<<min(r.failures, 4), snapshotMaxAge)
}

func (r *run) result(v lifecycle.Result) Result {
	return Result{Result: v, Instance: r.look.Instance, Limits: r.limits, Members: r.plan.Members,
		Served: r.demand.Served, Attached: r.attached}
}
