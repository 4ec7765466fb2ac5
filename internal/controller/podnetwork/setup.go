// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podnetwork

import (
	"context"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	"github.com/multieni/multieni/internal/controller"
)

// SetupWithManager connects the reconciler to NodeENIs and, once one has spec.pods, to namespaces and definitions.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	c, err := ctrl.NewControllerManagedBy(mgr).
		Named("podnetwork").
		For(&v1alpha1.NodeENI{}, builder.WithPredicates(predicate.Or(controller.SpecOrLifeChanged(), networksChanged()))).
		WithOptions(ctrlcontroller.Options{RateLimiter: controller.Backoff()}).
		Build(r)
	if err != nil {
		return err
	}
	var once sync.Once
	r.watch = func() {
		once.Do(func() {
			for _, kind := range []schema.GroupVersionKind{definitionKind, {Version: "v1", Kind: "Namespace"}} {
				object := &metav1.PartialObjectMetadata{}
				object.SetGroupVersionKind(kind)
				if err := c.Watch(source.Kind[client.Object](mgr.GetCache(), object,
					handler.EnqueueRequestsFromMapFunc(r.concerned))); err != nil {
					r.Log.Error("changes of a kind are not watched; the controller looks at them when a NodeENI changes", "kind",
						kind.Kind, "err", err)
				}
			}
		})
	}
	return nil
}

// networksChanged passes updates of a NodeENI's status that change its pod networks.
func networksChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, DeleteFunc: func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !slices.Equal(Networks(e.ObjectOld.(*v1alpha1.NodeENI)), Networks(e.ObjectNew.(*v1alpha1.NodeENI)))
		},
	}
}

// concerned returns the NodeENIs with pods. Definitions and namespaces rarely change, and there are few NodeENIs.
func (r *Reconciler) concerned(ctx context.Context, _ client.Object) []reconcile.Request {
	var all v1alpha1.NodeENIList
	if err := r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		r.Log.Error("NodeENIs could not be listed", "err", err)
		return nil
	}
	var requests []reconcile.Request
	for n := range all.Items {
		if all.Items[n].Spec.Pods != nil {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: all.Items[n].Name}})
		}
	}
	return requests
}
