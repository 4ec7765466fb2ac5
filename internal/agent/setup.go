// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/multieni/multieni/api/v1alpha1"
)

// CacheOptions returns what to cache for the agent of a node: two objects, by name, less what it never looks at.
func CacheOptions(node string) cache.Options {
	byName := cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", node)}
	nodes := byName
	nodes.Transform = slimNode
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject:         map[client.Object]cache.ByObject{&v1alpha1.NodeENIState{}: byName, &corev1.Node{}: nodes},
	}
}

// slimNode keeps of a Node what the agent reads and changes.
func slimNode(object any) (any, error) {
	if node, ok := object.(*corev1.Node); ok {
		node.ManagedFields = nil
		node.Status = corev1.NodeStatus{Conditions: node.Status.Conditions}
	}
	return object, nil
}

const (
	// firstRetry and lastRetry bound the time until what failed is tried again.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// SetupWithManager wires the agent to its two objects and to the events of the host.
func (a *Agent) SetupWithManager(mgr manager.Manager) error {
	changes := make(chan event.GenericEvent)
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return a.forward(ctx, changes) })); err != nil {
		return err
	}
	if a.metadata != nil {
		if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { a.metadata.keep(ctx, a.Log); return nil })); err != nil {
			return err
		}
	}
	this := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: a.Node}}}
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("agent").
		For(&v1alpha1.NodeENIState{}).
		Watches(&corev1.Node{}, this, builder.WithPredicates(nodeChanged())).
		WatchesRawSource(source.Channel(changes, this)).
		WithOptions(ctrlcontroller.Options{
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		}).
		Complete(a)
}

// forward passes the events of the host on until there are no more, which ends the agent: it would be blind.
func (a *Agent) forward(ctx context.Context, changes chan<- event.GenericEvent) error {
	for {
		select {
		case _, open := <-a.Host.Events():
			if !open {
				return errors.New("the kernel's events can no longer be read")
			}
		case <-ctx.Done():
			return nil
		}
		select {
		case changes <- event.GenericEvent{Object: &corev1.Node{}}:
		case <-ctx.Done():
			return nil
		}
	}
}

// nodeChanged passes changes of what the agent says on the Node, not heartbeats.
func nodeChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, now := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
		return was.UID != now.UID || !maps.Equal(was.Labels, now.Labels) || !maps.Equal(was.Annotations, now.Annotations) ||
			!equality.Semantic.DeepEqual(was.Spec.Taints, now.Spec.Taints) || !equality.Semantic.DeepEqual(interfacesReady(was), interfacesReady(now))
	}}
}

func interfacesReady(node *corev1.Node) *corev1.NodeCondition {
	for n := range node.Status.Conditions {
		if node.Status.Conditions[n].Type == v1alpha1.NodeConditionInterfacesReady {
			return &node.Status.Conditions[n]
		}
	}
	return nil
}
