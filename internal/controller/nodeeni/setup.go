// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/eni"
)

// The controller collects changes of nodes for a delay before it decides about a NodeENI again. The computation takes
// time for each node. The delay therefore grows with their number, and the work of a rollout grows with the fleet and
// not with its square.
const (
	minDelay     = 250 * time.Millisecond
	delayPerNode = time.Millisecond
	maxDelay     = 10 * time.Second
)

// delay is the delay of a NodeENI with the given number of nodes.
func delay(nodes int32) time.Duration {
	return min(max(minDelay, time.Duration(nodes)*delayPerNode), maxDelay)
}

// SetupWithManager watches NodeENIs, their objects, and the nodes that they select.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	b := ctrl.NewControllerManagedBy(mgr).
		Named("nodeeni").
		For(&v1alpha1.NodeENI{}, builder.WithPredicates(controller.SpecOrLifeChanged())).
		Watches(&v1alpha1.NodeENI{}, handler.Funcs{UpdateFunc: enqueueReported},
			builder.WithPredicates(controller.StatusChanged())).
		Watches(&v1alpha1.NodeENI{}, handler.Funcs{UpdateFunc: r.enqueueReplacing}).
		Watches(&v1alpha1.NetworkInterface{}, controller.EachVersion(r.enqueueOwner)).
		Watches(&v1alpha1.FloatingAddress{}, controller.EachVersion(r.enqueueAddress),
			builder.WithPredicates(addressExplained())).
		Watches(&corev1.Node{}, controller.EachVersion(r.enqueueSelecting),
			builder.WithPredicates(controller.NodeIdentityChanged())).
		WatchesRawSource(source.Func(func(ctx context.Context, q controller.Queue) error {
			r.Refusals.Watch(func() { r.enqueue(ctx, q, func(*v1alpha1.NodeENI) bool { return true }) })
			return nil
		})).
		WatchesRawSource(source.Func(r.enqueueRefused)).
		WithOptions(ctrlcontroller.Options{MaxConcurrentReconciles: r.Concurrency, RateLimiter: controller.Backoff()})
	if r.AttachmentsChanged != nil {
		b = b.WatchesRawSource(source.Channel(r.AttachmentsChanged, &handler.EnqueueRequestForObject{}))
	}
	return b.Complete(r)
}

// enqueueReported enqueues a NodeENI after its status was written, together with further changes.
func enqueueReported(_ context.Context, e event.UpdateEvent, q controller.Queue) {
	nodeENI := e.ObjectNew.(*v1alpha1.NodeENI)
	q.AddAfter(request(nodeENI.Name), delay(nodeENI.Status.Nodes))
}

// enqueueRefused enqueues the NodeENIs whose objects the API server began, or ceased, to refuse.
func (r *Reconciler) enqueueRefused(ctx context.Context, q controller.Queue) error {
	go func() {
		for {
			select {
			case <-r.RefusedWrites.Wake():
			case <-ctx.Done():
				return
			}
			for _, name := range r.RefusedWrites.Changed() {
				q.Add(request(name))
			}
		}
	}()
	return nil
}

// enqueueOwner enqueues the NodeENI of an object, also one that does not exist.
func (r *Reconciler) enqueueOwner(ctx context.Context, q controller.Queue, o client.Object) {
	name := o.(*v1alpha1.NetworkInterface).Spec.NodeENI.Name
	var nodeENI v1alpha1.NodeENI
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, &nodeENI); client.IgnoreNotFound(err) != nil {
		r.Log.Error("the NodeENI of an object could not be read", "nodeeni", name, "err", err)
	}
	q.AddAfter(request(name), delay(nodeENI.Status.Nodes))
}

func (r *Reconciler) enqueueSelecting(ctx context.Context, q controller.Queue, object client.Object) {
	r.enqueue(ctx, q, r.Concerned(ctx, object.(*corev1.Node)))
}

// Concerned returns whether a change of a Node concerns a NodeENI: it selects the Node, or another Node of the same
// instance, which gets the instance or loses it.
func (r *Reconciler) Concerned(ctx context.Context, node *corev1.Node) func(*v1alpha1.NodeENI) bool {
	its := []labels.Set{node.Labels}
	if ref, err := eni.ParseProviderID(node.Spec.ProviderID); err == nil {
		var same corev1.NodeList
		if err := r.Client.List(ctx, &same, controller.OfInstance(ref.ID), client.UnsafeDisableDeepCopy); err != nil {
			r.Log.Error("Nodes of an instance could not be listed", "instance", ref.ID, "err", err)
		}
		for n := range same.Items {
			its = append(its, same.Items[n].Labels)
		}
	}
	return func(n *v1alpha1.NodeENI) bool {
		return slices.ContainsFunc(its, func(set labels.Set) bool { return controller.Selector(n.Spec).Matches(set) })
	}
}

// enqueue enqueues the NodeENIs that a change concerns.
func (r *Reconciler) enqueue(ctx context.Context, q controller.Queue, concerned func(*v1alpha1.NodeENI) bool) {
	var all v1alpha1.NodeENIList
	if err := r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		r.Log.Error("NodeENIs could not be listed", "err", err)
		return
	}
	for n := range all.Items {
		if concerned(&all.Items[n]) {
			q.AddAfter(request(all.Items[n].Name), delay(all.Items[n].Status.Nodes))
		}
	}
}

func request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}
