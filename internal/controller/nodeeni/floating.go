// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/object"
)

// floating returns, by interface ID, why an address that a pod brought up is not where the pod is, or on which nodes
// pods have it. A pod thus explains a NodeENI, and never makes it not ready.
func (r *Reconciler) floating(
	ctx context.Context, nodeENI *v1alpha1.NodeENI, objects []v1alpha1.NetworkInterface,
) (map[string]string, error) {
	said := map[string]string{}
	if nodeENI.Spec.Pods == nil {
		return said, nil
	}
	for _, o := range objects {
		if o.Status.ENIID == "" || o.Spec.Pods == nil || len(o.Spec.Pods.Floating) == 0 {
			continue
		}
		var addresses v1alpha1.FloatingAddressList
		err := r.Client.List(ctx, &addresses, controller.AddressesOn(o.Status.ENIID), client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, err
		}
		for n := range addresses.Items {
			if message := addressProblem(&addresses.Items[n]); message != "" {
				said[o.Status.ENIID] = message
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
func (r *Reconciler) enqueueAddress(ctx context.Context, q controller.Queue, address client.Object) {
	for _, id := range controller.InterfacesOf(address.(*v1alpha1.FloatingAddress)) {
		objects, err := object.OfENI(ctx, r.Client, id)
		if err != nil {
			r.Log.Error("the object of an interface could not be read", "interface", id, "err", err)
		}
		for n := range objects {
			r.enqueueOwner(ctx, q, &objects[n])
		}
	}
}
