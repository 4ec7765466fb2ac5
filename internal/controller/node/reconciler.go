// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node writes the NetworkInterface objects of each node, and reports on the Node whether its interfaces are
// ready.
//
// One reconciliation concerns one Node with all NodeENIs that select it. It gathers (gather.go), asks package render
// for the writes and makes them, with a live read before the first deletion (write.go). Then it writes the condition,
// the labels, the annotation and the startup taint of the Node (readiness.go). It changes nothing in EC2: the
// controller of instances does.
package node

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/internal/aws/observer"
	"github.com/multieni/multieni/internal/aws/resolver"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/render"
	"github.com/multieni/multieni/internal/core/volatile"
)

// conflictDelay is how long the cache has to catch up with a write of ours or of another client.
const conflictDelay = 100 * time.Millisecond

// Options are what a Reconciler works with.
type Options struct {
	Client client.Client
	// Reader reads from the API server itself, not from a cache.
	Reader   client.Reader
	Events   events.EventRecorder
	Observer *observer.Observer
	Resolver *resolver.Resolver
	// RefusedWrites holds the objects that the API server refuses to store.
	RefusedWrites *controller.RejectedWrites
	// Taint is the key of the startup taint, which keeps pods away until the node is ready.
	Taint string
	// ReapplyTaint adds the taint again to a node that loses a required interface.
	ReapplyTaint bool
	// Concurrency is how many Nodes are reconciled at the same time.
	Concurrency int
	// Now returns the current time.
	Now func() time.Time
	Log *slog.Logger
	// Traces receives the spans; nil for no tracing.
	Traces trace.TracerProvider
}

// Reconciler reconciles Nodes by name.
type Reconciler struct {
	Options
	// mu guards skipped, vpcs, pace and waiting, which all reconciliations share. The reconciler holds it for computations
	// on values only.
	mu      sync.Mutex
	skipped volatile.SkippedNodes
	// vpcs are the VPCs of instances, by the name of the node; an instance never changes its VPC.
	vpcs map[string]located
	pace pace
	// waiting are the interfaces of networks that had no object after the last list of EC2, by ID.
	waiting map[string]bool
	// listed receives a value after each list of EC2.
	listed chan struct{}
}

// New returns a Reconciler to be set up with a manager.
func New(options Options) *Reconciler {
	if options.RefusedWrites == nil {
		options.RefusedWrites = &controller.RejectedWrites{}
	}
	return &Reconciler{Options: options, vpcs: map[string]located{}, listed: make(chan struct{}, 1)}
}

// Reconcile writes the objects and the readiness of one Node.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	ctx, end := controller.Trace(ctx, r.Traces, "render", attribute.String("k8s.node.name", request.Name))
	again, err := r.reconcile(ctx, request.Name)
	end(err)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	}
	return reconcile.Result{RequeueAfter: again}, err
}

func (r *Reconciler) reconcile(ctx context.Context, name string) (again time.Duration, err error) {
	g, err := r.gather(ctx, name)
	if err != nil {
		return 0, err
	}
	if g.node == nil {
		r.forget(name)
		return 0, nil
	}
	writes := render.Node(g.in)
	wait, failed := r.write(ctx, g, writes)
	readiness := r.writeReadiness(ctx, g, render.Names(g.in.Objects, writes))
	return sooner(g.again, wait), errors.Join(failed, g.unresolved, client.IgnoreNotFound(readiness))
}

// sooner returns the shorter of two waits. Zero means none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// forget drops what is known of a Node that does not exist.
func (r *Reconciler) forget(name string) {
	r.RefusedWrites.Settle(refusedKind, name, nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.skipped.Forget(name)
	r.pace.forget(name)
	delete(r.vpcs, name)
}
