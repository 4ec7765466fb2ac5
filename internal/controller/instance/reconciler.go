// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package instance gives every NetworkInterface object its ENI: it is the run-time path.
//
// One reconciliation concerns one instance with all of its objects, so that they never race for a slot. It reads what
// concerns the instance (gather.go), converts it for package plan (convert.go), makes the calls of the plan in the
// order of their priority (reconcile.go, workers.go), with one live read before a removal (confirm.go), and writes the
// statuses that are due and ends objects (status.go, report.go). Objects are let go without a call while their kind is
// being deleted (lettinggo.go). reconciler.go has the state that reconciliations share.
package instance

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/aws/observer"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/era"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/ratelimit"
	"github.com/multieni/multieni/internal/core/volatile"
)

const (
	// conflictDelay is how long the cache has to catch up.
	conflictDelay = 100 * time.Millisecond
	// turnCheck is how often an object that waits for its turn asks whether it still needs one.
	turnCheck = time.Minute
	// nodelessCheck is how often an instance without a Node is read: no event says that it ended.
	nodelessCheck = 5 * time.Minute
	// maxRounds bounds the plans of one reconciliation. An interface needs three rounds from nothing to attached. An
	// instance with 15 interfaces needs about 30 more than an instance with one, because each call ends at another time.
	maxRounds = 48
)

// Limiter returns the limits of an instance type.
type Limiter interface {
	Limits(ctx context.Context, instanceType string) (eni.Limits, error)
}

// Options are what a Reconciler works with.
type Options struct {
	Client client.Client
	// Reader reads from the API server itself, not from a cache.
	Reader   client.Reader
	Events   events.EventRecorder
	Observer *observer.Observer
	Applier  *executor.Applier
	Limiter  Limiter
	// Permit returns an error once another process may be the leader; nil permits always.
	Permit func() error
	// Era returns the era of this process.
	Era func() era.Era
	// MayRemove reports whether the interface of an object that is being deleted may be removed now. If it is nil,
	// each may.
	MayRemove func(ctx context.Context, o *v1alpha1.NetworkInterface) (bool, error)
	// RefusedWrites holds the objects that the API server refuses to store.
	RefusedWrites *controller.RejectedWrites
	// Repairs holds the in-place updates for launch interfaces.
	Repairs *controller.InPlaceUpdates
	// MaxUnattached is the unattached limit: from this number of unattached interfaces in the cluster on, none is created.
	MaxUnattached int
	// Cluster is the cluster's name in ownership tags.
	Cluster string
	// InstanceTags restrict the instances: an instance gets interfaces if it has one of the tags. Without InstanceTags all
	// instances do.
	InstanceTags []eni.InstanceTag
	// Concurrency is how many instances get interfaces at the same time. Fewer instances are updated, or lose interfaces,
	// at a time.
	Concurrency int
	// Go runs work that no reconciliation waits for, until the context that it passes to the work ends. If Go is nil,
	// [Reconciler.Start] runs the work.
	Go func(work func(life context.Context))
	// Now returns the current time.
	Now func() time.Time
	Log *slog.Logger
	// Traces receives the spans; nil for no tracing.
	Traces trace.TracerProvider
	// Attached receives, for every interface that becomes ready for the first time, the time since the creation of its
	// object; nil for no receiver.
	Attached func(after time.Duration)
}

// Reconciler reconciles instances by ID.
type Reconciler struct {
	Options
	// mu guards state, workers and creationBlocked, which all reconciliations share. The reconciler holds it for
	// computations on values only: never over a call to EC2, the API server, the observer or the recorder of events.
	mu      sync.Mutex
	state   volatile.State
	workers *ratelimit.Workers
	// creationBlocked reports whether the last plan found too many unattached interfaces in the cluster.
	creationBlocked bool
	// kind says whether the kind of the objects is being deleted.
	kind kindDeletion
	// admitted receives the IDs of instances that waited at the semaphore and are admitted.
	admitted chan string
	// background receives work that no reconciliation waits for. Its capacity is the limit of the semaphore.
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
	if options.MayRemove == nil {
		options.MayRemove = func(context.Context, *v1alpha1.NetworkInterface) (bool, error) { return true, nil }
	}
	w := ratelimit.NewWorkers(options.Concurrency)
	r := &Reconciler{
		Options: options, workers: w, kind: kindDeletion{turn: make(chan struct{}, 1)},
		admitted: make(chan string, 4*w.Width()), background: make(chan func(context.Context), options.Concurrency),
	}
	if r.Go == nil {
		r.Go = func(work func(context.Context)) { r.background <- work }
	}
	return r
}

