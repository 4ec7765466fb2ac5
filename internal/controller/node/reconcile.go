// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/executor"
)

// Reconcile brings one node's interfaces to what is declared for it.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if err := r.Observer.WaitSynced(ctx); err != nil {
		return reconcile.Result{}, err
	}
	defer r.InFlight.Enter()()
	v := r.visit(request.Name)
	defer func() { r.wakeWaiting(v.end()) }()

	ctx, end := controller.Trace(ctx, r.Traces, "reconcile", attribute.String("k8s.node.name", request.Name))
	result, err := r.reconcile(ctx, request.Name, v)
	end(err)
	return result, err
}

func (r *Reconciler) reconcile(ctx context.Context, name string, v *workerSlot) (reconcile.Result, error) {
	s, err := r.gather(ctx, name)
	if err != nil {
		return reconcile.Result{}, err
	}
	s, expectAt, err := r.expect(ctx, s)
	if err != nil {
		return reconcile.Result{}, err
	}
	requeueAt, err := r.reconcileInstances(v.prioritize(ctx, s), s, v)
	r.recordRejectedWrite(s, err)
	switch {
	case apierrors.IsConflict(err), errors.Is(err, errBusy):
		// After a conflict the cache has to catch up with our own last write. Nothing was done on the strength of it.
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: requeueAfter(sooner(expectAt, requeueAt), r.Now())}, nil
}

// requeueAfter returns how long to wait for a time; 0 when there is none.
func requeueAfter(at, now time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(at.Sub(now), 50*time.Millisecond)
}

// reconcileInstances reconciles every instance of the snapshot and reports. It returns the earliest time at which to
// reconcile again, or zero.
func (r *Reconciler) reconcileInstances(ctx context.Context, s *snapshot,
	v *workerSlot) (requeueAt time.Time, err error) {
	var results []result
	for _, instanceID := range s.instances {
		next, one, err := r.reconcileLocked(ctx, s, instanceID, v)
		if err != nil {
			return time.Time{}, err
		}
		s, results = next, append(results, one)
	}
	r.keepVolatile(s.name, s.node != nil, s.instances)
	s, err = r.readFormerSubnets(ctx, s, results)
	if err != nil {
		return time.Time{}, err
	}
	s, ledgerAt, err := r.removeGenerations(ctx, newReconciled(s, results))
	if err != nil {
		return time.Time{}, err
	}
	done := newReconciled(s, results)
	statusAt, err := r.report(ctx, done)
	return sooner(done.requeueAt(), sooner(ledgerAt, statusAt)), err
}

// reconcileLocked reconciles one instance, under one name at a time.
func (r *Reconciler) reconcileLocked(ctx context.Context, s *snapshot, instanceID string,
	v *workerSlot) (*snapshot, result, error) {
	if !r.lockInstance(instanceID, s.name) {
		return s, result{}, errBusy
	}
	defer r.unlockInstance(instanceID)
	if _, others := s.release[instanceID]; others {
		return r.releaseInstance(ctx, s, instanceID)
	}
	look, requeueAt, err := r.readIfStale(ctx, s, instanceID)
	if err != nil {
		return s, result{}, err
	}
	s, one, err := r.reconcileInstance(ctx, s, instanceID, look, v)
	one.plan.RequeueAt = sooner(one.plan.RequeueAt, requeueAt)
	return s, one, err
}

// instanceRun is the work on one instance in one reconciliation.
type instanceRun struct {
	r          *Reconciler
	slot       *workerSlot
	instanceID string
	// snapshot and look are the latest; look is nil until the instance was read.
	snapshot *snapshot
	look     *eni.InstanceSnapshot
	// result is that of the last plan.
	result result
}

// reconcileInstance plans for one instance and makes the calls, until a plan asks for no call that the node waits for.
func (r *Reconciler) reconcileInstance(
	ctx context.Context, s *snapshot, instanceID string, look *eni.InstanceSnapshot, v *workerSlot,
) (*snapshot, result, error) {
	run := &instanceRun{r: r, slot: v, instanceID: instanceID, snapshot: s, look: look}
	done, err := r.Applier.Run(maxRounds,
		func(calls *executor.Pipeline) (bool, error) { return run.next(ctx, calls) },
		func(outcomes []executor.Outcome) { r.note(run.snapshot, instanceID, outcomes) })
	if !done {
		run.result.plan.RequeueAt = r.Now()
	}
	return run.snapshot, run.result, err
}

// next plans and starts the calls, or returns again because a fact changed. A new snapshot, of the API server's answer
// or of a stored ledger, starts the instance over in this way. Before the first plan with calls it asks for a worker,
// but does not wait: the node is reconciled again when it has one.
func (run *instanceRun) next(ctx context.Context, calls *executor.Pipeline) (again bool, err error) {
	r := run.r
	if run.result, err = r.plan(ctx, run.snapshot, run.instanceID, run.look, calls.InFlight()); err != nil {
		return false, err
	}
	p := run.result.plan
	endsState := run.look == nil && len(p.Members) == 0 && run.snapshot.hasOpenNetworks()
	if p.NeedsDescribe || endsState {
		return run.describe(ctx)
	}
	if unconfirmed := run.snapshot.unconfirmedRemovals(p, run.look); len(unconfirmed) > 0 {
		run.snapshot, err = r.liveRead(ctx, run.snapshot, unconfirmed)
		return true, err
	}
	if !r.allowCreates(p.Actions) {
		return true, nil
	}
	if len(p.Evictions) > 0 {
		r.evictPods(ctx, run.snapshot.name, run.instanceID, p.Evictions)
		return true, nil // the next plan has the API server's answers
	}
	before := run.snapshot
	if run.snapshot, err = r.store(ctx, before, run.instanceID, run.look, p); err != nil {
		return false, err
	}
	if before.state == nil && run.snapshot.state != nil && before.removes(p, run.look) {
		return true, nil // the next plan knows how young the agent's reports are
	}
	return !run.begin(ctx, p, calls), nil
}

