// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
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
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// SetupWithManager connects the reconciler to its triggers: Nodes whose labels or identity change, NodeENIs,
// NodeENIStates, and changes that the observer reads from EC2.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	if err := mgr.Add(r); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("node").
		For(&corev1.Node{}, builder.WithPredicates(controller.NodeIdentityChanged())).
		Watches(&corev1.Node{}, handler.Funcs{
			CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { r.enqueueDuplicateNodes(ctx, q, e.Object) },
			UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
				r.enqueueDuplicateNodes(ctx, q, e.ObjectOld, e.ObjectNew)
			},
			DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { r.enqueueDuplicateNodes(ctx, q, e.Object) },
		}, builder.WithPredicates(controller.NodeIdentityChanged())).
		Watches(&v1alpha1.NodeENI{}, handler.Funcs{
			CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { r.enqueueNodes(ctx, q, e.Object) },
			UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
				r.enqueueNodes(ctx, q, e.ObjectOld, e.ObjectNew)
			},
			DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { r.enqueueNodes(ctx, q, e.Object) },
		}, builder.WithPredicates(RelevantNodeENIChange())).
		Watches(&v1alpha1.NodeENIState{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(StateChanged())).
		Watches(&v1alpha1.NodeENIState{}, handler.Funcs{UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			r.addStale(e.ObjectNew.GetName())
			q.Add(request(e.ObjectNew.GetName()))
		}}, builder.WithPredicates(LinkVanished())).
		Watches(&v1alpha1.SubnetReservation{}, handler.EnqueueRequestsFromMapFunc(r.followersOf),
			builder.WithPredicates(blocksChanged())).
		WatchesRawSource(source.Func(r.enqueueObserved)).
		WithOptions(ctrlcontroller.Options{MaxConcurrentReconciles: r.maxReconciles(), RateLimiter: controller.Backoff()}).
		Complete(r)
}

// StateChanged passes changes of a NodeENIState that can require a correction or a new plan: of the spec, of the part
// of the status that the controller writes, of the devices that the node holds, and of the pods that use its
// interfaces.
func StateChanged() predicate.Predicate {
	holdings := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*v1alpha1.NodeENIState), e.ObjectNew.(*v1alpha1.NodeENIState)
		was, now := snapshot{state: before}, snapshot{state: after}
		return !maps.Equal(devicesInUse([]v1alpha1.NodeENIState{*before}), devicesInUse([]v1alpha1.NodeENIState{*after})) ||
			!reflect.DeepEqual(was.podNetworks(), now.podNetworks())
	}}
	return predicate.Or(predicate.GenerationChangedPredicate{}, controller.StatusChanged(), holdings)
}

// LinkVanished passes changes after which an agent no longer finds a link that it found before: another program may
// have detached the interface.
func LinkVanished() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			was := map[string]v1alpha1.LinkPhase{}
			for _, link := range e.ObjectOld.(*v1alpha1.NodeENIState).Status.Links {
				was[link.MACAddress] = link.State
			}
			return slices.ContainsFunc(e.ObjectNew.(*v1alpha1.NodeENIState).Status.Links, func(link v1alpha1.LinkState) bool {
				before, known := was[link.MACAddress]
				return known && link.State == v1alpha1.LinkMissing && before != v1alpha1.LinkMissing
			})
		},
	}
}

// RelevantNodeENIChange passes changes that can change the claims of a NodeENI. In the status these are the matches of
// its selectors, because nodes wait for a missing subnet.
func RelevantNodeENIChange() predicate.Predicate {
	resolved := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, now := e.ObjectOld.(*v1alpha1.NodeENI).Status, e.ObjectNew.(*v1alpha1.NodeENI).Status
		return !slices.Equal(was.Subnets, now.Subnets) || !slices.Equal(was.SecurityGroups, now.SecurityGroups)
	}}
	return predicate.Or(controller.SpecOrLifeChanged(), resolved)
}

func (r *Reconciler) enqueueDuplicateNodes(ctx context.Context, q queue, versions ...client.Object) {
	for _, name := range r.DuplicateNodes(ctx, versions...) {
		q.Add(request(name))
	}
}

