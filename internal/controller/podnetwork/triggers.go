// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podnetwork

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/netattach"
)

// passInterval is the least time between two passes over a NodeENI that definitions or namespaces trigger. A user who
// may change these must not be able to keep the controller busy.
const passInterval = time.Second

// passes has the times of the last passes over NodeENIs. The handlers of events read it while a reconciliation runs.
type passes struct {
	// mu guards last.
	mu   sync.Mutex
	last map[string]time.Time
}

func (p *passes) note(nodeENI string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil {
		p.last = map[string]time.Time{}
	}
	p.last[nodeENI] = now
}

// wait returns how long the next pass over a NodeENI has to wait.
func (p *passes) wait(nodeENI string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, p.last[nodeENI].Add(passInterval).Sub(now))
}

func (p *passes) forget(nodeENI string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.last, nodeENI)
}

// trigger returns a handler that enqueues the NodeENIs that an object concerns, each at most every [passInterval].
func (r *Reconciler) trigger(concerned func(context.Context, client.Object) []string) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(ctx context.Context, q queue, versions ...client.Object) {
		for _, version := range versions {
			for _, name := range concerned(ctx, version) {
				request := reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
				q.AddAfter(request, r.passes.wait(name, r.Now()))
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { enqueue(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { enqueue(ctx, q, e.ObjectOld, e.ObjectNew) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { enqueue(ctx, q, e.Object) },
	}
}

// OfDefinition returns the NodeENIs with pods that a definition concerns: those that its label or an owner names, and
// the one whose network has the name of the definition.
func (r *Reconciler) OfDefinition(ctx context.Context, definition client.Object) []string {
	return r.withPods(ctx, func(n *v1alpha1.NodeENI) bool {
		return isOurs(definition, n.Name) || generated(definition, n) ||
			slices.ContainsFunc(Networks(n), func(own netattach.Network) bool { return own.Name() == definition.GetName() })
	})
}

// OfNamespace returns the NodeENIs with pods whose definitions a namespace gets.
func (r *Reconciler) OfNamespace(ctx context.Context, namespace client.Object) []string {
	return r.withPods(ctx, func(n *v1alpha1.NodeENI) bool {
		if len(n.Spec.Pods.NamespaceSelector) > 0 {
			return labels.SelectorFromSet(namespaceLabels(n.Spec.Pods)).Matches(labels.Set(namespace.GetLabels()))
		}
		return slices.Contains(n.Spec.Pods.Namespaces, namespace.GetName())
	})
}

// withPods returns the names of the NodeENIs with pods that match.
func (r *Reconciler) withPods(ctx context.Context, matches func(*v1alpha1.NodeENI) bool) (names []string) {
	var all v1alpha1.NodeENIList
	if err := r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		r.Log.Error("NodeENIs could not be listed", "err", err)
		return nil
	}
	for n := range all.Items {
		if all.Items[n].Spec.Pods != nil && matches(&all.Items[n]) {
			names = append(names, all.Items[n].Name)
		}
	}
	return names
}

// NamespaceChanged passes updates of a namespace's labels and life, but not of its annotations, for example.
func NamespaceChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, now := e.ObjectOld, e.ObjectNew
		return was.GetUID() != now.GetUID() || !maps.Equal(was.GetLabels(), now.GetLabels()) ||
			was.GetDeletionTimestamp().IsZero() != now.GetDeletionTimestamp().IsZero()
	}}
}
