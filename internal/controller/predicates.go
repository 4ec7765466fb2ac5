// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/multieni/multieni/api/v1alpha1"
)

// SpecOrLifeChanged passes updates of the spec, the start of a deletion, a pause or its end, and changes of finalizers;
// not of the status.
func SpecOrLifeChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, now := e.ObjectOld, e.ObjectNew
		return was.GetGeneration() != now.GetGeneration() ||
			was.GetDeletionTimestamp().IsZero() != now.GetDeletionTimestamp().IsZero() ||
			len(was.GetFinalizers()) != len(now.GetFinalizers()) || Paused(was) != Paused(now)
	}}
}

// NodeIdentityChanged passes updates of a Node's labels and identity, and a pause or its end; not heartbeats and the like.
func NodeIdentityChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, now := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
		return was.UID != now.UID || was.Spec.ProviderID != now.Spec.ProviderID || !maps.Equal(was.Labels, now.Labels) || Paused(was) != Paused(now)
	}}
}

// Paused reports whether somebody wants nothing changed for the object.
func Paused(object client.Object) bool {
	_, is := object.GetAnnotations()[v1alpha1.PausedAnnotation]
	return is
}
