// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
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
	"github.com/multieni/multieni/internal/base/panics"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/inventory"
)

// SetupWithManager connects the reconciler to its triggers: Nodes, NodeENIs, the objects, and the first list of EC2.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("node").
		For(&corev1.Node{}, builder.WithPredicates(Changed())).
		Watches(&corev1.Node{}, controller.EachVersion(r.enqueueDuplicates),
			builder.WithPredicates(controller.NodeIdentityChanged())).
		Watches(&v1alpha1.NodeENI{}, handler.Funcs{
			CreateFunc: func(ctx context.Context, e event.CreateEvent, q controller.Queue) { r.enqueueNodes(ctx, q, e.Object) },
			UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q controller.Queue) {
				r.enqueueNodes(ctx, q, e.ObjectOld, e.ObjectNew)
			},
			DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q controller.Queue) { r.enqueueNodes(ctx, q, e.Object) },
		}, builder.WithPredicates(RelevantNodeENIChange())).
		Watches(&v1alpha1.NetworkInterface{}, handler.EnqueueRequestsFromMapFunc(r.NodesOfObject)).
		Watches(&v1alpha1.SubnetReservation{}, handler.EnqueueRequestsFromMapFunc(r.followersOf),
			builder.WithPredicates(blocksChanged())).
		WatchesRawSource(source.Func(r.enqueueListed)).
		WithOptions(ctrlcontroller.Options{MaxConcurrentReconciles: r.Concurrency, RateLimiter: controller.Backoff()}).
		Complete(r)
}

// Changed passes updates of what the reconciler reads or writes of a Node, but not heartbeats.
func Changed() predicate.Predicate {
	written := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, now := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
		return !maps.Equal(was.Annotations, now.Annotations) ||
			!equality.Semantic.DeepEqual(was.Spec.Taints, now.Spec.Taints) ||
			!equality.Semantic.DeepEqual(conditionOf(was), conditionOf(now))
	}}
	return predicate.Or(controller.NodeIdentityChanged(), written)
}

// RelevantNodeENIChange passes changes that can change the objects of a NodeENI. In the status these are the matches of
// its selectors, because nodes wait for a missing subnet.
func RelevantNodeENIChange() predicate.Predicate {
	resolved := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, now := e.ObjectOld.(*v1alpha1.NodeENI).Status, e.ObjectNew.(*v1alpha1.NodeENI).Status
		return !slices.Equal(was.Subnets, now.Subnets) || !slices.Equal(was.SecurityGroups, now.SecurityGroups)
	}}
	return predicate.Or(controller.SpecOrLifeChanged(), resolved)
}

// blocksChanged passes changes of the blocks that EC2 has reserved.
func blocksChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, now := e.ObjectOld.(*v1alpha1.SubnetReservation), e.ObjectNew.(*v1alpha1.SubnetReservation)
		return !slices.Equal(was.Status.Reservations, now.Status.Reservations)
	}}
}

// enqueueDuplicates enqueues the Node that has an instance, or loses it, because of a change of another Node of the
// instance. The change affects no further Nodes: if a thousand named one instance by mistake, each would affect all.
func (r *Reconciler) enqueueDuplicates(ctx context.Context, q controller.Queue, version client.Object) {
	for _, id := range controller.Indexed(version) {
		nodes, err := r.nodesOf(ctx, id)
		if err != nil {
			r.Log.Error("the Nodes of an instance could not be listed", "instance", id, "err", err)
		}
		others := slices.DeleteFunc(nodes, func(n corev1.Node) bool { return n.Name == version.GetName() })
		for n := range others[:min(1, len(others))] {
			q.Add(request(others[n].Name))
		}
	}
}

// NodesOfObject returns the Node that has the instance of an object.
func (r *Reconciler) NodesOfObject(ctx context.Context, o client.Object) []reconcile.Request {
	id := o.(*v1alpha1.NetworkInterface).Spec.InstanceID
	nodes, err := r.nodesOf(ctx, id)
	if err != nil {
		r.Log.Error("the Nodes of an instance could not be listed", "instance", id, "err", err)
	}
	if len(nodes) == 0 {
		return nil
	}
	return []reconcile.Request{request(nodes[0].Name)}
}

