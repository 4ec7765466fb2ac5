// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
)

// floating returns, by interface ID, why an address that a pod brought up is not where the pod is, or on which nodes
// pods have it. A pod thus explains a NodeENI, and never makes it not ready.
func (r *Reconciler) floating(
	ctx context.Context, nodeENI *v1alpha1.NodeENI, states []v1alpha1.NodeENIState,
) (map[string]string, error) {
	said := map[string]string{}
	if nodeENI.Spec.Pods == nil {
		return said, nil
	}
	for _, i := range collect(nodeENI, states) {
		if i.ENIID == "" || i.Pods == nil || len(i.Pods.Floating) == 0 {
			continue
		}
		var addresses v1alpha1.FloatingAddressList
		err := r.Client.List(ctx, &addresses, controller.AddressesOn(i.ENIID), client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, err
		}
		for n := range addresses.Items {
			if message := addressProblem(&addresses.Items[n]); message != "" {
				said[i.ENIID] = message
				break
			}
		}
	}
	return said, nil
}

// addressProblem returns what a user must do about an address; "" for nothing.
func addressProblem(address *v1alpha1.FloatingAddress) string {
	for _, kind := range []string{v1alpha1.ConditionContended, v1alpha1.ConditionStalled} {
		if c := meta.FindStatusCondition(address.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

// addressExplained passes changes of what an address says about its interfaces.
func addressExplained() predicate.Predicate {
	said := func(object client.Object) []any {
		address := object.(*v1alpha1.FloatingAddress)
		return []any{addressProblem(address), controller.InterfacesOf(address)}
	}
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, // it has no status yet
		UpdateFunc: func(e event.UpdateEvent) bool {
			was, now := said(e.ObjectOld), said(e.ObjectNew)
			return (was[0] != "" || now[0] != "") && !equality.Semantic.DeepEqual(was, now)
		},
	}
}

// enqueueAddress enqueues the NodeENIs of the interfaces that an address names.
func (r *Reconciler) enqueueAddress(ctx context.Context, q controller.Queue, object client.Object) {
	for _, holder := range controller.Holders(object.(*v1alpha1.FloatingAddress)) {
		var state v1alpha1.NodeENIState
		if err := r.Client.Get(ctx, types.NamespacedName{Name: holder.NodeName}, &state); err != nil {
			continue // the state triggers the NodeENI itself when it comes
		}
		r.enqueueOwners(ctx, q, &state)
	}
}
