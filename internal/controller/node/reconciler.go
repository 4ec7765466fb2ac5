// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node gives every node its interfaces: it is the run-time path.
//
// One reconciliation concerns one node name with all NodeENIs that select it, so that they never race for a slot. It
// reads an immutable snapshot (snapshot.go), converts it for the core packages render, fleet and plan (desired.go;
// pods.go for pod networks), and stores the ledger (ledger.go). It makes the calls in the order of their priority, with
// a live read before a removal (reconcile.go, workers.go), and reports (status.go, report.go). Files refer to each
// other in one direction: setup.go and reconcile.go to all others, all others to reconciler.go, which has the state
// that reconciliations share.
package node

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/aws/observer"
	"github.com/multieni/multieni/internal/aws/resolver"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/gc"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/era"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/ratelimit"
	"github.com/multieni/multieni/internal/core/volatile"
)

// conflictDelay is how long the cache has to catch up.
const conflictDelay = 100 * time.Millisecond

// maxRounds bounds the plans of one reconciliation. A member needs three rounds from nothing to attached. An instance
// with 15 interfaces needs about 30 more than an instance with one, because each call ends at another time.
const maxRounds = 48

// replaceCheck is how often a node asks for permission to replace interfaces. Many nodes can wait for it until a person
// has repaired the node that blocks the rollout.
const replaceCheck = 30 * time.Second

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
	Resolver *resolver.Resolver
	Applier  *executor.Applier
	Limiter  Limiter
	// Permit returns an error once another process may be the leader; nil permits always.
	Permit   func() error
	GC       *gc.Collector
	InFlight *controller.InFlight
	// Era returns the era of this process.
	Era func() era.Era
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
	// Concurrency is how many nodes get interfaces at the same time. Fewer nodes are updated, or lose interfaces, at a
	// time.
	Concurrency int
	// Go runs work that no reconciliation waits for, until the context that it passes to the work ends. If Go is nil,
	// [Reconciler.Start] runs the work.
	Go func(work func(life context.Context))
	// Now returns the current time.
	Now func() time.Time
	Log *slog.Logger
	// Traces receives the spans; nil for no tracing.
	Traces trace.TracerProvider
	// Attached receives, for every interface that becomes attached, how long its node waited for it; nil for no
	// receiver.
	Attached func(after time.Duration)
}

// Reconciler reconciles nodes by name.
type Reconciler struct {
	Options
	// mu guards state, workers and creationBlocked, which all reconciliations share. The reconciler holds it for
	// computations on values only: never over a call to EC2, the API server, the observer or the recorder of events.
	mu      sync.Mutex
	state   volatile.State
	workers *ratelimit.Workers
	// creationBlocked reports whether the last plan found too many unattached interfaces in the cluster.
	creationBlocked bool
	// admitted receives the names of nodes that waited at the semaphore and are admitted.
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

// attempts returns the outcomes of the calls for an instance, and the subnets that are full for all instances.
func (r *Reconciler) attempts(instanceID string) (
	volatile.InstanceAttempts, map[plan.SubnetDemand]plan.FullSubnet,
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
	r.state.FullSubnets.Record(o.Action, o.Err, r.Now())
	r.state.Attempts.Record(instanceID, o.Action, o.Err, r.Now())
}

// keepVolatile drops the volatile state of instances that the node no longer has, or of the node if it no longer
// exists.
func (r *Reconciler) keepVolatile(node string, exists bool, instances []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.AttachLatency.Keep(node, instances)
	if !exists {
		r.state.StaleNodes.Forget(node)
	}
}

// forgetVolatile drops the volatile state of a node without interfaces, and of its instances. That of an instance that
// another Node has, a key of release, stays.
func (r *Reconciler) forgetVolatile(s *snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range s.instances {
		if _, others := s.release[id]; !others {
			r.state.ForgetInstance(id)
		}
	}
	r.state.LedgerWrites.End(s.name)
	r.state.StatusWrites.End(s.name)
	if s.state != nil {
		r.state.MissingReports.End(string(s.state.UID))
	}
}

func (r *Reconciler) lockInstance(instanceID, node string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.InstanceLocks.TryLock(instanceID, node)
}

func (r *Reconciler) unlockInstance(instanceID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.InstanceLocks.Unlock(instanceID)
}

func (r *Reconciler) allowCreates(actions []plan.Action) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.FullSubnets.Allow(actions, r.Now())
}

func (r *Reconciler) mayReplace(nodeENIUID, instanceID string, limit int, unavailable []string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.Replacements.Acquire(nodeENIUID, instanceID, limit, unavailable)
}

func (r *Reconciler) replacing(nodeENIUID string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.Replacements.Of(nodeENIUID)
}

func (r *Reconciler) releaseReplacements(instanceID string, except ...identity.Owner) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.Replacements.Release(instanceID, except...)
}

func (r *Reconciler) addStale(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.StaleNodes.Add(node)
}

func (r *Reconciler) takeStale(node string) (stale bool, requeueAt time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.StaleNodes.Take(node, r.Now())
}

func (r *Reconciler) recordLatency(node, instanceID string, members []plan.Member) []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.AttachLatency.Record(node, instanceID, members, r.Now())
}

func (r *Reconciler) isNewSkip(node *corev1.Node, nodeENI *v1alpha1.NodeENI, why error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.SkippedNodes.Report(node.Name,
		volatile.Skip{NodeUID: string(node.UID), NodeENIUID: string(nodeENI.UID), Why: why.Error()})
}

func (r *Reconciler) forgetSkips(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.SkippedNodes.Forget(node)
}

func (r *Reconciler) endDeferral(writes *volatile.Deferrals, node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	writes.End(node)
}

// maxReconciles is how many reconciliations run at a time: those with a worker, and a few without calls.
func (r *Reconciler) maxReconciles() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	width := r.workers.Width()
	return width + max(1, width/8)
}

// Admitted returns the channel that receives the names of admitted nodes, which must be reconciled.
func (r *Reconciler) Admitted() <-chan string { return r.admitted }

// wakeWaiting enqueues nodes that were admitted, or that have a reason to reconcile. It does so regardless of the
// reconciliation's result: an admitted node that is not enqueued would keep its worker forever. While the channel is
// full, it waits for [Reconciler.enqueueObserved], which never blocks.
func (r *Reconciler) wakeWaiting(names []string) {
	for _, name := range names {
		r.admitted <- name
	}
}

// CreationBlocked reports whether the last check blocked the creation of interfaces in the whole cluster.
func (r *Reconciler) CreationBlocked() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.creationBlocked
}

// tracePlan begins the span for the execution of a plan.
func (r *Reconciler) tracePlan(ctx context.Context, node, instanceID string,
	p plan.Plan) (context.Context, trace.Span) {
	tracer := trace.SpanFromContext(ctx).TracerProvider().Tracer("github.com/multieni/multieni/internal/controller/node")
	ctx, span := tracer.Start(ctx, "plan")
	if span.IsRecording() {
		span.SetAttributes(attribute.String("k8s.node.name", node), attribute.String("host.id", instanceID),
			attribute.Int("multieni.actions", len(p.Actions)), attribute.String("multieni.plan", p.Explain()))
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
