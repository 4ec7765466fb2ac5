// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package floatingaddress

import (
	"context"
	"slices"

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

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/object"
)

// concurrency is how many addresses are reconciled at the same time. Most of them wait for EC2, and no more calls can
// be under way than the bucket of AssignPrivateIpAddresses has requests (docs.aws.amazon.com, "Request throttling for
// the Amazon EC2 API": 100).
const concurrency = 100

// SetupWithManager connects the reconciler to FloatingAddresses, and to the objects of their interfaces.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("floatingaddress").
		For(&v1alpha1.FloatingAddress{}).
		Watches(&v1alpha1.NetworkInterface{}, handler.EnqueueRequestsFromMapFunc(
			func(ctx context.Context, o client.Object) []reconcile.Request {
				var requests []reconcile.Request
				for _, name := range r.Concerned(ctx, o.(*v1alpha1.NetworkInterface)) {
					requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
				}
				return requests
			}), builder.WithPredicates(interfaceChanged())).
		WithOptions(ctrlcontroller.Options{MaxConcurrentReconciles: concurrency, RateLimiter: controller.Backoff()}).
		Complete(r)
}

// interfaceChanged passes changes of the spec, which has the ranges, and of what EC2 shows of the interface.
func interfaceChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, now := e.ObjectOld.(*v1alpha1.NetworkInterface), e.ObjectNew.(*v1alpha1.NetworkInterface)
		return was.Generation != now.Generation ||
			!equality.Semantic.DeepEqual(object.WithoutNode(was.Status), object.WithoutNode(now.Status))
	}}
}

// Concerned returns the addresses on an interface, by name and in order: their ranges, their attachment and what EC2
// shows of them may have changed.
func (r *Reconciler) Concerned(ctx context.Context, o *v1alpha1.NetworkInterface) []string {
	if o.Status.ENIID == "" {
		return nil
	}
	addresses, err := r.on(ctx, o.Status.ENIID)
	if err != nil {
		r.Log.Error("FloatingAddresses of an interface could not be listed", "interface", o.Status.ENIID, "err", err)
	}
	var names []string
	for n := range addresses {
		names = append(names, addresses[n].Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
