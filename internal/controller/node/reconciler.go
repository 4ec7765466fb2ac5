// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node gives every node its interfaces: it is the run-time path.
//
// One reconciliation concerns one node name with all NodeENIs that select it, so that they never race for a slot.
// It gathers what is known (gather.go), says what is wanted (desired.go), lets package plan decide, has package apply
// carry the plan out, keeps the ledger (ledger.go) and reports (report.go, events.go). What nothing waits for is carried out
// beside it (trailing.go).
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/gc"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/ratelimit"
	"github.com/multieni/multieni/internal/core/volatile"
	"github.com/multieni/multieni/internal/executor"
	"github.com/multieni/multieni/internal/observer"
	"github.com/multieni/multieni/internal/resolver"
)

// conflictDelay is how long the cache is given to catch up.
const conflictDelay = 100 * time.Millisecond

// maxRounds bounds how often one reconciliation plans anew. A member needs three rounds from nothing to attached, and an
// instance of 15 interfaces, each of which is done at another time, some 30 more than one.
const maxRounds = 48

// How often a node asks for its turn: to get its first interfaces during a ramp, or to replace some. Many nodes can wait for
// the latter, for as long as a person needs to see to the one that holds it up.
const (
	replacementRecheck = 10 * time.Second
	replaceCheck       = 30 * time.Second
)

// Limiter tells what an instance type can carry.
type Limiter interface {
	Limits(ctx context.Context, instanceType string) (eni.Limits, error)
}

// Options are what a Reconciler works with.
type Options struct {
	Client client.Client
	// Reader reads the API server itself, not a cache.
	Reader   client.Reader
	Events   events.EventRecorder
	Observer *observer.Observer
	Resolver *resolver.Resolver
	Applier  *executor.Applier
	Limiter  Limiter
	GC       *gc.Collector
	InFlight *controller.InFlight
	Ledgers  *controller.PreviousLedgers
	// RejectedWrites knows which objects the API server refuses to store.
	RefusedWrites *controller.RejectedWrites
	// Repairs says what to repair on interfaces that instances were launched with.
	Repairs *controller.InPlaceUpdates
	// MaxUnattached is how many interfaces of the cluster may exist without being attached before no more are made.
	MaxUnattached int
	// Cluster is the cluster's name in ownership tags.
	Cluster string
	// InstanceTags are those of which an instance must have one before it gets an interface; none asks for none.
	InstanceTags []eni.InstanceTag
	// Concurrency is how many nodes are given interfaces at the same time. Fewer are mended, or rid of some, beside them.
	Concurrency int
	// Go runs work that no reconciliation waits for, for as long as the context lives that it gives to the work. If it is
	// nil, [Reconciler.Start] does.
	Go func(work func(life context.Context))
	// Now tells the time.
	Now func() time.Time
	Log *slog.Logger
	// Traces is where spans of what is done go; nowhere if nil.
	Traces trace.TracerProvider
	// Attached is told of every interface that is found attached how long its node had to wait for it; nil tells nobody.
	Attached func(after time.Duration)
}

// Reconciler reconciles nodes by name.
type Reconciler struct {
	Options
	// mu guards state, workers and creationBlocked, which all reconciliations share. The reconciler holds it for computations
	// on values only: never over a call to EC2, the API server, the observer or the recorder of events.
	mu      sync.Mutex
	state   volatile.State
	workers *ratelimit.Workers
	// creationBlocked is whether the last plan found too many unattached interfaces in the cluster.
	creationBlocked bool
	// admitted receives the names of nodes that have waited at a gate and are let in.
	admitted chan string
	// background receives work that no reconciliation waits for. There is room for all that the gate lets in.
	background chan func(context.Context)
}

// New returns a Reconciler to be set up with a manager.
func New(options Options) *Reconciler {
	if options.RefusedWrites == nil {
		options.RefusedWrites = &controller.RejectedWrites{}
	}
	if options.Attached == nil {
		options.Attached = func(time.Duration) {}
	}
	w := ratelimit.NewWorkers(options.Concurrency)
	r := &Reconciler{
		Options: options, workers: w,
		admitted: make(chan string, 4*w.Width()), background: make(chan func(context.Context), options.Concurrency),
	}
	if r.Go == nil {
		r.Go = func(work func(context.Context)) { r.background <- work }
	}
	return r
}

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
	s.workerSlot = v
	if err := r.expect(ctx, s); err != nil {
		return reconcile.Result{}, err
	}
	ctx = ratelimit.WithRequest(ctx, r.requestPriority(ctx, s))
	err = r.reconcileInstances(ctx, s)
	r.recordRejectedWrite(s, err)
	if apierrors.IsConflict(err) {
		// The cache had not caught up with our own last write. Nothing was done on the strength of it.
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	} else if errors.Is(err, errBusy) {
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	} else if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: s.lookAgain(r.Now())}, nil
}

