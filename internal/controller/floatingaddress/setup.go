// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package floatingaddress

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
)

// concurrency is how many addresses are reconciled at the same time. Most of them wait for EC2, and no more calls can
// be under way than the bucket of AssignPrivateIpAddresses has requests (docs.aws.amazon.com, "Request throttling for
// the Amazon EC2 API": 100).
const concurrency = 100

// SetupWithManager connects the reconciler to FloatingAddresses, and to the NodeENIStates with their interfaces.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("floatingaddress").
		For(&v1alpha1.FloatingAddress{}).
		Watches(&v1alpha1.NodeENIState{}, handler.EnqueueRequestsFromMapFunc(
			func(ctx context.Context, object client.Object) []reconcile.Request {
				var requests []reconcile.Request
				for _, name := range r.Concerned(ctx, object.(*v1alpha1.NodeENIState)) {
					requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
				}
				return requests
			}), builder.WithPredicates(controller.StatusChanged())).
		WithOptions(ctrlcontroller.Options{MaxConcurrentReconciles: concurrency, RateLimiter: controller.Backoff()}).
		Complete(r)
}

// Concerned returns the addresses on the interfaces of a node, by name and in order: their ranges, their attachments
// and what EC2 shows of them may have changed.
func (r *Reconciler) Concerned(ctx context.Context, state *v1alpha1.NodeENIState) []string {
	var names []string
	for _, i := range state.Status.Interfaces {
		if i.ENIID == "" {
			continue
		}
		objects, err := r.on(ctx, i.ENIID)
		if err != nil {
			r.Log.Error("FloatingAddresses of an interface could not be listed", "interface", i.ENIID, "err", err)
		}
		for n := range objects {
			names = append(names, objects[n].Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