// followersOf returns the nodes whose NodeENIs have addresses that follow pods within SubnetReservations.
func (r *Reconciler) followersOf(ctx context.Context, _ client.Object) []reconcile.Request {
	var all v1alpha1.NodeENIList
	if err := r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		r.Log.Error("NodeENIs could not be listed", "err", err)
	}
	var requests []reconcile.Request
	for n := range all.Items {
		if usesReservations(&all.Items[n]) {
			for _, name := range r.Concerned(ctx, &all.Items[n]) {
				requests = append(requests, request(name))
			}
		}
	}
	return requests
}

// blocksChanged passes changes of the blocks that EC2 has reserved.
func blocksChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, now := e.ObjectOld.(*v1alpha1.SubnetReservation), e.ObjectNew.(*v1alpha1.SubnetReservation)
		return !slices.Equal(was.Status.Reservations, now.Status.Reservations)
	}}
}

func (r *Reconciler) enqueueNodes(ctx context.Context, q queue, versions ...client.Object) {
	for _, name := range r.Concerned(ctx, versions...) {
		q.Add(request(name))
	}
}

// Concerned returns the names of the nodes that any of the versions of a NodeENI selects or that have interfaces of it,
// in order.
func (r *Reconciler) Concerned(ctx context.Context, versions ...client.Object) []string {
	names := map[string]bool{}
	for _, version := range versions {
		var nodes corev1.NodeList
		selector := client.MatchingLabelsSelector{Selector: controller.Selector(version.(*v1alpha1.NodeENI).Spec)}
		if err := r.Client.List(ctx, &nodes, selector, client.UnsafeDisableDeepCopy); err != nil {
			r.Log.Error("nodes could not be listed", "nodeeni", version.GetName(), "err", err)
		}
		for n := range nodes.Items {
			names[nodes.Items[n].Name] = true
		}
		states, err := r.states(ctx, controller.StatesOf(version.GetUID()))
		if err != nil {
			r.Log.Error("NodeENIStates could not be listed", "nodeeni", version.GetName(), "err", err)
		}
		for n := range states {
			names[states[n].Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// enqueueObserved enqueues the nodes whose interfaces changed in the observer's inventory, and those that were
// admitted. Both come before nodes without a known change.
func (r *Reconciler) enqueueObserved(ctx context.Context, q queue) error {
	go func() {
		for {
			var name string
			select {
			case name = <-r.Observer.Changed():
			case name = <-r.admitted:
			case <-ctx.Done():
				return
			}
			addFirst(q, name)
		}
	}()
	return nil
}

func addFirst(q queue, name string) {
	if ordered, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		ordered.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(1)}, request(name))
		return
	}
	q.Add(request(name))
}

func request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}

// DuplicateNodes returns the other names of the instances that versions of a Node name, in order: the name of the Node
// that has the instance or loses it to this one, the names of ledgers, and those in the tags of its interfaces. A
// change of the Node affects only these names and no other Nodes that name the instance: if a thousand did so by
// mistake, each would affect all.
//
// A pre-join interface has the instance ID as its node name, and no ledger has a network as a member. Once the Node is
// gone or has another instance, only the name in the tags leads to the interface.
func (r *Reconciler) DuplicateNodes(ctx context.Context, versions ...client.Object) []string {
	names := map[string]bool{}
	for _, version := range versions {
		for _, id := range controller.Indexed(version, controller.InstanceIDs) {
			nodes, err := r.nodesOf(ctx, id)
			states, err2 := r.states(ctx, controller.OfInstance(id))
			if err := errors.Join(err, err2); err != nil {
				r.Log.Error("the other nodes of an instance could not be listed", "instance", id, "err", err)
			}
			others := slices.DeleteFunc(nodes, func(n corev1.Node) bool { return n.Name == version.GetName() })
			for n := range others[:min(1, len(others))] {
				names[others[n].Name] = true
			}
			for n := range states {
				names[states[n].Name] = true
			}
			for _, i := range r.Observer.Of(id).Owned {
				names[i.Member.Node] = true
			}
		}
		delete(names, version.GetName())
	}
	return slices.Sorted(maps.Keys(names))
}
