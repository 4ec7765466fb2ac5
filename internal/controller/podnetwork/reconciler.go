// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podnetwork keeps the NetworkAttachmentDefinitions of NodeENIs with spec.pods: one for each network in each of
// the namespaces that the NodeENI names. It creates them, restores those that a user edited, and deletes those that are
// no longer declared. It does not touch a definition that it did not generate.
//
// It watches the metadata of definitions and namespaces once the first NodeENI has spec.pods, so that a cluster without
// pod networks needs neither Multus nor the permission to read namespaces. Until its cache has both, it reads them from
// the API server. After that it reads only a definition that changed since it was last compared, or that is to be
// created: tenants may change definitions and namespaces, so a change must cost little.
package podnetwork

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
)

// recheck is the requeue time while something is missing that no watch reports.
const recheck = 15 * time.Second

// Options are what a Reconciler works with.
type Options struct {
	// Client writes definitions, and reads NodeENIs from a cache.
	Client client.Client
	// Reader reads from the API server itself, not from a cache.
	Reader client.Reader
	// Cached returns a reader of the metadata of definitions and namespaces; nil until a cache has both.
	Cached func() client.Reader
	// Now returns the current time.
	Now func() time.Time
	// Results has the states of the definitions of each NodeENI.
	Results *controller.AttachmentDefinitions
	// Changed receives an event for each NodeENI whose result changed.
	Changed chan<- event.GenericEvent
	Log     *slog.Logger
}

// Reconciler reconciles the NetworkAttachmentDefinitions of NodeENIs.
type Reconciler struct {
	Options
	passes passes
	// known has the definitions of each NodeENI as they were read last.
	known map[string]map[client.ObjectKey]*unstructured.Unstructured
	// watch starts the watches of namespaces and definitions; nil for none.
	watch func()
}