// reconcileInstances settles every instance of the subject and reports.
func (r *Reconciler) reconcileInstances(ctx context.Context, s *snapshot) error {
	for _, instanceID := range s.instances {
		p, err := r.reconcileLocked(ctx, s, instanceID)
		if err != nil {
			return err
		}
		s.plans = append(s.plans, p)
	}
	r.keepVolatile(s)
	if err := r.removeGenerations(ctx, s); err != nil {
		return err
	}
	return r.report(ctx, s)
}

// reconcileLocked settles one instance, under one name at a time.
func (r *Reconciler) reconcileLocked(ctx context.Context, s *snapshot, instanceID string) (plan.Plan, error) {
	if !r.lockInstance(instanceID, s.name) {
		return plan.Plan{}, errBusy
	}
	defer r.unlockInstance(instanceID)
	if _, others := s.release[instanceID]; others {
		return r.releaseInstance(ctx, s, instanceID)
	}
	return r.reconcileInstance(ctx, s, instanceID)
}

// reconcileInstance plans for one instance and carries the plans out, until one asks for no call that anything waits for. It plans anew
// whenever the calls for one interface have ended, so that those for one do not wait for those for another. Before the first it
// waits for its turn, but not here: the node is reconciled again when the turn has come.
func (r *Reconciler) reconcileInstance(ctx context.Context, s *snapshot, instanceID string) (plan.Plan, error) {
	var p plan.Plan
	look, err := r.lookIfDoubtful(ctx, s, instanceID)
	if err != nil {
		return p, err
	}
	calls := r.Applier.Pipeline()
	defer func() { r.note(s, instanceID, calls.Drain()) }()
	for range maxRounds {
		if p, err = r.plan(ctx, s, instanceID, look, calls.InFlight()); err != nil {
			return p, err
		}
		if p.NeedsDescribe {
			if !s.enter(ctx, p) {
				return p, nil
			}
			now, err := r.Observer.DescribeInstance(ctx, instanceID)
			if err != nil {
				return p, err
			}
			look = &now
			continue
		}
		if unconfirmed := s.unconfirmedRemovals(p.Actions, look); len(unconfirmed) > 0 {
			if err := r.liveRead(ctx, s, unconfirmed); err != nil {
				return p, err
			}
			continue
		}
		if !r.allowCreates(p.Actions) {
			continue
		}
		if err := r.store(ctx, s, instanceID, look, p); err != nil {
			return p, err
		}
		if !r.begin(ctx, s, instanceID, p, calls) {
			continue
		}
		if !calls.Busy() {
			return p, nil
		}
		r.note(s, instanceID, calls.Next())
	}
	p.RequeueAt = r.Now()
	return p, nil
}

// begin begins to make the calls of a plan, or reports that some may not be made by now. Those that nothing waits for begin
// once there are no others.
func (r *Reconciler) begin(ctx context.Context, s *snapshot, instanceID string, p plan.Plan, calls *executor.Pipeline) bool {
	awaited, trailing := splitDeferrable(p.Actions)
	if len(p.Actions) > 0 {
		r.Log.Debug("plan", "node", s.name, "instance", instanceID, "plan", explained{p})
	}
	if !calls.Busy() {
		r.runDeferred(ctx, s, instanceID, p, trailing)
	}
	if len(awaited) == 0 {
		return true
	}
	end, ok := r.beginCreates(s, awaited)
	if !ok {
		return false
	}
	carryOut, span := r.tracePlan(ctx, s.name, instanceID, p)
	calls.Start(carryOut, awaited, func() {
		span.End()
		end()
	})
	return true
}