func (r *Reconciler) enqueueNodes(ctx context.Context, q controller.Queue, versions ...client.Object) {
	for _, name := range r.Concerned(ctx, versions...) {
		q.Add(request(name))
	}
}

// Concerned returns the names of the nodes that any of the versions of a NodeENI selects, that have objects of it, or
// an interface of the network of its name without an object, in order.
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
		objects, err := object.OfNodeENI(ctx, r.Client, version.GetName())
		if err != nil {
			r.Log.Error("objects could not be listed", "nodeeni", version.GetName(), "err", err)
		}
		for n := range objects {
			names[objects[n].Spec.NodeName] = true
		}
	}
	for _, record := range r.Observer.All() {
		isIts := func(version client.Object) bool { return version.GetName() == record.Tagged.NodeENI }
		if !slices.ContainsFunc(versions, isIts) {
			continue
		}
		node, err := r.nodeWithout(ctx, record)
		if err != nil {
			r.Log.Error("the node of an interface could not be found", "interface", record.ID, "err", err)
		}
		names[node] = true
	}
	delete(names, "")
	return slices.Sorted(maps.Keys(names))
}

// followersOf returns the nodes whose NodeENIs have addresses that follow pods within SubnetReservations.
func (r *Reconciler) followersOf(ctx context.Context, _ client.Object) []reconcile.Request {
	var all v1alpha1.NodeENIList
	if err := r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		r.Log.Error("NodeENIs could not be listed", "err", err)
	}
	var requests []reconcile.Request
	for n := range all.Items {
		if controller.UsesReservations(&all.Items[n]) {
			for _, name := range r.Concerned(ctx, &all.Items[n]) {
				requests = append(requests, request(name))
			}
		}
	}
	return requests
}

// enqueueListed enqueues all Nodes after the first list of EC2, since no Node is ready before it, and after each
// further one those with a new interface of a network.
func (r *Reconciler) enqueueListed(ctx context.Context, q controller.Queue) error {
	go func() {
		if r.Observer.WaitSynced(ctx) != nil {
			return
		}
		names := r.allNodes
		for {
			err := panics.AsError("nodes after a list of EC2", func() error {
				all, err := names(ctx)
				for _, name := range all {
					q.Add(request(name))
				}
				return err
			})
			if err != nil && ctx.Err() == nil {
				r.Log.Error("nodes could not be enqueued after a list of EC2", "err", err)
			}
			names = r.WithNewNetworks
			select {
			case <-r.listed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return nil
}

func (r *Reconciler) allNodes(ctx context.Context) (names []string, err error) {
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	for n := range nodes.Items {
		names = append(names, nodes.Items[n].Name)
	}
	return names, nil
}

// Listed makes the reconciler look for new interfaces of networks, after a list of EC2.
func (r *Reconciler) Listed() {
	select {
	case r.listed <- struct{}{}:
	default: // it has not looked after the list before
	}
}

// WithNewNetworks returns the Nodes with an interface of a network that no object has, and that the call before did not
// return: an interface can wait for a person to be taken over.
func (r *Reconciler) WithNewNetworks(ctx context.Context) (names []string, err error) {
	waiting := map[string]bool{}
	for _, record := range r.Observer.All() {
		node, err := r.nodeWithout(ctx, record)
		if err != nil {
			return names, err
		}
		if node == "" {
			continue
		}
		waiting[record.ID] = true
		if !r.isWaiting(record.ID) {
			names = append(names, node)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = waiting
	return names, nil
}

// nodeWithout returns the Node that has an interface of a network without an object; empty for all other interfaces.
func (r *Reconciler) nodeWithout(ctx context.Context, record inventory.Record) (string, error) {
	if !record.Tagged.UID.IsNetwork() || record.Attachment == nil {
		return "", nil
	}
	objects, err := object.OfENI(ctx, r.Client, record.ID)
	if err != nil || len(objects) > 0 {
		return "", err
	}
	nodes, err := r.nodesOf(ctx, record.Attachment.InstanceID)
	if err != nil || len(nodes) == 0 {
		return "", err
	}
	return nodes[0].Name, nil
}

func (r *Reconciler) isWaiting(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting[id]
}

func request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}
