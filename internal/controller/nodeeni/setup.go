// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
)

// News of nodes is collected for a while before a NodeENI's status is worked out anew: when a fleet is under way, one
// write tells of many nodes. That takes time for each node, so the while grows with their number, and the work of a
// rollout with the fleet and not with its square.
const (
	gatheringLeast   = 250 * time.Millisecond
	gatheringPerNode = time.Millisecond
	gatheringMost    = 10 * time.Second
)

// gathering is how long news is collected for a NodeENI with so many nodes.
func gathering(nodes int32) time.Duration {
	return min(max(gatheringLeast, time.Duration(nodes)*gatheringPerNode), gatheringMost)
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// SetupWithManager wires the reconciler to NodeENIs, to the states that speak of them, and to the nodes they select.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("nodeeni").
		For(&v1alpha1.NodeENI{}, builder.WithPredicates(Changed())).
		Watches(&v1alpha1.NodeENIState{}, eachVersion(r.enqueueOwners)).
		Watches(&corev1.Node{}, eachVersion(r.enqueueSelecting), builder.WithPredicates(controller.NodeIdentityChanged())).
		WatchesRawSource(source.Func(func(ctx context.Context, q queue) error {
			r.Refusals.Watch(func() { r.enqueue(ctx, q, func(*v1alpha1.NodeENI) bool { return true }) })
			return nil
		})).
		WithOptions(ctrlcontroller.Options{MaxConcurrentReconciles: r.Concurrency, RateLimiter: controller.Backoff()}).
		Complete(r)
}

// Changed passes what can make a NodeENI say something else than it should.
func Changed() predicate.Predicate {
	return predicate.Or(controller.SpecOrLifeChanged(), controller.StatusChanged())
}

// eachVersion hands every version of a changed object on: what an object spoke of before concerns it as well.
func eachVersion(enqueue func(context.Context, queue, client.Object)) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { enqueue(ctx, q, e.Object) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { enqueue(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			enqueue(ctx, q, e.ObjectOld)
			enqueue(ctx, q, e.ObjectNew)
		},
	}
}

func (r *Reconciler) enqueueOwners(ctx context.Context, q queue, object client.Object) {
	owners := controller.Owners(object.(*v1alpha1.NodeENIState))
	r.enqueue(ctx, q, func(n *v1alpha1.NodeENI) bool {
		for _, uid := range owners {
			if string(n.UID) == uid {
				return true
			}
		}
		return false
	})
}

func (r *Reconciler) enqueueSelecting(ctx context.Context, q queue, object client.Object) {
	r.enqueue(ctx, q, func(n *v1alpha1.NodeENI) bool {
		return controller.Selector(n.Spec).Matches(labels.Set(object.GetLabels()))
	})
}

func (r *Reconciler) enqueue(ctx context.Context, q queue, concerned func(*v1alpha1.NodeENI) bool) {
	var all v1alpha1.NodeENIList
	if err := r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		r.Log.Error("NodeENIs could not be listed", "err", err)
		return
	}
	for n := range all.Items {
		if concerned(&all.Items[n]) {
			q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: all.Items[n].Name}}, gathering(all.Items[n].Status.Nodes))
		}
	}
}
