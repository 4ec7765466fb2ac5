// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/multieni/multieni/api/v1alpha1"
)

// SpecOrLifeChanged passes updates of the spec, the start of a deletion, a pause or its end, and changes of finalizers,
// but not of the status. After a failed watch, an informer reports an object that was created again under its name as
// an update: the UID distinguishes them.
func SpecOrLifeChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, now := e.ObjectOld, e.ObjectNew
		return was.GetUID() != now.GetUID() || was.GetGeneration() != now.GetGeneration() ||
			was.GetDeletionTimestamp().IsZero() != now.GetDeletionTimestamp().IsZero() ||
			len(was.GetFinalizers()) != len(now.GetFinalizers()) || Paused(was) != Paused(now)
	}}
}

// NodeIdentityChanged passes updates of a Node's labels and identity, and a pause or its end, but not heartbeats.
func NodeIdentityChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, now := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
		return was.UID != now.UID || was.Spec.ProviderID != now.Spec.ProviderID || !maps.Equal(was.Labels,
			now.Labels) || Paused(was) != Paused(now)
	}}
}

// StatusChanged passes updates of the status that the controller itself writes. A reconciliation with a cache that
// lacked the previous write did not correct the status: the object is reconciled again once the cache has it.
func StatusChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !equality.Semantic.DeepEqual(reported(e.ObjectOld), reported(e.ObjectNew))
	}}
}

// reported is the part of a status that the controller writes.
func reported(object client.Object) any {
	switch object := object.(type) {
	case *v1alpha1.NodeENI:
		return object.Status
	case *v1alpha1.AWSNodeTemplate:
		return object.Status
	default:
		return nil
	}
}

// Paused reports whether a user paused the object.
func Paused(object client.Object) bool {
	_, is := object.GetAnnotations()[v1alpha1.PausedAnnotation]
	return is
}
