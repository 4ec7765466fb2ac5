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
)

// run is the state of the work on one instance.
type run struct {
	*Joiner
	instanceID string
	watch      *observer.Observer
	applier    *executor.Applier
	attempts   map[identity.UID]plan.Attempts
	// created are the interfaces that this run created or attached.
	created  map[string]bool
	attached int
	look     eni.InstanceSnapshot
	// failed is set when a call of the last round failed; the next round then reads the instance again.
	failed   bool
	failures int
	// spent is when EC2 first reported the client token of an interface as used, by the name of its object, until a call
	// has another token. recreatedAt is when that happened last.
	spent       map[string]time.Time
	recreatedAt time.Time
	// decided is when the run decided again about an interface whose client token EC2 refused, by the name of its object.
	decided map[string]time.Time
	// givenUp are the interfaces that EC2 does not attach. They are removed, and others are created.
	givenUp map[string]bool
	limits  eni.Limits
	demand  lifecycle.Desired
	plan    plan.Plan
}

func (j *Joiner) newRun(instanceID string) *run {
	watch := observer.New(j.Cloud, observer.Options{Cluster: j.Config.Cluster, Now: j.Now, Log: j.Log})
	return &run{
		Joiner: j, instanceID: instanceID, watch: watch,
		applier: executor.New(j.Cloud, watch, executor.Options{Members: maxParallelMembers,
			Removals: maxParallelMembers, Addresses: j.Addresses, Now: j.Now}),
		created: map[string]bool{}, spent: map[string]time.Time{}, decided: map[string]time.Time{},
		givenUp: map[string]bool{},
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
	if again := r.plan.Next.Sub(r.Now()); !r.plan.Next.IsZero() && state.Attachable() {
		wait = min(max(again, poll), snapshotMaxAge)
	}
	return r.Config.Evaluate(state, r.demand, r.plan), wait, nil
}

// settle computes and executes plans until one has no call.
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
		known := r.watch.Of(r.instanceID)
		owned := slices.DeleteFunc(networksOf(known.Interfaces), func(i inventory.Record) bool { return r.givenUp[i.ID] })
		r.demand = r.Config.Desired(r.look, found, owned, r.decided)
		want := slices.Concat(r.demand.Interfaces, r.removed(known.Interfaces))
		r.plan = r.compute(r.look, want, r.limits, calls.InFlight())
		r.announce(ctx, r.plan.Calls)
		calls.Start(ctx, r.plan.Calls, func() {})
		return r.renew(), nil
	}
	_, err = r.applier.Run(maxRounds, next, r.record)
	return err
}

// removed returns the interfaces that were given up as objects that are being deleted.
func (r *run) removed(owned []inventory.Record) []plan.Interface {
	var all []plan.Interface
	for _, record := range owned {
		if r.givenUp[record.ID] {
			all = append(all, lifecycle.Existing(record, plan.Release))
		}
	}
	return all
}