// New returns a Reconciler to be set up with a manager.
func New(options Options) *Reconciler {
	if options.Cached == nil {
		options.Cached = func() client.Reader { return nil }
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	return &Reconciler{Options: options, known: map[string]map[client.ObjectKey]*unstructured.Unstructured{}}
}

// Reconcile updates the definitions of one NodeENI. One reconciliation runs at a time.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var nodeENI v1alpha1.NodeENI
	if err := r.Client.Get(ctx, request.NamespacedName, &nodeENI); err != nil {
		if apierrors.IsNotFound(err) {
			r.Results.Forget(request.Name)
			delete(r.known, request.Name)
			r.passes.forget(request.Name)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	pods := nodeENI.Spec.Pods != nil && nodeENI.DeletionTimestamp.IsZero()
	if !pods && !hadPods(&nodeENI) {
		return reconcile.Result{}, nil
	}
	r.passes.note(request.Name, r.Now())
	result, err := r.bringAbout(ctx, &nodeENI, pods)
	if err != nil {
		return reconcile.Result{}, err
	}
	if r.Results.Set(nodeENI.Name, result) && r.Changed != nil {
		select {
		case r.Changed <- event.GenericEvent{Object: &nodeENI}:
		case <-ctx.Done():
		}
	}
	if result.Reason != "" {
		return reconcile.Result{RequeueAfter: recheck}, nil
	}
	return reconcile.Result{}, nil
}

// hadPods reports whether a NodeENI had spec.pods: its status shows that until the definitions are deleted.
func hadPods(nodeENI *v1alpha1.NodeENI) bool {
	return meta.FindStatusCondition(nodeENI.Status.Conditions, v1alpha1.ConditionPodNetworkReady) != nil
}

// bringAbout creates, restores and deletes definitions. A problem that a user must solve is in the result, not in the
// error.
func (r *Reconciler) bringAbout(ctx context.Context, nodeENI *v1alpha1.NodeENI,
	pods bool) (controller.AttachmentResult, error) {
	reader := r.Cached()
	existing, err := r.existing(ctx, reader, nodeENI.Name)
	if err != nil {
		return r.unavailable(nodeENI, pods, err)
	}
	if r.watch != nil {
		r.watch()
	}
	var namespaces, missing []string
	if pods {
		if namespaces, missing, err = r.namespaces(ctx, reader, nodeENI.Spec.Pods); err != nil {
			return r.unavailable(nodeENI, pods, err)
		}
	}
	var taken []string
	wanted, count := map[client.ObjectKey]bool{}, 0
	for _, namespace := range namespaces {
		for _, definition := range Render(nodeENI, namespace) {
			wanted[client.ObjectKeyFromObject(definition)] = true
			foreign, err := r.keep(ctx, reader, nodeENI, definition)
			switch {
			case err != nil:
				return r.unavailable(nodeENI, pods, err)
			case foreign:
				taken = append(taken, namespace+"/"+definition.GetName())
			default:
				count++
			}
		}
	}
	maps.DeleteFunc(r.known[nodeENI.Name], func(key client.ObjectKey, _ *unstructured.Unstructured) bool {
		return !wanted[key]
	})
	for _, definition := range existing {
		if !wanted[client.ObjectKeyFromObject(definition)] && generated(definition, nodeENI) {
			if err := r.Client.Delete(ctx, definition, precondition(definition)); client.IgnoreNotFound(err) != nil {
				return r.unavailable(nodeENI, pods, err)
			}
		}
	}
	return explain(count, taken, missing), nil
}

// existing returns the definitions with the label of a NodeENI, or their metadata.
func (r *Reconciler) existing(ctx context.Context, cached client.Reader, nodeENI string) ([]client.Object, error) {
	var all []client.Object
	labels := client.MatchingLabels{NodeENILabel: nodeENI}
	if cached != nil {
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(definitionKind)
		err := cached.List(ctx, &list, labels)
		for n := range list.Items {
			list.Items[n].SetGroupVersionKind(definitionKind)
			all = append(all, &list.Items[n])
		}
		return all, err
	}
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(definitionKind)
	err := r.Reader.List(ctx, &list, labels)
	if apierrors.IsNotFound(err) { // the kind was deleted after the REST mapper discovered it
		err = &meta.NoKindMatchError{GroupKind: definitionKind.GroupKind()}
	}
	for n := range list.Items {
		all = append(all, &list.Items[n])
	}
	return all, err
}

// keep creates or restores one definition as rendered, and reports whether its name belongs to one that was not
// generated and that differs.
func (r *Reconciler) keep(ctx context.Context, cached client.Reader, nodeENI *v1alpha1.NodeENI,
	rendered *unstructured.Unstructured) (foreign bool, err error) {
	existing, err := r.definition(ctx, cached, nodeENI.Name, client.ObjectKeyFromObject(rendered))
	if apierrors.IsNotFound(err) {
		return false, r.create(ctx, cached, nodeENI, rendered)
	}
	if err != nil {
		return false, err
	}
	if !isOurs(existing, nodeENI.Name) {
		return !equality.Semantic.DeepEqual(existing.Object["spec"], rendered.Object["spec"]), nil
	}
	now := merged(existing, rendered, ownedBy(nodeENI))
	if equality.Semantic.DeepEqual(existing.Object, now.Object) {
		return false, nil
	}
	r.Log.Info("restore NetworkAttachmentDefinition", "namespace", now.GetNamespace(), "name", now.GetName())
	return false, r.Client.Update(ctx, now, client.FieldOwner(v1alpha1.FieldOwnerController))
}

// definition returns a definition from the API server, or as it was read last if the cache shows that it did not change
// since.
func (r *Reconciler) definition(ctx context.Context, cached client.Reader, nodeENI string,
	key client.ObjectKey) (*unstructured.Unstructured, error) {
	if last := r.known[nodeENI][key]; last != nil && cached != nil {
		now := &metav1.PartialObjectMetadata{}
		now.SetGroupVersionKind(definitionKind)
		if err := cached.Get(ctx, key, now); err == nil && now.UID == last.GetUID() &&
			now.ResourceVersion == last.GetResourceVersion() {
			return last, nil
		}
	}
	existing := &unstructured.Unstructured{}
	existing.SetGroupVersionKind(definitionKind)
	if err := r.Reader.Get(ctx, key, existing); err != nil {
		return nil, err
	}
	if r.known[nodeENI] == nil {
		r.known[nodeENI] = map[client.ObjectKey]*unstructured.Unstructured{}
	}
	existing.SetManagedFields(nil)
	r.known[nodeENI][key] = existing
	return existing, nil
}

func (r *Reconciler) create(ctx context.Context, cached client.Reader, nodeENI *v1alpha1.NodeENI,
	rendered *unstructured.Unstructured) error {
	created := merged(rendered, rendered, ownedBy(nodeENI))
	r.Log.Info("create NetworkAttachmentDefinition", "namespace", created.GetNamespace(), "name", created.GetName())
	err := r.Client.Create(ctx, created, client.FieldOwner(v1alpha1.FieldOwnerController))
	if apierrors.IsNotFound(err) && cached != nil { // its namespace is gone, or the kind
		_, gone := r.existing(ctx, nil, nodeENI.Name)
		err = cmp.Or(gone, err)
	}
	return err
}

// precondition makes a deletion of a successor with the same name fail.
func precondition(definition client.Object) client.Preconditions {
	uid := definition.GetUID()
	return client.Preconditions{UID: &uid}
}

// namespaces returns the names of the namespaces that get definitions, and of those that do not exist.
func (r *Reconciler) namespaces(ctx context.Context, cached client.Reader,
	pods *v1alpha1.NodeENIPods) (present, missing []string, err error) {
	reader := cached
	if reader == nil {
		reader = r.Reader
	}
	if len(pods.NamespaceSelector) > 0 {
		var all metav1.PartialObjectMetadataList
		all.SetGroupVersionKind(namespaceKind)
		if err := reader.List(ctx, &all, client.MatchingLabels(namespaceLabels(pods))); err != nil {
			return nil, nil, err
		}
		for n := range all.Items {
			if all.Items[n].DeletionTimestamp.IsZero() {
				present = append(present, all.Items[n].Name)
			}
		}
		slices.Sort(present)
		return present, nil, nil
	}
	for _, name := range pods.Namespaces {
		var namespace metav1.PartialObjectMetadata
		namespace.SetGroupVersionKind(namespaceKind)
		err := reader.Get(ctx, client.ObjectKey{Name: name}, &namespace)
		switch {
		case apierrors.IsNotFound(err) || err == nil && !namespace.DeletionTimestamp.IsZero():
			missing = append(missing, name)
		case err != nil:
			return nil, nil, err
		default:
			present = append(present, name)
		}
	}
	return present, missing, nil
}

// namespaceLabels returns the labels of pods.namespaceSelector.
func namespaceLabels(pods *v1alpha1.NodeENIPods) map[string]string {
	labels := map[string]string{}
	for key, value := range pods.NamespaceSelector {
		labels[key] = string(value)
	}
	return labels
}

// explain returns the result of a NodeENI whose definitions were read.
func explain(count int, taken, missing []string) controller.AttachmentResult {
	result := controller.AttachmentResult{Definitions: count}
	switch {
	case len(taken) > 0:
		result.Reason = v1alpha1.ReasonAttachmentDefinitionTaken
		result.Message = fmt.Sprintf("NetworkAttachmentDefinition %s exists and is not one that multieni generated, so "+
			"multieni leaves it as it is; delete it, or label it %s with the name of the NodeENI to hand it "+
			"over", strings.Join(taken, ", "), NodeENILabel)
	case len(missing) > 0:
		result.Reason = v1alpha1.ReasonNamespaceNotFound
		result.Message = fmt.Sprintf("pods.namespaces lists %s, and no namespace has that name; create it, or correct the "+
			"list", strings.Join(missing, ", "))
	}
	return result
}

// unavailable returns the result of a NodeENI whose definitions cannot be read or written, and the error if a retry can
// succeed.
func (r *Reconciler) unavailable(nodeENI *v1alpha1.NodeENI, pods bool, err error) (controller.AttachmentResult, error) {
	needed := pods && asksForDefinitions(nodeENI.Spec.Pods)
	switch {
	case meta.IsNoMatchError(err) && needed:
		return controller.AttachmentResult{
			Reason: v1alpha1.ReasonAttachmentDefinitionsUnavailable,
			Message: "the cluster has no kind NetworkAttachmentDefinition, so multieni generates none; install Multus, " +
				"and multieni generates them within a minute",
		}, nil
	case apierrors.IsForbidden(err) && needed:
		return controller.AttachmentResult{
			Reason: v1alpha1.ReasonAttachmentDefinitionsForbidden,
			Message: fmt.Sprintf("the API server does not let the controller manage NetworkAttachmentDefinitions: %s; "+
				"install the chart with pods.enabled=true, which grants it", controller.Note(err)),
		}, nil
	case meta.IsNoMatchError(err) || apierrors.IsForbidden(err):
		return controller.AttachmentResult{}, nil
	default:
		return controller.AttachmentResult{},
			fmt.Errorf("keep the NetworkAttachmentDefinitions of NodeENI %s: %w", nodeENI.Name, err)
	}
}

// asksForDefinitions reports whether a NodeENI names namespaces for definitions.
func asksForDefinitions(pods *v1alpha1.NodeENIPods) bool {
	return len(pods.Namespaces)+len(pods.NamespaceSelector) > 0
}