// lookIfDoubtful reads the node's instance from EC2, once, after its agent has lost sight of a link.
func (r *Reconciler) lookIfDoubtful(ctx context.Context, s *snapshot, instanceID string) (*eni.InstanceSnapshot, error) {
	if instanceID != s.instanceID {
		return nil, nil
	}
	doubtful, again := r.takeStale(s.name)
	s.replacement = sooner(s.replacement, again)
	if !doubtful {
		return nil, nil
	}
	look, err := r.Observer.DescribeInstance(ctx, instanceID)
	if err != nil {
		r.addStale(s.name)
		return nil, err
	}
	return &look, nil
}

// plan computes the plan for one instance from what is known, the calls under way and, if given, a look at it.
func (r *Reconciler) plan(
	ctx context.Context, s *snapshot, instanceID string, look *eni.InstanceSnapshot, underWay []plan.Action,
) (plan.Plan, error) {
	known, past := r.Observer.Of(instanceID), r.volatileOf(instanceID)
	observed := plan.Observed{
		NodeRegistered: s.present(instanceID), Owned: known.Owned, UsedGenerations: known.UsedGenerations, RemovedExternally: known.RemovedExternally, MissingSince: known.MissingSince,
		Snapshot: look, Ledger: s.ledger(instanceID), Backoffs: past.backoffs, CreationBlocked: r.checkUnattached(s),
		ObservedSince: known.Since, SubnetFullUntil: past.subnetFullUntil, DetachBlocked: s.detachBlocked(), Launched: known.Launched,
		RepeatedUpdates: past.repeatedUpdates,
		InFlight:        underWay,
	}
	if err := r.addEvidence(ctx, s, instanceID, &observed); err != nil {
		return plan.Plan{}, err
	}
	if look != nil && look.Instance.Type != "" {
		limits, err := r.Limiter.Limits(ctx, look.Instance.Type)
		if err != nil {
			return plan.Plan{}, err
		}
		observed.Limits = limits
	}
	desired, err := r.desire(ctx, s, instanceID, s.instanceRef(instanceID, known, look), known)
	if err != nil {
		return plan.Plan{}, err
	}
	p := plan.Compute(desired, observed, r.Now())
	if observed.ReplaceAllowed, observed.ReplaceDenied, err = r.acquireReplacement(ctx, s, instanceID, p); err != nil {
		return plan.Plan{}, err
	}
	if p.ReplaceCandidate != "" {
		p = plan.Compute(desired, observed, r.Now())
	}
	if observed.ReplaceDenied != "" {
		p.RequeueAt = sooner(p.RequeueAt, r.Now().Add(replaceCheck))
	}
	r.judged(s, instanceID, p)
	for _, after := range r.recordLatency(s.name, instanceID, p.Members) {
		r.Attached(after)
	}
	return p, nil
}

// checkUnattached says why no interface may be made in the whole cluster, or nothing. Leaks do not count: they are on their way out,
// and nobody makes more of them.
func (r *Reconciler) checkUnattached(s *snapshot) string {
	n := r.unattached(s)
	r.mu.Lock()
	n += r.state.Creates.Count()
	r.creationBlocked = n >= r.MaxUnattached
	r.mu.Unlock()
	if n < r.MaxUnattached {
		return ""
	}
	return fmt.Sprintf("%d interfaces of the cluster exist without being attached, and no more are made until there are fewer than %d; see the events of their nodes for what fails",
		n, r.MaxUnattached)
}

func (r *Reconciler) unattached(s *snapshot) int {
	return r.Observer.Unattached(func(uid string) bool { return s.nodeENI(uid) != nil })
}

// CreationBlocked reports whether the making of interfaces was held back in the whole cluster when it was last thought of.
func (r *Reconciler) CreationBlocked() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.creationBlocked
}

// note remembers what failed, and tells what a person should hear of at once.
func (r *Reconciler) note(s *snapshot, instanceID string, outcomes []executor.Outcome) {
	for _, o := range outcomes {
		r.recordOutcome(instanceID, o)
		log := r.Log.With("node", s.name, "nodeeni", o.Action.Of().NodeENI, "action", o.Action.String())
		if o.Err == nil {
			log.Info("carried out")
			continue
		}
		log.Warn("could not be carried out", "class", eni.ErrorClass(o.Err), "err", o.Err)
	}
	r.announceForce(s, outcomes)
}

// explained is a plan that is put into words only when the log wants them.
type explained struct{ plan.Plan }

// LogValue implements [slog.LogValuer].
func (e explained) LogValue() slog.Value { return slog.StringValue(e.Explain()) }
