// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// Reconcile makes the interfaces of one instance match its objects.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if err := r.begin(ctx); err != nil {
		return reconcile.Result{}, err
	}
	slot := r.visit(request.Name)
	defer func() { r.wakeWaiting(slot.end()) }()

	ctx, end := controller.Trace(ctx, r.Traces, "reconcile", attribute.String("host.id", request.Name))
	next, err := r.reconcile(ctx, request.Name, slot)
	end(err)
	switch {
	case onlyConflicts(err):
		// The cache must catch up with the last write of the object. No call was based on it.
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	case err != nil:
		return reconcile.Result{}, err
	case next.IsZero():
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: max(next.Sub(r.Now()), 50*time.Millisecond)}, nil
}

// begin waits for the first list of the cluster's interfaces, and records the first list of objects.
func (r *Reconciler) begin(ctx context.Context) error {
	if err := r.Observer.WaitSynced(ctx); err != nil {
		return err
	}
	return r.inherit(ctx)
}

// onlyConflicts reports whether an error has conflicts and nothing else.
func onlyConflicts(err error) bool {
	if joined, is := err.(interface{ Unwrap() []error }); is {
		return !slices.ContainsFunc(joined.Unwrap(), func(one error) bool { return !onlyConflicts(one) })
	}
	return apierrors.IsConflict(err)
}

// recordDelay is the wait for the cache to show a write of this process. Its event comes earlier.
const recordDelay = time.Second

// reconcile returns when to reconcile again, or zero.
func (r *Reconciler) reconcile(ctx context.Context, instanceID string, slot *workerSlot) (time.Time, error) {
	run := &run{r: r, slot: slot, instanceID: instanceID, confirmed: map[confirmation]bool{}}
	g, err := r.gather(ctx, instanceID)
	if err != nil {
		return time.Time{}, err
	}
	r.settleRefusals(instanceID, g)
	if g.isEmpty() {
		r.forgetInstance(instanceID)
		return time.Time{}, nil
	}
	if r.lacksRecord(g) {
		return r.Now().Add(recordDelay), nil
	}
	staleAt, err := run.readIfStale(ctx)
	if err != nil {
		return time.Time{}, err
	}
	ctx = slot.prioritize(ctx, g)
	done, err := r.Applier.Run(maxRounds,
		func(calls *executor.Pipeline) (bool, error) { return run.next(ctx, calls) }, run.note)
	if err != nil {
		return time.Time{}, err
	}
	reportAt, err := r.report(ctx, run)
	if !done {
		reportAt = r.Now()
	}
	return sooner(sooner(run.planAgain(), run.gathered.next), sooner(staleAt, reportAt)), err
}

// planAgain returns when to plan again, or zero. The objects of an ended instance without interfaces wait only for the
// end of their Node.
func (run *run) planAgain() time.Time {
	isOpen := func(s plan.State) bool { return s.Goal != plan.Keep && !slices.Contains(run.plan.Gone, s.Key.UID) }
	if run.ended && !slices.ContainsFunc(run.plan.Interfaces, isOpen) {
		return time.Time{}
	}
	return run.plan.Next
}

// run is the work on one instance in one reconciliation.
type run struct {
	r          *Reconciler
	slot       *workerSlot
	instanceID string
	// gathered and plan are the latest; look is nil until the instance was read.
	gathered *gathered
	look     *eni.InstanceSnapshot
	plan     plan.Plan
	// ended is set if the instance has ended.
	ended bool
	// confirmed has the calls whose objects were read from the API server itself before, and whether they may be made.
	confirmed map[confirmation]bool
	// waiting are the objects whose calls wait for a worker: their plan is provisional until the instance is read.
	waiting map[identity.UID]bool
}

// next plans and starts the calls, or returns again because a fact changed. Before the first plan with calls it asks
// for a worker but does not wait: the instance is reconciled again when it has one.
func (run *run) next(ctx context.Context, calls *executor.Pipeline) (again bool, err error) {
	r := run.r
	if run.gathered, err = r.gather(ctx, run.instanceID); err != nil {
		return false, err
	}
	if err := run.compute(ctx, calls.InFlight()); err != nil {
		return false, err
	}
	if run.plan.NeedsRead || run.look == nil && len(run.gathered.nodes) == 0 {
		return run.read(ctx)
	}
	if unconfirmed := run.unconfirmed(); len(unconfirmed) > 0 {
		return true, run.confirm(ctx, unconfirmed)
	}
	if !r.allowCreates(run.plan.Calls) {
		return true, nil
	}
	return !run.start(ctx, calls), nil
}