// attempts returns the outcomes of the calls for an instance, and the subnets that are full for all instances.
func (r *Reconciler) attempts(instanceID string) (
	map[identity.UID]plan.Attempts, map[plan.SubnetDemand]plan.FullSubnet,
) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.Attempts.Of(instanceID), r.state.FullSubnets.Known(r.Now())
}

// recordOutcome records the outcome of a call for later plans of the instance or, if a subnet was full, of all
// instances.
func (r *Reconciler) recordOutcome(instanceID string, o executor.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.FullSubnets.Record(o.Call, o.Err, r.Now())
	r.state.Attempts.Record(instanceID, o.Call, o.Err, r.Now())
}

func (r *Reconciler) forgetInstance(instanceID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.ForgetInstance(instanceID)
}

func (r *Reconciler) forgetObject(uid identity.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.Objects.Forget(uid)
}

// inherited returns the objects that were in the first list of the process without an interface.
func (r *Reconciler) inherited(uids []identity.UID) map[identity.UID]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[identity.UID]bool{}
	for _, uid := range uids {
		all[uid] = r.state.Objects.Inherited(uid)
	}
	return all
}

func (r *Reconciler) allowCreates(calls []plan.Call) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.FullSubnets.Allow(calls, r.Now())
}

// AddStale makes the next reconciliation of an instance read it from EC2: an agent misses a link there.
func (r *Reconciler) AddStale(instanceID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.StaleInstances.Add(instanceID)
}

func (r *Reconciler) takeStale(instanceID string) (stale bool, requeueAt time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.StaleInstances.Take(instanceID, r.Now())
}

// maxReconciles is how many reconciliations run at a time: those with a worker, and a few without calls.
func (r *Reconciler) maxReconciles() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	width := r.workers.Width()
	return width + max(1, width/8)
}

// Admitted returns the channel that receives the IDs of admitted instances, which must be reconciled.
func (r *Reconciler) Admitted() <-chan string { return r.admitted }

// wakeWaiting enqueues instances that were admitted, or that have a reason to reconcile. It does so regardless of the
// reconciliation's result: an admitted instance that is not enqueued would keep its worker forever. While the channel
// is full, it waits for [Reconciler.enqueueObserved], which never blocks.
func (r *Reconciler) wakeWaiting(instances []string) {
	for _, instanceID := range instances {
		r.admitted <- instanceID
	}
}

// CreationBlocked reports whether the last check blocked the creation of interfaces in the whole cluster.
func (r *Reconciler) CreationBlocked() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.creationBlocked
}

// permit returns an error once another process may be the leader. A former leader must not write what it read after the
// writes of its successor.
func (r *Reconciler) permit() error {
	if r.Permit == nil {
		return nil
	}
	return r.Permit()
}

// tracePlan begins the span for the execution of a plan.
func (r *Reconciler) tracePlan(
	ctx context.Context, instanceID string, calls []plan.Call,
) (context.Context, trace.Span) {
	tracer := trace.SpanFromContext(ctx).TracerProvider().Tracer(
		"github.com/multieni/multieni/internal/controller/instance")
	ctx, span := tracer.Start(ctx, "plan")
	if span.IsRecording() {
		span.SetAttributes(attribute.String("host.id", instanceID), attribute.Int("multieni.actions", len(calls)),
			attribute.String("multieni.plan", explained(calls).String()))
	}
	return ctx, span
}

// sooner returns the earlier of two times. Zero means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
