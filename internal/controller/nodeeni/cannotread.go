// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/status"
	"github.com/multieni/multieni/internal/core/plan"
)

// firstListing is how long a reconciliation waits for the first list of EC2 before it checks whether EC2 refuses it.
const firstListing = 5 * time.Second

// outageGrace is how long the first list must have failed before a NodeENI that is ready reports it: a controller that
// starts during a short outage of EC2 says nothing about interfaces that work.
const outageGrace = 2 * time.Minute

// synced reports whether the cluster's interfaces are known. It waits for that for at most firstListing, unless an
// attempt to list them has failed.
func (r *Reconciler) synced(ctx context.Context) (bool, error) {
	if r.Observer.Synced() {
		return true, nil
	}
	if r.Observer.Failure().Err != nil {
		return false, nil
	}
	waiting, stop := context.WithTimeout(ctx, firstListing)
	defer stop()
	err := r.Observer.WaitSynced(waiting)
	if err != nil && ctx.Err() == nil {
		return false, nil
	}
	return err == nil, err
}

// reportUnsynced reports on a NodeENI without a known state why the cluster's interfaces are not known.
func (r *Reconciler) reportUnsynced(ctx context.Context, nodeENI *v1alpha1.NodeENI) error {
	outcome := r.unsynced(nodeENI)
	if outcome == nil {
		return nil
	}
	after := *nodeENI.Status.DeepCopy()
	after.ObservedGeneration = nodeENI.Generation
	after.Conditions = controller.UnsyncedConditions(after.Conditions, nodeENI.Generation, *outcome)
	return r.write(ctx, nodeENI, after)
}

// unsynced returns why the cluster's interfaces are not known; nil if there is nothing to report yet.
func (r *Reconciler) unsynced(nodeENI *v1alpha1.NodeENI) *status.Outcome {
	failure := r.Observer.Failure()
	outcome := controller.Unsynced(failure.Err)
	unreadable := outcome.Reason == v1alpha1.ReasonUnreadable
	if unreadable && r.Refusals.CannotRead() {
		outcome = cannotRead(r.Refusals.Message())
		return &outcome
	}
	ready := meta.FindStatusCondition(nodeENI.Status.Conditions, v1alpha1.ConditionReady)
	works := ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == nodeENI.Generation &&
		nodeENI.DeletionTimestamp.IsZero()
	if failure.Err == nil || unreadable && works && r.Now().Sub(failure.Since) < outageGrace {
		return nil
	}
	return &outcome
}

// cannotRead is the outcome of a NodeENI while EC2 refuses the reads that it needs.
func cannotRead(message string) status.Outcome {
	return status.Outcome{State: status.Stalled, Reason: string(plan.Unauthorized), Message: message}
}

// eventful are the reasons of Ready that become an Event, because no node can report them.
var eventful = []string{v1alpha1.ReasonUnreadable, v1alpha1.ReasonOtherClusterName, string(plan.Unauthorized)}

// statusDelay is the time between two writes of a status that do not change Ready: nodes and pods change all the time.
const statusDelay = 10 * time.Second

// report writes the status if it changed: at once if Ready changed, otherwise some time after the last write. It
// returns the time until a write that has to wait.
func (r *Reconciler) report(ctx context.Context, nodeENI *v1alpha1.NodeENI, f facts) (time.Duration, error) {
	after := statusOf(nodeENI, f)
	if equality.Semantic.DeepEqual(nodeENI.Status, after) {
		return 0, nil
	}
	r.mu.Lock()
	wait := r.written[nodeENI.Name].Add(statusDelay).Sub(f.now)
	r.mu.Unlock()
	if wait > 0 && !isNews(nodeENI.Status, after) {
		return wait, nil
	}
	if err := r.write(ctx, nodeENI, after); err != nil {
		return 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written[nodeENI.Name] = f.now
	return 0, nil
}

// isNews reports whether a user or another program waits for a change of a status: of the declaration that it is about,
// of a condition, or of the matches of a selector.
func isNews(before, after v1alpha1.NodeENIStatus) bool {
	if before.ObservedGeneration != after.ObservedGeneration || len(before.Conditions) != len(after.Conditions) ||
		!slices.Equal(before.Subnets, after.Subnets) || !slices.Equal(before.SecurityGroups, after.SecurityGroups) {
		return true
	}
	return slices.ContainsFunc(after.Conditions, func(c metav1.Condition) bool {
		was := meta.FindStatusCondition(before.Conditions, c.Type)
		return was == nil || was.Status != c.Status || was.Reason != c.Reason
	})
}

// write writes the status if it changed. It returns a conflict if the NodeENI is not the one that was read: the status
// is the only record of the turns.
func (r *Reconciler) write(ctx context.Context, nodeENI *v1alpha1.NodeENI, after v1alpha1.NodeENIStatus) error {
	before := nodeENI.Status
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	nodeENI.Status = after
	err := status.WriteLocked(ctx, r.Client, v1alpha1.FieldOwnerController, nodeENI)
	if r.RefusedWrites.Note(controller.ObjectRef{Kind: "NodeENI", Name: nodeENI.Name}, err) && r.Events != nil {
		r.Events.Eventf(nodeENI, nil, corev1.EventTypeWarning, v1alpha1.ReasonStateRefused,
			"Report", "%s", controller.Note(err))
	}
	if err != nil {
		return err
	}
	was, now := meta.FindStatusCondition(before.Conditions,
		v1alpha1.ConditionReady), meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionReady)
	unable := now != nil && slices.Contains(eventful, now.Reason) &&
		(now.Reason != string(plan.Unauthorized) || now.Message == r.Refusals.Message())
	if unable && r.Events != nil && (was == nil || was.Message != now.Message) {
		r.Events.Eventf(nodeENI, nil, corev1.EventTypeWarning, now.Reason, "Read", "%s", now.Message)
	}
	r.announcePods(nodeENI, before)
	return nil
}
