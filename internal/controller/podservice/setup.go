// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podservice

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
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

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
)

// The fields of the cache's indexes: Services that publish a pod network, and pods by node.
const (
	declaredField = "publishesPodNetwork"
	nodeField     = "podOfNode"
)

// declared is the only value of declaredField.
const declared = "true"

// SetupWithManager connects the reconciler to Services, its slices and pods, and to what says which addresses pods
// have.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr manager.Manager) error {
	for _, index := range []struct {
		object client.Object
		field  string
	}{{&corev1.Service{}, declaredField}, {&corev1.Pod{}, nodeField}} {
		values := func(object client.Object) []string { return Indexed(object) }
		if err := mgr.GetFieldIndexer().IndexField(ctx, index.object, index.field, values); err != nil {
			return err
		}
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("podservice").
		For(&corev1.Service{}, builder.WithPredicates(publishes())).
		Watches(&discoveryv1.EndpointSlice{}, r.sliceEvents()).
		Watches(&corev1.Pod{}, controller.EachVersion(r.enqueuePod), builder.WithPredicates(podChanged())).
		Watches(&v1alpha1.NetworkInterface{}, controller.EachVersion(r.enqueueInterface),
			builder.WithPredicates(networksChanged())).
		Watches(&v1alpha1.FloatingAddress{}, controller.EachVersion(r.enqueueAddress),
			builder.WithPredicates(holderChanged())).
		WithOptions(ctrlcontroller.Options{RateLimiter: controller.Backoff(), MaxConcurrentReconciles: r.Concurrency}).
		Complete(r)
}

// Indexed returns an object's value of the field that the cache indexes of its kind.
func Indexed(object client.Object) []string {
	switch object := object.(type) {
	case *corev1.Service:
		if isDeclared(object) {
			return []string{declared}
		}
	case *corev1.Pod:
		if object.Spec.NodeName != "" {
			return []string{object.Spec.NodeName}
		}
	}
	return nil
}

// publishes passes Services that publish a pod network, or did so before an update.
func publishes() predicate.Predicate {
	is := predicate.NewPredicateFuncs(func(object client.Object) bool { return isDeclared(object.(*corev1.Service)) })
	is.UpdateFunc = func(e event.UpdateEvent) bool {
		return isDeclared(e.ObjectOld.(*corev1.Service)) || isDeclared(e.ObjectNew.(*corev1.Service))
	}
	return is
}

// sliceEvents enqueues the Service of a slice that this process did not write as it is, or did not delete.
func (r *Reconciler) sliceEvents() handler.EventHandler {
	enqueue := func(q controller.Queue, object client.Object) {
		if name := object.GetLabels()[discoveryv1.LabelServiceName]; name != "" {
			q.Add(request(object.GetNamespace(), name))
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q controller.Queue) {
			if r.tracker.ShouldSync(e.Object.(*discoveryv1.EndpointSlice)) {
				enqueue(q, e.Object)
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q controller.Queue) {
			if r.tracker.ShouldSync(e.ObjectNew.(*discoveryv1.EndpointSlice)) {
				enqueue(q, e.ObjectOld)
				enqueue(q, e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q controller.Queue) {
			// A process before this one can have written the slice.
			slice := e.Object.(*discoveryv1.EndpointSlice)
			if expected := r.tracker.Has(slice) && r.tracker.HandleDeletion(slice); !expected {
				enqueue(q, slice)
			}
		},
	}
}

// enqueuePod enqueues the Services that select a version of a pod.
func (r *Reconciler) enqueuePod(ctx context.Context, q controller.Queue, object client.Object) {
	var services corev1.ServiceList
	err := r.Client.List(ctx, &services, client.InNamespace(object.GetNamespace()),
		client.MatchingFields{declaredField: declared}, client.UnsafeDisableDeepCopy)
	if err != nil {
		r.Log.Error("Services of a pod could not be listed", "namespace", object.GetNamespace(), "pod", object.GetName(),
			"err", err)
	}
	for n := range services.Items {
		service := &services.Items[n]
		// The pods of a selector that cannot be used are those that are endpoints already.
		if chosen, err := selector(service); err != nil || chosen.Matches(labels.Set(object.GetLabels())) {
			q.Add(request(service.Namespace, service.Name))
		}
	}
}

// enqueueNode enqueues the Services of the pods of a node.
func (r *Reconciler) enqueueNode(ctx context.Context, q controller.Queue, node string) {
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.MatchingFields{nodeField: node}, client.UnsafeDisableDeepCopy); err != nil {
		r.Log.Error("pods of a node could not be listed", "node", node, "err", err)
	}
	for n := range pods.Items {
		r.enqueuePod(ctx, q, &pods.Items[n])
	}
}

func (r *Reconciler) enqueueInterface(ctx context.Context, q controller.Queue, object client.Object) {
	if node := object.(*v1alpha1.NetworkInterface).Spec.NodeName; node != "" {
		r.enqueueNode(ctx, q, node)
	}
}

func (r *Reconciler) enqueueAddress(ctx context.Context, q controller.Queue, object client.Object) {
	if holder := object.(*v1alpha1.FloatingAddress).Status.Holder; holder != nil {
		r.enqueueNode(ctx, q, holder.NodeName)
	}
}

func request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// podChanged passes updates of a pod that change what the cache keeps of it.
func podChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, now := *e.ObjectOld.(*corev1.Pod), *e.ObjectNew.(*corev1.Pod)
		was.ResourceVersion, now.ResourceVersion = "", ""
		return !equality.Semantic.DeepEqual(was, now)
	}}
}

// networksChanged passes updates of an interface that change what its network gives to pods. An interface without pods
// gives nothing.
func networksChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return e.Object.(*v1alpha1.NetworkInterface).Spec.Pods != nil },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !equality.Semantic.DeepEqual(network(e.ObjectOld.(*v1alpha1.NetworkInterface)),
				network(e.ObjectNew.(*v1alpha1.NetworkInterface)))
		}}
}

// network returns the part of an interface that [Reconciler.given] reads.
func network(i *v1alpha1.NetworkInterface) *v1alpha1.NetworkInterface {
	if i.Spec.Pods == nil {
		return nil
	}
	return &v1alpha1.NetworkInterface{
		Spec: v1alpha1.NetworkInterfaceSpec{NodeName: i.Spec.NodeName,
			Pods: &v1alpha1.PodSettings{Attachment: i.Spec.Pods.Attachment}},
		Status: v1alpha1.NetworkInterfaceStatus{ENIID: i.Status.ENIID, SubnetID: i.Status.SubnetID,
			Addresses: i.Status.Addresses, Pods: i.Status.Pods},
	}
}

// holderChanged passes updates of a FloatingAddress that change its holder.
func holderChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !equality.Semantic.DeepEqual(e.ObjectOld.(*v1alpha1.FloatingAddress).Status.Holder,
			e.ObjectNew.(*v1alpha1.FloatingAddress).Status.Holder)
	}}
}
