// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni

import (
	"context"
	"slices"

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
	"github.com/multieni/multieni/internal/base/panics"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/eni"
)

// SetupWithManager watches NodeENIs, the states that name them, and the nodes that they select.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	b := ctrl.NewControllerManagedBy(mgr).
		Named("nodeeni").
		For(&v1alpha1.NodeENI{}, builder.WithPredicates(controller.SpecOrLifeChanged())).
		Watches(&v1alpha1.NodeENI{}, handler.Funcs{UpdateFunc: r.enqueueReported},
			builder.WithPredicates(controller.StatusChanged())).
		Watches(&v1alpha1.NodeENIState{}, controller.EachVersion(r.enqueueOwners)).
		Watches(&v1alpha1.FloatingAddress{}, controller.EachVersion(r.enqueueAddress),
			builder.WithPredicates(addressExplained())).
		Watches(&corev1.Node{}, controller.EachVersion(r.enqueueSelecting),
			builder.WithPredicates(controller.NodeIdentityChanged())).
		WatchesRawSource(source.Func(func(ctx context.Context, q controller.Queue) error {
			r.Refusals.Watch(func() { r.enqueue(ctx, q, "", func(*v1alpha1.NodeENI) bool { return true }) })
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
func (r *Reconciler) enqueueReported(_ context.Context, e event.UpdateEvent, q controller.Queue) {
	nodeENI := e.ObjectNew.(*v1alpha1.NodeENI)
	q.AddAfter(request(nodeENI), r.bursts.reread(nodeENI.Name, nodeENI.Status.Nodes, r.Now()))
}

// enqueueOf enqueues the NodeENIs that a node concerns.
func (r *Reconciler) enqueueOf(ctx context.Context, q controller.Queue, name string) error {
	var node corev1.Node
	if err := r.Client.Get(ctx, types.NamespacedName{Name: name}, &node); err != nil {
		return client.IgnoreNotFound(err)
	}
	r.enqueueSelecting(ctx, q, &node)
	return nil
}

// enqueueRefused enqueues the NodeENIs of nodes whose NodeENIState the API server began, or ceased, to refuse.
func (r *Reconciler) enqueueRefused(ctx context.Context, q controller.Queue) error {
	go func() {
		for {
			select {
			case <-r.RefusedWrites.Wake():
			case <-ctx.Done():
				return
			}
			for _, name := range r.RefusedWrites.Changed() {
				if err := panics.AsError("node "+name, func() error { return r.enqueueOf(ctx, q, name) }); err != nil {
					r.Log.Error("NodeENIs of a node could not be enqueued", "node", name, "err", err)
				}
			}
		}
	}()
	return nil
}

func (r *Reconciler) enqueueOwners(ctx context.Context, q controller.Queue, object client.Object) {
	owners := controller.Owners(object.(*v1alpha1.NodeENIState))
	r.enqueue(ctx, q, object.GetName(), func(n *v1alpha1.NodeENI) bool {
		for _, uid := range owners {
			if string(n.UID) == uid {
				return true
			}
		}
		return false
	})
}

func (r *Reconciler) enqueueSelecting(ctx context.Context, q controller.Queue, object client.Object) {
	r.enqueue(ctx, q, object.GetName(), r.Concerned(ctx, object.(*corev1.Node)))
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

// enqueue enqueues the NodeENIs that a change concerns. A change without a node has the shortest delay.
func (r *Reconciler) enqueue(
	ctx context.Context, q controller.Queue, node string, concerned func(*v1alpha1.NodeENI) bool,
) {
	var all v1alpha1.NodeENIList
	if err := r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		r.Log.Error("NodeENIs could not be listed", "err", err)
		return
	}
	for n := range all.Items {
		nodeENI := &all.Items[n]
		if !concerned(nodeENI) {
			continue
		}
		wait := statusDelay(nodeENI.Status.Nodes)
		if node != "" {
			wait = r.bursts.changed(nodeENI.Name, node, nodeENI.Status.Nodes, r.Now())
		}
		q.AddAfter(request(nodeENI), wait)
	}
}

func request(nodeENI *v1alpha1.NodeENI) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: nodeENI.Name}}
}