// describe reads the instance from EC2, if the node has a worker for the calls that may follow.
func (run *instanceRun) describe(ctx context.Context) (again bool, err error) {
	again, run.result.waiting = run.slot.enter(run.snapshot, run.result.plan)
	if !again {
		return false, nil
	}
	look, err := run.r.Observer.DescribeInstance(ctx, run.instanceID)
	if err != nil {
		return false, err
	}
	run.look = &look
	return true, nil
}

// begin starts the calls of a plan, or reports that some are no longer allowed. Those that nothing waits for begin once
// no other call is in flight, and no interface is about to be attached: it has such calls too, which would otherwise
// need a reconciliation, and a read of the instance, of their own.
func (run *instanceRun) begin(ctx context.Context, p plan.Plan, calls *executor.Pipeline) bool {
	r, s := run.r, run.snapshot
	awaited, trailing := splitDeferrable(p.Actions)
	if len(p.Actions) > 0 {
		r.Log.Debug("plan", "node", s.name, "instance", run.instanceID, "plan", explained{p})
	}
	if !calls.Busy() && !slices.ContainsFunc(awaited, attaches) {
		run.slot.runDeferred(ctx, s, run.instanceID, p, trailing)
	}
	if len(awaited) == 0 {
		return true
	}
	end, ok := r.beginCreates(s, awaited)
	if !ok {
		return false
	}
	carryOut, span := r.tracePlan(ctx, s.name, run.instanceID, p)
	calls.Start(carryOut, awaited, func() {
		span.End()
		end()
	})
	return true
}

// readIfStale reads the node's instance from EC2, once, after its agent missed a link. If that has to wait, it returns
// until when.
func (r *Reconciler) readIfStale(ctx context.Context, s *snapshot,
	instanceID string) (look *eni.InstanceSnapshot, requeueAt time.Time, err error) {
	if instanceID != s.instance.ID {
		return nil, time.Time{}, nil
	}
	stale, requeueAt := r.takeStale(s.name)
	if !stale {
		return nil, requeueAt, nil
	}
	now, err := r.Observer.DescribeInstance(ctx, instanceID)
	if err != nil {
		r.addStale(s.name)
		return nil, time.Time{}, err
	}
	return &now, requeueAt, nil
}

// releaseInstance leaves an instance to the node that has it, and triggers that node: changes of interfaces whose tags
// name this node still arrive here. An attached interface that the other node is known to leave alone is no reason.
func (r *Reconciler) releaseInstance(ctx context.Context, s *snapshot, instanceID string) (*snapshot, result, error) {
	known := r.Observer.Of(instanceID)
	denied := r.Observer.Denied()
	if slices.ContainsFunc(known.Owned, func(i inventory.Record) bool {
		return i.Member.Node == s.name && (i.Attachment == nil || !slices.Contains(denied, i.ID))
	}) {
		r.Observer.EnqueueNode(ctx, s.release[instanceID])
	}
	observed := plan.Observed{
		Owned: known.Owned, UsedGenerations: known.UsedGenerations, ObservedSince: known.Since,
		Ledger: s.ledger(instanceID), Backoffs: r.volatileOf(instanceID).backoffs,
	}
	if err := r.addEvidence(ctx, s, instanceID, known, &observed); err != nil {
		return s, result{}, err
	}
	if len(observed.Ledger) > 0 {
		var err error
		if observed.OtherLedgers, err = r.liveLedger(ctx, s.release[instanceID], instanceID); err != nil {
			return s, result{}, err
		}
	}
	p := plan.ReleaseInstance(observed, r.Now())
	s, err := r.store(ctx, s, instanceID, nil, p)
	return s, result{instanceID: instanceID, plan: p}, err
}

// liveLedger reads past the cache what the ledger of a node says of an instance. The ledgers of its former nodes do not
// count, and neither does what the cache has: if two former nodes each took the ledger of the other for the remaining
// one, both would forget the interfaces.
func (r *Reconciler) liveLedger(ctx context.Context, node, instanceID string) (identity.Generations, error) {
	var state v1alpha1.NodeENIState
	if err := r.Reader.Get(ctx, types.NamespacedName{Name: node}, &state); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read the ledger of node %s, which has instance %s now: %w", node, instanceID, err)
	}
	return generations(ledgerOf(state.Spec, instanceID)), nil
}

// errBusy keeps an instance from being worked on under two names at once.
var errBusy = errors.New("the instance is worked on under the name of another node")

// explained is a plan that is formatted only if the log prints it.
type explained struct{ plan.Plan }

// LogValue implements [slog.LogValuer].
func (e explained) LogValue() slog.Value { return slog.StringValue(e.Explain()) }
