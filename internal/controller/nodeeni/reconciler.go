// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodeeni reconciles NodeENI objects: it accepts them, deletes their objects for rollouts and with them, evicts
// pods, reports the state of the fleet, and removes their finalizers once no object is left. It changes nothing in EC2;
// the reconciler of instances does.
//
// One reconciliation gathers (gather.go), asks package fleet what happens next, does it (apply.go), and writes the
// status (report.go; pods.go for networks for pods). A NodeENI that does not exist is reconciled as long as objects
// name it (orphans.go).
package nodeeni

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/observer"
	"github.com/multieni/multieni/internal/aws/resolver"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/fleet"
)

const (
	// recheck is the requeue time of a deletion that waits, and of a reconciliation that waits for the first list. A
	// deletion that has waited for a long time waits for a user: it is requeued less often, after a tenth of its waiting
	// time but at least every mostRecheck.
	recheck, mostRecheck = 5 * time.Second, 10 * time.Minute
	// conflictDelay is how long the cache has to catch up with a write of ours or of another client.
	conflictDelay = 100 * time.Millisecond
)

// Options are what a Reconciler works with.
type Options struct {
	Client client.Client
	// Reader reads from the API server itself, not from a cache.
	Reader   client.Reader
	Observer *observer.Observer
	Resolver *resolver.Resolver
	// Refusals holds the reads that EC2 refuses; nil for none. Events emits events; nil emits none.
	Refusals *controller.Refusals
	// RefusedWrites holds the objects that the API server refuses to store.
	RefusedWrites *controller.RejectedWrites
	// Attachments has the states of the NetworkAttachmentDefinitions of each NodeENI; AttachmentsChanged receives the
	// NodeENIs whose state changed.
	Attachments        *controller.AttachmentDefinitions
	AttachmentsChanged <-chan event.GenericEvent
	Events             events.EventRecorder
	// Reresolve is how often subnets and groups are resolved again; ReresolveMissing while some are not found.
	Reresolve, ReresolveMissing time.Duration
	// Concurrency is how many NodeENIs are reconciled at the same time.
	Concurrency int
	// Now returns the current time.
	Now func() time.Time
	Log *slog.Logger
}

// Reconciler reconciles NodeENIs.
type Reconciler struct {
	Options
	// mu guards what all reconciliations share. The reconciler holds it for computations on values only.
	mu sync.Mutex
	// written are the times of the last writes of statuses, and absent those of the first reads without a NodeENI, by
	// name.
	written, absent map[string]time.Time
	// deleted are the objects that this process deleted and that the cache may still have, by UID.
	deleted map[string]time.Time
	// reserved has, by instance, the last turn for a replacement there that the cache may not show yet.
	reserved map[string]reservation
	// evictions are the last attempts to evict pods, by ENI.
	evictions map[string]attempt
}

// New returns a Reconciler to be set up with a manager.
func New(options Options) *Reconciler {
	if options.Refusals == nil {
		options.Refusals = &controller.Refusals{}
	}
	if options.RefusedWrites == nil {
		options.RefusedWrites = &controller.RejectedWrites{}
	}
	if options.Attachments == nil {
		options.Attachments = &controller.AttachmentDefinitions{}
	}
	return &Reconciler{
		Options: options, written: map[string]time.Time{}, absent: map[string]time.Time{},
		deleted: map[string]time.Time{}, reserved: map[string]reservation{}, evictions: map[string]attempt{},
	}
}

// Reconcile decides about the objects of one NodeENI, updates its status, and adds or removes its finalizer.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	again, err := r.reconcile(ctx, request.Name)
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	}
	return reconcile.Result{RequeueAfter: again}, err
}

func (r *Reconciler) reconcile(ctx context.Context, name string) (again time.Duration, err error) {
	synced, err := r.synced(ctx)
	if err != nil {
		return 0, err
	}
	nodeENI := &v1alpha1.NodeENI{}
	switch err := r.Client.Get(ctx, client.ObjectKey{Name: name}, nodeENI); {
	case apierrors.IsNotFound(err):
		return r.orphans(ctx, name)
	case err != nil:
		return 0, err
	case !synced:
		return recheck, client.IgnoreNotFound(r.reportUnsynced(ctx, nodeENI))
	}
	if nodeENI.DeletionTimestamp.IsZero() {
		if err := r.addFinalizer(ctx, nodeENI); err != nil {
			return 0, client.IgnoreNotFound(err)
		}
	}
	f, unreadable, err := r.gather(ctx, nodeENI)
	if err != nil {
		return 0, err
	}
	f.outcome = fleet.Compute(f.nodeENI, f.inFleet, f.instances, f.now)
	if !r.reserve(f) {
		return conflictDelay, nil
	}
	if err := r.recordTurns(ctx, nodeENI, f); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	failed := r.apply(ctx, &f)
	if !nodeENI.DeletionTimestamp.IsZero() && (f.outcome.Done || r.isUndefined(ctx)) {
		if gone, err := r.removeFinalizer(ctx, nodeENI); gone || err != nil {
			return 0, err
		}
	}
	wait, err := r.report(ctx, nodeENI, f)
	return sooner(wait, r.next(nodeENI, f)), errors.Join(failed, unreadable, client.IgnoreNotFound(err))
}

// sooner returns the shorter of two waits. Zero means none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

func (r *Reconciler) next(nodeENI *v1alpha1.NodeENI, f facts) time.Duration {
	again := r.Reresolve
	switch {
	case !nodeENI.DeletionTimestamp.IsZero():
		again = min(max(recheck, f.now.Sub(nodeENI.DeletionTimestamp.Time)/10), mostRecheck)
	case !f.resolved():
		again = r.ReresolveMissing
	}
	return sooner(again, f.nextEviction)
}

// addFinalizer adds the finalizer. Without it the controller creates no object for a NodeENI.
func (r *Reconciler) addFinalizer(ctx context.Context, nodeENI *v1alpha1.NodeENI) error {
	before := nodeENI.DeepCopy()
	if !controllerutil.AddFinalizer(nodeENI, v1alpha1.Finalizer) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, nodeENI, patch, client.FieldOwner(v1alpha1.FieldOwnerController)); err != nil {
		return fmt.Errorf("add the finalizer to NodeENI %s: %w", nodeENI.Name, err)
	}
	return nil
}

// removeFinalizer removes the finalizer when the API server itself has no object of the NodeENI. It has no timeout.
func (r *Reconciler) removeFinalizer(ctx context.Context, nodeENI *v1alpha1.NodeENI) (gone bool, err error) {
	if !controllerutil.ContainsFinalizer(nodeENI, v1alpha1.Finalizer) {
		return true, nil
	}
	left, err := r.hasObjects(ctx, nodeENI)
	if err != nil || left {
		return false, err
	}
	before := nodeENI.DeepCopy()
	controllerutil.RemoveFinalizer(nodeENI, v1alpha1.Finalizer)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, nodeENI, patch,
		client.FieldOwner(v1alpha1.FieldOwnerController)); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("remove the finalizer from NodeENI %s: %w", nodeENI.Name, err)
	}
	r.Log.Info("NodeENI is gone; none of its objects is left", "nodeeni", nodeENI.Name)
	return true, nil
}
