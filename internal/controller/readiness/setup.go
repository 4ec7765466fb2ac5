// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
)

// SetupWithManager connects the reconciler to Nodes, and to the NodeENIStates of their names.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("readiness").
		For(&corev1.Node{}, builder.WithPredicates(nodeChanged())).
		Watches(&v1alpha1.NodeENIState{}, &handler.EnqueueRequestForObject{}).
		WithOptions(ctrlcontroller.Options{MaxConcurrentReconciles: r.Concurrency, RateLimiter: controller.Backoff()}).
		Complete(r)
}

// nodeChanged passes updates of what the reconciler reads or writes, but not heartbeats.
func nodeChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, now := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
		return was.UID != now.UID || was.Spec.ProviderID != now.Spec.ProviderID || !maps.Equal(was.Labels, now.Labels) ||
			!maps.Equal(was.Annotations, now.Annotations) ||
			!equality.Semantic.DeepEqual(was.Spec.Taints, now.Spec.Taints) ||
			!equality.Semantic.DeepEqual(conditionOf(was), conditionOf(now))
	}}
}
