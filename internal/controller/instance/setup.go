// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/object"
)

// SetupWithManager connects the reconciler to its triggers: objects, the Nodes of their instances, NodeENIs that are
// paused or deleted, FloatingAddresses, and changes that the observer reads from EC2.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	if err := mgr.Add(r); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("instance").
		Watches(&v1alpha1.NetworkInterface{}, r.objectHandler(), builder.WithPredicates(ObjectChanged())).
		Watches(&v1alpha1.NetworkInterface{}, handler.Funcs{
			UpdateFunc: func(_ context.Context, e event.UpdateEvent, q controller.Queue) {
				id := e.ObjectNew.(*v1alpha1.NetworkInterface).Spec.InstanceID
				r.AddStale(id)
				q.Add(request(id))
			},
		}, builder.WithPredicates(LinkVanished())).
		Watches(&corev1.Node{}, controller.EachVersion(enqueueNode),
			builder.WithPredicates(controller.NodeIdentityChanged())).
		Watches(&v1alpha1.NodeENI{}, controller.EachVersion(r.enqueueNodeENI), builder.WithPredicates(NodeENIChanged())).
		Watches(&v1alpha1.NodeENI{}, handler.Funcs{UpdateFunc: enqueueTurns}).
		WatchesRawSource(source.Func(r.enqueueObserved)).
		WithOptions(ctrlcontroller.Options{MaxConcurrentReconciles: r.maxReconciles(), RateLimiter: controller.Backoff()}).
		Complete(r)
}

// createdDelay is the time from a new object to the plan for its instance. The objects of a node come within a few
// milliseconds, and one that comes while a call for the instance is under way waits for the answer.
const createdDelay = 15 * time.Millisecond

// objectHandler enqueues the instances of objects.
func (r *Reconciler) objectHandler() handler.EventHandler {
	all := handler.EnqueueRequestsFromMapFunc(r.InstanceOf)
	return handler.Funcs{
		UpdateFunc: all.Update, DeleteFunc: all.Delete,
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q controller.Queue) {
			if e.IsInInitialList { // the handler gives these their priority
				all.Create(ctx, e, q)
				return
			}
			q.AddAfter(request(e.Object.(*v1alpha1.NetworkInterface).Spec.InstanceID), createdDelay)
		},
	}
}

// InstanceOf returns the request for the instance of an object.
func (r *Reconciler) InstanceOf(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{request(o.(*v1alpha1.NetworkInterface).Spec.InstanceID)}
}

// ObjectChanged passes changes of an object that can require a correction or a new plan: of the spec, of its life, of
// the part of the status that the controller writes, of the hold, and of the prefixes that pods need.
func ObjectChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, now := e.ObjectOld.(*v1alpha1.NetworkInterface), e.ObjectNew.(*v1alpha1.NetworkInterface)
		return was.UID != now.UID || was.Generation != now.Generation ||
			was.DeletionTimestamp.IsZero() != now.DeletionTimestamp.IsZero() ||
			!slices.Equal(was.Finalizers, now.Finalizers) || !maps.Equal(was.Annotations, now.Annotations) ||
			wanted(was) != wanted(now) || was.Held() != now.Held() ||
			!equality.Semantic.DeepEqual(object.WithoutNode(was.Status), object.WithoutNode(now.Status))
	}}
}

// wanted returns the number of prefixes that the pods of the node need.
func wanted(o *v1alpha1.NetworkInterface) int32 {
	if o.Status.Node == nil || o.Status.Node.Pods == nil {
		return 0
	}
	return o.Status.Node.Pods.Wanted
}

// LinkVanished passes changes after which an agent no longer finds a link that it found before: another program may
// have detached the interface.
func LinkVanished() predicate.Predicate {
	missing := func(o client.Object) (missing, reported bool) {
		node := o.(*v1alpha1.NetworkInterface).Status.Node
		if node == nil || node.Link == nil {
			return false, false
		}
		return node.Link.State == v1alpha1.LinkMissing, true
	}
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			was, known := missing(e.ObjectOld)
			now, _ := missing(e.ObjectNew)
			return known && now && !was
		},
	}
}

// enqueueTurns enqueues the instances of the objects that got their turns.
func enqueueTurns(_ context.Context, e event.UpdateEvent, q controller.Queue) {
	was, now := e.ObjectOld.(*v1alpha1.NodeENI), e.ObjectNew.(*v1alpha1.NodeENI)
	for _, id := range GotTurns(was, now) {
		q.Add(request(id))
	}
}

// GotTurns returns the instances of the objects that have their turns in the later one of two versions of a NodeENI.
func GotTurns(was, now *v1alpha1.NodeENI) (instances []string) {
	for _, t := range now.Status.Turns {
		if !slices.Contains(was.Status.Turns, t) {
			instances = append(instances, t.InstanceID)
		}
	}
	return instances
}

// NodeENIChanged passes what matters to objects that exist: that their NodeENI appears, is deleted or paused.
func NodeENIChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, now := e.ObjectOld.(*v1alpha1.NodeENI), e.ObjectNew.(*v1alpha1.NodeENI)
		return was.UID != now.UID || was.DeletionTimestamp.IsZero() != now.DeletionTimestamp.IsZero() ||
			controller.Paused(was) != controller.Paused(now)
	}}
}

func enqueueNode(_ context.Context, q controller.Queue, node client.Object) {
	for _, id := range controller.Indexed(node) {
		q.Add(request(id))
	}
}

func (r *Reconciler) enqueueNodeENI(ctx context.Context, q controller.Queue, nodeENI client.Object) {
	objects, err := object.OfNodeENI(ctx, r.Client, nodeENI.GetName())
	if err != nil {
		r.Log.Error("the interfaces of a NodeENI could not be listed", "nodeeni", nodeENI.GetName(), "err", err)
	}
	for n := range objects {
		q.Add(request(objects[n].Spec.InstanceID))
	}
}

// enqueueObserved enqueues the instances whose interfaces changed in the observer's inventory, and those that were
// admitted. Both come before instances without a known change.
func (r *Reconciler) enqueueObserved(ctx context.Context, q controller.Queue) error {
	go func() {
		for {
			var id string
			select {
			case id = <-r.Observer.Changed():
			case id = <-r.admitted:
			case <-ctx.Done():
				return
			}
			addFirst(q, id)
		}
	}()
	return nil
}

func addFirst(q controller.Queue, id string) {
	if ordered, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		ordered.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(1)}, request(id))
		return
	}
	q.Add(request(id))
}

func request(id string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: id}}
}