// renew decides again about the interfaces that can have no further one under their client token, and reports whether
// there are any.
func (r *run) renew() bool {
	for _, uid := range r.plan.Spent {
		for _, i := range r.demand.Interfaces {
			if i.Key.UID != uid {
				continue
			}
			r.decided[i.Key.Name] = later(r.Now(), r.decided[i.Key.Name].Add(time.Second))
			if i.ENIID != "" {
				r.givenUp[i.ENIID] = true
			}
		}
	}
	return len(r.plan.Spent) > 0
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// compute plans for the instance.
func (r *run) compute(
	look eni.InstanceSnapshot, want []plan.Interface, limits eni.Limits, inFlight []plan.Call,
) plan.Plan {
	known := r.watch.Of(r.instanceID)
	return plan.Compute(want, plan.Facts{
		Interfaces: networksOf(known.Interfaces), MissingSince: missingSince(known), Snapshot: &look, Limits: limits,
		Attempts: r.attempts, InFlight: inFlight,
	}, r.Now())
}

// networksOf returns the interfaces of networks, without those of NodeENIs.
func networksOf(owned []inventory.Record) []inventory.Record {
	var ours []inventory.Record
	for _, r := range owned {
		if r.Tagged.UID.IsNetwork() {
			ours = append(ours, r)
		}
	}
	return ours
}

// missingSince returns the time from which an instance that EC2 does not return counts as missing. EC2 may not return a
// new instance for a while; its interfaces are not older than its start.
func missingSince(known observer.InstanceInventory) time.Time {
	since := known.MissingSince
	for _, record := range known.Interfaces {
		if started, known := identity.CreatedAt(record.Tags); known && !since.IsZero() && started.Before(since) {
			since = started
		}
	}
	return since
}

// do makes calls and records their outcomes.
func (r *run) do(ctx context.Context, calls []plan.Call) []executor.Outcome {
	r.announce(ctx, calls)
	outcomes := r.applier.Do(ctx, calls)
	r.record(outcomes)
	return outcomes
}

// record stores the outcomes of calls.
func (r *run) record(outcomes []executor.Outcome) {
	for _, o := range outcomes {
		r.attempts = plan.Record(r.attempts, o.Call, o.Err, r.Now())
		r.recordToken(o)
		log := r.Log.With("instance", r.instanceID, "network", o.Call.Of().NodeENI,
			"action", o.Call.String())
		if o.Err != nil {
			r.failed = true
			log.Warn("could not be carried out", "class", eni.ErrorClass(o.Err), "err", o.Err)
			continue
		}
		r.recordCreated(o.Call)
		log.Info("carried out")
		if create, is := o.Call.(plan.Create); is {
			r.warnOfNeighbours(create, log)
		}
	}
}

// recordToken stores which interfaces wait because their client token is used. The wait ends with the first
// call that has another token.
func (r *run) recordToken(o executor.Outcome) {
	create, is := o.Call.(plan.Create)
	if !is {
		return
	}
	_, waits := r.spent[create.Key.Name]
	switch isSpent := eni.ErrorClass(o.Err) == eni.IdempotencyMismatch; {
	case isSpent && !waits:
		r.spent[create.Key.Name] = r.Now()
	case !isSpent && waits:
		delete(r.spent, create.Key.Name)
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
func (r *run) announce(ctx context.Context, calls []plan.Call) {
	if r.Attaching == nil {
		return
	}
	for _, call := range calls {
		for _, record := range r.watch.Of(r.instanceID).Interfaces {
			if attach, is := call.(plan.Attach); is && record.ID == attach.InterfaceID {
				r.Attaching(ctx, record.MAC)
			}
		}
	}
}

// recordCreated stores the interfaces that were created or attached.
func (r *run) recordCreated(call plan.Call) {
	switch c := call.(type) {
	case plan.Attach:
		r.created[c.InterfaceID] = true
		r.attached++
	case plan.Create:
		for _, record := range r.watch.Of(r.instanceID).Interfaces {
			if record.CreatedFor == c.Key.UID {
				r.created[record.ID] = true
			}
		}
	}
}

// rollBack removes interfaces of the instance until none is left or detachTimeout has passed. It reads before each
// attempt: an object may have taken one over meanwhile.
func (r *run) rollBack(ctx context.Context, which func(inventory.Record) bool, why string) {
	ctx, cancel := context.WithTimeout(ctx, detachTimeout)
	defer cancel()
	for ctx.Err() == nil {
		if !slices.ContainsFunc(networksOf(r.watch.Of(r.instanceID).Interfaces), which) {
			return
		}
		if _, err := r.watch.DescribeInstance(ctx, r.instanceID); err != nil {
			r.Log.Warn("reading EC2 failed before the removal of interfaces; the program retries",
				"instance", r.instanceID, "err", err)
		} else {
			r.do(ctx, lifecycle.RollbackCalls(r.watch.Of(r.instanceID).Interfaces, which, why))
		}
		r.waitForTransitions(ctx, 5*poll)
	}
	r.Log.Warn("not all interfaces could be removed; their tags identify them", "instance", r.instanceID)
}

// rolledBack reports whether the rollback removes an interface when a required network is not available.
func (r *run) rolledBack(id string, unused bool) bool { return unused || r.created[id] }

// withoutRolledBack removes from a result the interfaces that the rollback removed, or left to garbage collection.
func (r *run) withoutRolledBack(result Result, unused bool) Result {
	result.Interfaces = slices.DeleteFunc(slices.Clone(result.Interfaces), func(s plan.State) bool {
		return s.Interface == nil || r.rolledBack(s.Interface.ID, unused)
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
	return slices.ContainsFunc(r.watch.Of(r.instanceID).Interfaces, func(i inventory.Record) bool {
		return i.InTransition()
	})
}

// backoff returns how long to wait after a failed read.
func (r *run) backoff() time.Duration {
	r.failures++
	return min(poll<<min(r.failures, 4), snapshotMaxAge)
}

func (r *run) result(v lifecycle.Result) Result {
	return Result{Result: v, Instance: r.look.Instance, Limits: r.limits, Interfaces: r.plan.Interfaces,
		Served: r.demand.Served, Attached: r.attached}
}
