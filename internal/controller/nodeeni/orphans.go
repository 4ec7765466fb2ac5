// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/fleet"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// orphans decides about the objects of a NodeENI that the cache does not have. Two reads of the API server itself
// confirm that it does not exist.
func (r *Reconciler) orphans(ctx context.Context, name string) (again time.Duration, err error) {
	objects, err := object.OfNodeENI(ctx, r.Client, name)
	if err != nil {
		return 0, err
	}
	f := facts{now: r.Now(), refusals: map[string]string{}}
	r.addObjects(&f, objects)
	if !f.hasDeclared() {
		r.forget(name)
		return 0, nil
	}
	if again, err := r.confirmAbsent(ctx, name); again > 0 || err != nil {
		return again, err
	}
	f.nodeENI = fleet.NodeENI{NodeENI: render.NodeENI{Name: name}, Absent: true}
	f.outcome = fleet.Compute(f.nodeENI, f.inFleet, nil, f.now)
	for _, o := range f.outcome.Orphan {
		r.Log.Warn("the NodeENI of an object does not exist", "nodeeni", name, "object", o.Name, "interface", o.ENIID,
			"removedAfter", fleet.OrphanGrace)
	}
	err = r.apply(ctx, &f)
	if !f.outcome.Next.IsZero() {
		again = f.outcome.Next.Sub(f.now)
	}
	return sooner(again, f.nextEviction), err
}

// hasDeclared reports whether an object belongs to a NodeENI, and not to a network.
func (f facts) hasDeclared() bool {
	for _, o := range f.inFleet {
		if o.Spec.Origin == render.OriginDeclared {
			return true
		}
	}
	return false
}

// confirmAbsent returns how long to wait before the read that confirms the absence of a NodeENI; 0 if it is confirmed.
func (r *Reconciler) confirmAbsent(ctx context.Context, name string) (time.Duration, error) {
	var live v1alpha1.NodeENI
	err := r.Reader.Get(ctx, client.ObjectKey{Name: name}, &live)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !apierrors.IsNotFound(err) {
		delete(r.absent, name)
		return recheck, err // the cache is about to have it
	}
	since, known := r.absent[name]
	if !known {
		since = r.Now()
		r.absent[name] = since
	}
	return max(0, since.Add(identity.ConfirmInterval).Sub(r.Now())), nil
}

// markOrphan writes the condition of an object whose NodeENI does not exist.
func (r *Reconciler) markOrphan(ctx context.Context, o *v1alpha1.NetworkInterface) error {
	return object.WriteConditions(ctx, r.Client, object.OwnerNodeENI, o.DeepCopy(), metav1.Condition{
		Type: v1alpha1.ConditionOrphaned, Status: metav1.ConditionTrue, Reason: string(plan.Orphaned),
		ObservedGeneration: o.Generation, LastTransitionTime: metav1.NewTime(r.Now()),
		Message: "NodeENI " + o.Spec.NodeENI.Name + " does not exist; the interface stays for 24 hours, because workloads " +
			"may use it; create the NodeENI again, which adopts the interface",
	})
}

// adopted ends the conditions of objects whose NodeENI exists again.
func (r *Reconciler) adopted(ctx context.Context, f facts) error {
	r.mu.Lock()
	delete(r.absent, f.nodeENI.Name)
	r.mu.Unlock()
	for _, o := range f.objects {
		if meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionOrphaned) == nil {
			continue
		}
		if err := object.WriteConditions(ctx, r.Client, object.OwnerNodeENI, o.DeepCopy()); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	return nil
}

// forget drops what is known of a NodeENI without objects that does not exist.
func (r *Reconciler) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.written, name)
	delete(r.absent, name)
}
