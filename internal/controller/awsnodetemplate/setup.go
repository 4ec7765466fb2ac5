// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsnodetemplate

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/base/panics"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// eventDelay is how long the controller collects changes of nodes: a fleet that joins causes one reconciliation, not
// one per node.
const eventDelay = 500 * time.Millisecond

// SetupWithManager connects the reconciler to AWSNodeTemplates, to nodes that join and leave, and to a timer.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	if err := mgr.Add(manager.RunnableFunc(r.collectPeriodically)); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("awsnodetemplate").
		For(&v1alpha1.AWSNodeTemplate{},
			builder.WithPredicates(predicate.Or(controller.SpecOrLifeChanged(), controller.StatusChanged()))).
		Watches(&corev1.Node{}, controller.EachVersion(r.enqueueAll),
			builder.WithPredicates(controller.NodeIdentityChanged())).
		WithOptions(ctrlcontroller.Options{MaxConcurrentReconciles: r.Concurrency, RateLimiter: controller.Backoff()}).
		Complete(r)
}

// collectPeriodically collects launch templates until the context ends. Its permissions are optional for users without
// node templates.
func (r *Reconciler) collectPeriodically(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(launchtemplate.OrphanGrace):
		}
		err := panics.AsError("the sweep of launch templates", func() error { return r.CollectTemplates(ctx) })
		if err != nil && ctx.Err() == nil {
			r.Log.Info("launch templates without a node template could not be collected", "err", err)
		}
	}
}

// enqueueAll enqueues every node template: only EC2 knows which of them a node was launched from. There are few.
func (r *Reconciler) enqueueAll(ctx context.Context, q controller.Queue, _ client.Object) {
	var all v1alpha1.AWSNodeTemplateList
	if err := r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		r.Log.Error("AWSNodeTemplates could not be listed", "err", err)
	}
	for n := range all.Items {
		q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: all.Items[n].Name}}, eventDelay)
	}
}
