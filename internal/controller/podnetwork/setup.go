// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podnetwork

import (
	"context"
	"errors"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
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
		once.Do(func() { r.watchTriggers(mgr.GetCache(), c) })
	}
	return nil
}

// watchTriggers watches the metadata of definitions and namespaces, and reads it from the cache once that has both.
func (r *Reconciler) watchTriggers(metadata cache.Cache, c ctrlcontroller.Controller) {
	var informers []cache.Informer
	for _, watched := range []struct {
		kind      schema.GroupVersionKind
		concerned func(context.Context, client.Object) []string
		relevant  []predicate.Predicate
	}{
		{definitionKind, r.OfDefinition, nil}, {namespaceKind, r.OfNamespace, []predicate.Predicate{NamespaceChanged()}},
	} {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(watched.kind)
		err := c.Watch(source.Kind[client.Object](metadata, object, r.trigger(watched.concerned), watched.relevant...))
		informer, err2 := metadata.GetInformer(context.Background(), object, cache.BlockUntilSynced(false))
		if err := errors.Join(err, err2); err != nil {
			r.Log.Error("changes of a kind are not watched; the controller looks at them when a NodeENI changes", "kind",
				watched.kind.Kind, "err", err)
			return
		}
		informers = append(informers, informer)
	}
	r.Cached = func() client.Reader {
		if slices.ContainsFunc(informers, func(i cache.Informer) bool { return !i.HasSynced() }) {
			return nil
		}
		return metadata
	}
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
