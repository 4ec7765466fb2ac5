// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// report ends the objects that can end, deletes those that need a successor, and writes the statuses that are due. One
// object fails alone. It returns when a deferred status is due, or zero.
func (r *Reconciler) report(ctx context.Context, run *run) (next time.Time, err error) {
	var failed []error
	for n := range run.gathered.objects {
		o := &run.gathered.objects[n]
		at, err := r.reportObject(ctx, run, o)
		r.recordRejected(o, err)
		failed, next = append(failed, err), sooner(next, at)
	}
	return next, errors.Join(failed...)
}

func (r *Reconciler) reportObject(ctx context.Context, run *run, o *v1alpha1.NetworkInterface) (time.Time, error) {
	uid := identity.UID(o.UID)
	state, planned := stateOf(run.plan, uid)
	switch {
	case run.gathered.letGo[uid], o.DeletionTimestamp != nil && slices.Contains(run.plan.Gone, uid):
		return time.Time{}, r.end(ctx, o)
	case o.DeletionTimestamp == nil && run.needsDeletion(uid):
		return time.Time{}, r.delete(ctx, o)
	case !planned || run.waiting[uid] || !run.supersedes(o, state.Problem.Reason):
		return time.Time{}, nil
	case run.ended && o.DeletionTimestamp == nil && slices.Contains(run.plan.Gone, uid):
		state.Problem = plan.Problem{Reason: plan.InstanceNotReady,
			Message: "instance " + run.instanceID + " has ended; the object goes with the Node of the instance"}
	}
	return r.writeStatus(ctx, o, state)
}

// supersedes reports whether a reason takes the place of the one that the object says of its present spec.
func (run *run) supersedes(o *v1alpha1.NetworkInterface, reason plan.Reason) bool {
	ready := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReady)
	return ready == nil || ready.ObservedGeneration != o.Generation ||
		reason.Supersedes(plan.Reason(ready.Reason), run.look != nil)
}

func stateOf(p plan.Plan, uid identity.UID) (plan.State, bool) {
	for _, s := range p.Interfaces {
		if s.Key.UID == uid {
			return s, true
		}
	}
	return plan.State{}, false
}

// needsDeletion reports whether an object can have no interface any more. While the Node of an ended instance exists,
// its objects stay: each would have a successor at once.
func (run *run) needsDeletion(uid identity.UID) bool {
	if run.ended {
		return len(run.gathered.nodes) == 0
	}
	return slices.Contains(run.plan.Spent, uid)
}

// end removes the finalizer: EC2 has no interface of the object, or the interface is let go.
func (r *Reconciler) end(ctx context.Context, o *v1alpha1.NetworkInterface) error {
	if err := r.permit(); err != nil {
		return err
	}
	if err := object.RemoveFinalizer(ctx, r.Client, o); err != nil {
		return err
	}
	r.Log.Info("ended", "interface", o.Name, "eni", o.Status.ENIID)
	r.forgetObject(identity.UID(o.UID))
	return nil
}

func (r *Reconciler) delete(ctx context.Context, o *v1alpha1.NetworkInterface) error {
	if err := r.permit(); err != nil {
		return err
	}
	return object.Delete(ctx, r.Client, o)
}

// writeStatus writes the status of an object if it is due, or returns when it is.
func (r *Reconciler) writeStatus(ctx context.Context, o *v1alpha1.NetworkInterface, s plan.State) (time.Time, error) {
	after := Status(o, s)
	wait := delay(o, after)
	if wait > 0 {
		if due := r.statusDue(identity.UID(o.UID), wait); r.Now().Before(due) {
			return due, nil
		}
	}
	r.statusWritten(identity.UID(o.UID))
	if wait < 0 {
		return time.Time{}, nil
	}
	if err := r.permit(); err != nil {
		return time.Time{}, err
	}
	written := o.DeepCopy()
	written.Status = after
	err := object.WriteStatus(ctx, r.Client, written)
	if o.Status.ENIID != after.ENIID && (err == nil || isUnanswered(err)) {
		r.recording(o, err == nil)
	}
	if err != nil {
		return time.Time{}, err
	}
	r.announce(o, after)
	if o.Status.AttachmentID == "" && meta.IsStatusConditionTrue(after.Conditions, v1alpha1.ConditionReady) {
		r.Attached(r.Now().Sub(o.CreationTimestamp.Time))
	}
	return time.Time{}, nil
}

// isUnanswered reports whether a write may have been made although it has an error.
func isUnanswered(err error) bool {
	reason := apierrors.ReasonForError(err)
	return reason == metav1.StatusReasonUnknown || reason == metav1.StatusReasonTimeout ||
		reason == metav1.StatusReasonServerTimeout
}

// recording notes that the ID of an interface was written, or may have been.
func (r *Reconciler) recording(o *v1alpha1.NetworkInterface, answered bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.Objects.Record(identity.UID(o.UID), o.ResourceVersion, answered, r.Now())
}

// lacksRecord reports whether the cache does not show yet that an object has an interface.
func (r *Reconciler) lacksRecord(g *gathered) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(g.objects, func(o v1alpha1.NetworkInterface) bool {
		return r.state.Objects.LacksRecord(identity.UID(o.UID), o.ResourceVersion, r.Now())
	})
}

func (r *Reconciler) statusDue(uid identity.UID, wait time.Duration) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.Objects.Due(uid, wait, r.Now())
}

func (r *Reconciler) statusWritten(uid identity.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.Objects.Written(uid)
}

// announce emits an Event when a person has to act.
func (r *Reconciler) announce(o *v1alpha1.NetworkInterface, after v1alpha1.NetworkInterfaceStatus) {
	stalled := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionStalled)
	if stalled == nil || stalledReason(o.Status) == stalled.Reason {
		return
	}
	object.Announce(r.Events, o, stalled.Reason, "Plan", stalled.Message)
}

// announceForce emits an Event for a forced detach: it removes the interface from a running instance.
func (r *Reconciler) announceForce(o *v1alpha1.NetworkInterface, d plan.Detach) {
	if o != nil {
		object.Announce(r.Events, o, "ForceDetach", "Detach", d.String())
	}
}

// refusedKind is the kind of refused writes of statuses and finalizers, in [controller.ObjectRef].
const refusedKind = "NetworkInterface/status"

// settleRefusals forgets the refusals for objects of an instance that do not exist any more.
func (r *Reconciler) settleRefusals(instanceID string, g *gathered) {
	exist := map[string]bool{}
	for _, o := range g.objects {
		exist[o.Name] = true
	}
	r.RefusedWrites.Settle(refusedKind, instanceID, exist)
}

// recordRejected reports once that the API server refuses a write of an object: the refused object itself cannot
// report it.
func (r *Reconciler) recordRejected(o *v1alpha1.NetworkInterface, err error) {
	if r.RefusedWrites.Note(controller.ObjectRef{Kind: refusedKind, Name: o.Name, NodeENI: o.Spec.NodeENI.Name,
		Writer: o.Spec.InstanceID}, err) {
		object.Announce(r.Events, o, v1alpha1.ReasonStateRefused, "Report", err.Error())
	}
}
