// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// Reconcile makes one node's interfaces match what is declared for it.
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
		// After a conflict, the cache must catch up with our own last write. No call was based on it.
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: requeueAfter(sooner(expectAt, requeueAt), r.Now())}, nil
}

// requeueAfter returns how long to wait until a time; 0 for the zero time.
func requeueAfter(at, now time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(at.Sub(now), 50*time.Millisecond)
}

// reconcileInstances reconciles every instance of the snapshot, and reports. It returns the earliest time at which to
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

// reconcileInstance plans for one instance and makes the calls, until a plan has no call that the node waits for.
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

// next plans and starts the calls, or returns again because a fact changed, for example because the snapshot has a new
// answer of the API server. Before the first plan with calls it asks for a worker but does not wait: the node is
// reconciled again when it has one.
func (run *instanceRun) next(ctx context.Context, calls *executor.Pipeline) (again bool, err error) {
	r := run.r
	if run.result, err = r.plan(ctx, run, calls.InFlight()); err != nil {
		return false, err
	}
	p := run.result.plan
	endsState := run.look == nil && len(p.Members) == 0 && run.snapshot.hasOpenNetworks()
	if p.NeedsDescribe || endsState {
		again, err = run.describe(ctx)
		run.result.keepsState = endsState && !again
		return again, err
	}
	if unconfirmed := run.snapshot.unconfirmedRemovals(p, run.look); len(unconfirmed) > 0 {
		run.snapshot, err = r.liveRead(ctx, run.snapshot, unconfirmed)
		return true, err
	}
	if !r.allowCreates(p.Actions) {
		return true, nil
	}
	if len(p.Evictions) > 0 {
		r.evictPods(ctx, run.snapshot, run.instanceID, p.Evictions)
		return true, nil // the next plan has the API server's answers
	}
	before := run.snapshot
	if run.snapshot, err = r.store(ctx, before, run.instanceID, run.look, p); err != nil {
		return false, err
	}
	r.judged(run.snapshot, run.result)
	if before.state == nil && run.snapshot.state != nil && before.removes(p, run.look) {
		return true, nil // the next plan knows how young the agent's reports are
	}
	if run.snapshot, err = r.withdraw(ctx, run.snapshot, p); err != nil {
		return false, err
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

// begin starts the calls of a plan, or reports that some are no longer allowed. Deferrable calls begin once no other
// call is in flight and no interface is about to be attached: that interface needs deferrable calls too, which would
// otherwise need another reconciliation and another read of the instance.
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

// readIfStale reads the node's instance from EC2 once after its agent reported a missing link. If the read has to wait,
// it returns until when.
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
// name this node still arrive here. An attached interface that the other node leaves alone, as the observer knows, does
// not trigger it.
func (r *Reconciler) releaseInstance(ctx context.Context, s *snapshot, instanceID string) (*snapshot, result, error) {
	known := r.Observer.Of(instanceID)
	denied := r.Observer.Denied()
	if slices.ContainsFunc(known.Owned, func(i inventory.Record) bool {
		return i.Member.Node == s.name && (i.Attachment == nil || !slices.Contains(denied, i.ID))
	}) {
		r.Observer.EnqueueNode(ctx, s.release[instanceID])
	}
	attempts, _ := r.attempts(instanceID)
	observed := plan.Observed{
		Owned: known.Owned, UsedGenerations: known.UsedGenerations, Era: r.Era(),
		Ledger: s.ledger(instanceID), Attempts: attempts.Attempts,
	}
	states, err := r.statesOf(ctx, s, instanceID)
	if err != nil {
		return s, result{}, err
	}
	evidence := s.evidence(states, instanceID)
	var other v1alpha1.NodeENIState
	if len(observed.Ledger) > 0 {
		if other, err = r.liveState(ctx, s.release[instanceID]); err != nil {
			return s, result{}, err
		}
		evidence.OtherLedgers = generations(ledgerOf(other.Spec, instanceID))
	}
	var p plan.Plan
	p.Ledger, p.RequeueAt = render.ReleaseInstance(evidence, observed, r.Now())
	if len(evidence.OtherLedgers) > 0 && len(p.Ledger) < len(observed.Ledger) {
		s = s.relyingOn(&other)
	}
	s, err = r.store(ctx, s, instanceID, nil, p)
	return s, result{instanceID: instanceID, plan: p}, err
}

// liveState reads the state of the node that has an instance now, bypassing the cache. Neither the ledgers of its
// former nodes nor the cache count: if two former nodes each took the other's ledger for the remaining one, both would
// forget the interfaces.
func (r *Reconciler) liveState(ctx context.Context, node string) (v1alpha1.NodeENIState, error) {
	var state v1alpha1.NodeENIState
	if err := r.Reader.Get(ctx, types.NamespacedName{Name: node}, &state); client.IgnoreNotFound(err) != nil {
		return state, fmt.Errorf("read the ledger of node %s, which has the instance now: %w", node, err)
	}
	return state, nil
}

// errBusy keeps an instance from being worked on under two names at once.
var errBusy = errors.New("the instance is being reconciled under the name of another node")

// explained is a plan that is formatted only if the log prints it.
type explained struct{ plan.Plan }

// LogValue implements [slog.LogValuer].
func (e explained) LogValue() slog.Value { return slog.StringValue(e.Explain()) }

// unconfirmedRemovals returns one member of each NodeENI whose interfaces or addresses a plan removes, or whose pods it
// evicts, because of a cache's content, if no live read has confirmed it yet.
func (s *snapshot) unconfirmedRemovals(p plan.Plan, look *eni.InstanceSnapshot) []identity.Member {
	var members []identity.Member
	add := func(m identity.Member) {
		listed := slices.ContainsFunc(members, func(other identity.Member) bool { return other.Owner == m.Owner })
		if !s.confirmed[m.Owner] && !listed {
			members = append(members, m)
		}
	}
	for _, action := range p.Actions {
		if s.needsLiveRead(action, look) {
			add(action.Of())
		}
	}
	for _, eviction := range p.Evictions {
		add(eviction.Member)
	}
	return members
}

// removes reports whether a plan has an action that needs a live read.
func (s *snapshot) removes(p plan.Plan, look *eni.InstanceSnapshot) bool {
	return slices.ContainsFunc(p.Actions, func(action plan.Action) bool { return s.needsLiveRead(action, look) })
}

// needsLiveRead reports whether an action removes an interface or addresses for a reason that only the cache gives. An
// interface in use always needs a live read. Other interfaces need none if the cache cannot be wrong: EC2 reports that
// the instance terminates, garbage collection has read the API server twice, or the NodeENI is being deleted, which is
// final.
func (s *snapshot) needsLiveRead(action plan.Action, look *eni.InstanceSnapshot) bool {
	switch action := action.(type) {
	case plan.Detach:
		return true // an attached interface is in use, perhaps by pods
	case plan.Change:
		_, takes := action.To.(plan.UnassignAddresses)
		return takes // pods may have the addresses
	case plan.Delete:
		nodeENI := s.nodeENI(action.Of().Owner)
		ends := look != nil && look.Instance.State.Terminating()
		return nodeENI != nil && nodeENI.DeletionTimestamp.IsZero() && !ends
	default:
		return false
	}
}

// liveRead reads the node, its state and the NodeENIs, bypassing the cache. A cache can be stale without any sign: its
// first list may come from an API server that lags, its watch may be silent, and after changes to a Node and a NodeENI
// it may have only the later one. This matters only for the removal of an interface or of its addresses, which also
// depends on what the state says about pods. With an error, liveRead returns the given snapshot.
func (r *Reconciler) liveRead(ctx context.Context, s *snapshot, members []identity.Member) (*snapshot, error) {
	node, err := r.readNode(ctx, r.Reader, s.name)
	if err != nil {
		return s, fmt.Errorf("confirm that node %s must lose an interface: %w", s.name, err)
	}
	state, err := readState(ctx, r.Reader, s.name)
	if err != nil {
		return s, fmt.Errorf("confirm that no pod uses an interface of node %s: %w", s.name, err)
	}
	nodeENIs, confirmed := s.nodeENIs, maps.Clone(s.confirmed)
	for _, m := range members {
		nodeENIs, confirmed[m.Owner], err = r.confirmNodeENI(ctx, nodeENIs, m)
		if err != nil {
			return s, fmt.Errorf("confirm that node %s must lose an interface: %w", s.name, err)
		}
	}
	return s.withLive(node, state, nodeENIs, confirmed), nil
}

// confirmNodeENI returns the NodeENIs with the current one of a member. A NodeENI that is gone, or another one of the
// same name, removes no interface: garbage collection confirms that it does not exist. A changed NodeENI must be read
// again after the node, so that both are from the same time.
func (r *Reconciler) confirmNodeENI(ctx context.Context, nodeENIs []v1alpha1.NodeENI,
	m identity.Member) (now []v1alpha1.NodeENI, confirmed bool, err error) {
	n := slices.IndexFunc(nodeENIs, func(n v1alpha1.NodeENI) bool { return identity.Owner(n.UID) == m.Owner })
	if n < 0 {
		now, err = r.withRecreated(ctx, nodeENIs, m.NodeENI)
		return now, true, err
	}
	var live v1alpha1.NodeENI
	err = r.Reader.Get(ctx, types.NamespacedName{Name: nodeENIs[n].Name}, &live)
	switch now = slices.Clone(nodeENIs); {
	case apierrors.IsNotFound(err) || err == nil && (identity.Owner(live.UID) != m.Owner || unaccepted(live)):
		return slices.Delete(now, n, n+1), true, nil
	case err != nil:
		return nil, false, err
	default:
		now[n] = live
		return now, live.Generation == nodeENIs[n].Generation, nil
	}
}

// withRecreated returns the NodeENIs with the one that a user created again under the name of a deleted one: it adopts
// what would be detached.
func (r *Reconciler) withRecreated(ctx context.Context, nodeENIs []v1alpha1.NodeENI,
	name string) ([]v1alpha1.NodeENI, error) {
	var again v1alpha1.NodeENI
	err := r.Reader.Get(ctx, types.NamespacedName{Name: name}, &again)
	switch {
	case apierrors.IsNotFound(err):
		return nodeENIs, nil
	case err != nil:
		return nil, err
	case unaccepted(again):
		return nil, fmt.Errorf("NodeENI %s was created again, and has to be accepted first", name)
	}
	others := slices.DeleteFunc(slices.Clone(nodeENIs), func(n v1alpha1.NodeENI) bool { return n.Name == name })
	return append(others, again), nil
}
