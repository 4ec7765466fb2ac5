// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/fleet"
)

// reservation is a turn for a replacement.
type reservation struct {
	nodeENI string
	at      time.Time
}

// addBusy finds the instances on which other NodeENIs have turns.
func (r *Reconciler) addBusy(ctx context.Context, f *facts, name string) error {
	var all v1alpha1.NodeENIList
	if err := r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	busy := map[string]bool{}
	for n := range all.Items {
		if all.Items[n].Name == name {
			continue
		}
		for _, t := range all.Items[n].Status.Turns {
			busy[t.InstanceID] = true
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for n := range f.instances {
		id := f.instances[n].ID
		f.instances[n].Busy = busy[id] || r.isReserved(id, name, f.now)
	}
	return nil
}

// isReserved reports whether this process gave another NodeENI a turn on an instance that the cache may not show yet.
func (r *Reconciler) isReserved(instanceID, name string, now time.Time) bool {
	last, known := r.reserved[instanceID]
	return known && last.nodeENI != name && now.Sub(last.at) <= deletedFor
}

// reserve reserves the instances of the objects that a rollout replaces, unless another NodeENI did meanwhile.
func (r *Reconciler) reserve(f facts) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, last := range r.reserved {
		if f.now.Sub(last.at) > deletedFor {
			delete(r.reserved, id)
		}
	}
	name := f.nodeENI.Name
	for _, d := range f.outcome.Delete {
		if d.Replaces && r.isReserved(f.object(d.Name).Spec.InstanceID, name, f.now) {
			return false
		}
	}
	for _, d := range f.outcome.Delete {
		if d.Replaces {
			r.reserved[f.object(d.Name).Spec.InstanceID] = reservation{name, f.now}
		}
	}
	return true
}

// recordTurns writes the turns that changed, with the rest of the status, before anything is done that needs one.
func (r *Reconciler) recordTurns(ctx context.Context, nodeENI *v1alpha1.NodeENI, f facts) error {
	if slices.Equal(nodeENI.Status.Turns, turnsOf(f.outcome.Turns)) {
		return nil
	}
	return r.write(ctx, nodeENI, statusOf(nodeENI, f))
}

func turnsOf(turns []fleet.Turn) (recorded []v1alpha1.Turn) {
	for _, t := range turns {
		recorded = append(recorded, v1alpha1.Turn{Name: t.Name, UID: t.UID, InstanceID: t.InstanceID})
	}
	return recorded
}

// enqueueReplacing enqueues the rollouts that may have waited for a turn of another NodeENI.
func (r *Reconciler) enqueueReplacing(ctx context.Context, e event.UpdateEvent, q controller.Queue) {
	if TurnsEnded(e.ObjectOld.(*v1alpha1.NodeENI), e.ObjectNew.(*v1alpha1.NodeENI)) {
		r.enqueue(ctx, q, Replacing)
	}
}

// TurnsEnded reports whether the later one of two versions of a NodeENI lacks a turn of the earlier one.
func TurnsEnded(was, now *v1alpha1.NodeENI) bool {
	return slices.ContainsFunc(was.Status.Turns, func(t v1alpha1.Turn) bool {
		return !slices.Contains(now.Status.Turns, t)
	})
}

// Replacing reports whether a NodeENI has interfaces to replace.
func Replacing(n *v1alpha1.NodeENI) bool {
	return n.Spec.UpdatePolicy == v1alpha1.UpdateReplace && n.Status.Drifted > 0
}

// MayRemove reports whether the interface of an object that is being deleted may be removed now: it has its turn, or
// needs none.
func (r *Reconciler) MayRemove(ctx context.Context, o *v1alpha1.NetworkInterface) (bool, error) {
	var nodeENI v1alpha1.NodeENI
	err := r.Client.Get(ctx, client.ObjectKey{Name: o.Spec.NodeENI.Name}, &nodeENI)
	if err != nil {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	f := facts{now: r.Now()}
	objects, err := object.OfInstance(ctx, r.Client, o.Spec.InstanceID)
	if err != nil {
		return false, err
	}
	r.addObjects(&f, slices.DeleteFunc(slices.Clone(objects), func(other v1alpha1.NetworkInterface) bool {
		return other.Spec.NodeENI.Name != nodeENI.Name
	}))
	var nodes corev1.NodeList
	options := []client.ListOption{controller.OfInstance(o.Spec.InstanceID), client.UnsafeDisableDeepCopy}
	if err := r.Client.List(ctx, &nodes, options...); err != nil {
		return false, err
	}
	selected := controller.Selector(nodeENI.Spec)
	f.nodes = slices.DeleteFunc(slices.Clone(nodes.Items), func(node corev1.Node) bool {
		return !selected.Matches(labels.Set(node.Labels))
	})
	if err := r.addInstances(ctx, &f); err != nil {
		return false, err
	}
	if _, err := r.addNodeENI(ctx, &f, &nodeENI); err != nil {
		return false, err
	}
	var instance *fleet.Instance
	if len(f.instances) > 0 {
		instance = &f.instances[0]
	}
	return fleet.MayRemove(f.nodeENI, object.InFleet(o), f.inFleet, instance), nil
}