// compute computes the plan from what is known and the calls in flight.
func (run *run) compute(ctx context.Context, inFlight []plan.Call) error {
	r := run.r
	known := r.Observer.Of(run.instanceID)
	attempts, fullSubnets := r.attempts(run.instanceID)
	facts := plan.Facts{
		Snapshot: run.look, Interfaces: r.withRecorded(known.Interfaces, run.gathered.objects), Launched: known.Launched,
		Attempts: attempts, FullSubnets: fullSubnets, InFlight: inFlight, CreationBlocked: r.checkUnattached(ctx),
		MissingSince: known.MissingSince, Era: r.Era(), Repairs: run.gathered.repairs, InstanceTags: r.InstanceTags,
	}
	if run.look != nil && run.look.Instance.Type != "" {
		var err error
		if facts.Limits, err = r.Limiter.Limits(ctx, run.look.Instance.Type); err != nil {
			return err
		}
	}
	run.ended = facts.Ended(r.Now())
	run.plan = plan.Compute(run.want(facts), facts, r.Now())
	return nil
}

// read reads the instance from EC2, if it has a worker for the calls that may follow.
func (run *run) read(ctx context.Context) (again bool, err error) {
	again, run.waiting = run.slot.enter(run.plan)
	if !again {
		return false, nil
	}
	return true, run.describe(ctx)
}

func (run *run) describe(ctx context.Context) error {
	look, err := run.r.Observer.DescribeInstance(ctx, run.instanceID)
	if err != nil {
		return err
	}
	run.look = &look
	return nil
}

// readIfStale reads the instance from EC2 once after its agent reported a missing link. If the read has to wait, it
// returns until when.
func (run *run) readIfStale(ctx context.Context) (requeueAt time.Time, err error) {
	stale, requeueAt := run.r.takeStale(run.instanceID)
	if !stale {
		return requeueAt, nil
	}
	if err := run.describe(ctx); err != nil {
		run.r.AddStale(run.instanceID)
		return time.Time{}, err
	}
	return requeueAt, nil
}

// start starts the calls of a plan, or reports that some are no longer allowed. Deferrable calls start once no other
// call is in flight and no interface is about to be attached: that interface needs deferrable calls too, which would
// otherwise need another reconciliation and another read of the instance.
func (run *run) start(ctx context.Context, calls *executor.Pipeline) bool {
	r := run.r
	awaited, trailing := splitDeferrable(run.withoutUnconfirmed(run.plan.Calls))
	if len(run.plan.Calls) > 0 {
		r.Log.Debug("plan", "instance", run.instanceID, "plan", explained(run.plan.Calls))
	}
	if !calls.Busy() && !slices.ContainsFunc(awaited, attaches) {
		run.slot.runDeferred(ctx, trailing)
	}
	if len(awaited) == 0 {
		return true
	}
	end, ok := r.beginCreates(ctx, awaited)
	if !ok {
		return false
	}
	carryOut, span := r.tracePlan(ctx, run.instanceID, awaited)
	calls.Start(carryOut, awaited, func() {
		span.End()
		end()
	})
	return true
}

// note records and logs the outcomes of calls.
func (run *run) note(outcomes []executor.Outcome) {
	run.r.note(run.instanceID, outcomes)
	for _, o := range outcomes {
		if d, is := o.Call.(plan.Detach); is && d.Force && run.gathered != nil {
			run.r.announceForce(run.gathered.object(d.Key.UID), d)
		}
	}
}

func (r *Reconciler) note(instanceID string, outcomes []executor.Outcome) {
	for _, o := range outcomes {
		r.recordOutcome(instanceID, o)
		key := o.Call.Of()
		log := r.Log.With("instance", instanceID, "node", key.Node, "nodeeni", key.NodeENI, "action", o.Call.String())
		if o.Err == nil {
			log.Info("carried out")
			continue
		}
		log.Warn("could not be carried out", "class", eni.ErrorClass(o.Err), "err", o.Err)
	}
}

// explained are calls that are formatted only if the log prints them.
type explained []plan.Call

func (e explained) String() string {
	var all []string
	for _, call := range e {
		all = append(all, call.String())
	}
	return strings.Join(all, "; ")
}

// LogValue implements [slog.LogValuer].
func (e explained) LogValue() slog.Value { return slog.StringValue(e.String()) }

// errGone ends calls for an instance that no Node has any more. errPaused ends calls for a node or NodeENI that a user
// paused while they waited in the queue.
var (
	errGone   = errors.New("its node is gone, or is another one by now")
	errPaused = errors.New("its node or a NodeENI that concerns it has been paused")
)
