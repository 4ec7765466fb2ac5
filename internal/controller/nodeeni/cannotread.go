// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/status"
)

// firstListing is how long a reconciliation waits for the first list of EC2 before it checks whether EC2 refuses it.
const firstListing = 5 * time.Second

// synced reports whether the cluster's interfaces are known. It waits for that for at most firstListing.
func (r *Reconciler) synced(ctx context.Context) (bool, error) {
	if r.Observer.Synced() {
		return true, nil
	}
	waiting, stop := context.WithTimeout(ctx, firstListing)
	defer stop()
	err := r.Observer.WaitSynced(waiting)
	if err != nil && ctx.Err() == nil {
		return false, nil
	}
	return err == nil, err
}

// reportCannotRead reports on a NodeENI without a known state that EC2 refuses the reads of the cluster's interfaces.
func (r *Reconciler) reportCannotRead(ctx context.Context, nodeENI *v1alpha1.NodeENI) error {
	if !r.Refusals.CannotRead() {
		return nil
	}
	after := *nodeENI.Status.DeepCopy()
	after.ObservedGeneration = nodeENI.Generation
	var others []metav1.Condition
	for _, kind := range []string{v1alpha1.ConditionSubnetsResolved, v1alpha1.ConditionSecurityGroupsResolved} {
		if c := meta.FindStatusCondition(after.Conditions, kind); c != nil {
			others = append(others, *c)
		}
	}
	after.Conditions = status.Summarize(after.Conditions, nodeENI.Generation, cannotRead(r.Refusals.Message()), others...)
	return r.write(ctx, nodeENI, after)
}

// cannotRead is the outcome of a NodeENI while EC2 refuses the reads that it needs.
func cannotRead(message string) status.Outcome {
	return status.Outcome{State: status.Stalled, Reason: string(plan.Unauthorized), Message: message}
}

// write writes the status if it changed. A refused read of EC2 becomes an Event, because no node can report it.
func (r *Reconciler) write(ctx context.Context, nodeENI *v1alpha1.NodeENI, after v1alpha1.NodeENIStatus) error {
	before := nodeENI.Status
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	nodeENI.Status = after
	err := status.Write(ctx, r.Client, v1alpha1.FieldOwnerController, nodeENI)
	if r.RefusedWrites.Note(controller.ObjectRef{Kind: "NodeENI", Name: nodeENI.Name}, err) && r.Events != nil {
		r.Events.Eventf(nodeENI, nil, corev1.EventTypeWarning, v1alpha1.ReasonStateRefused,
			"Report", "%s", controller.Note(err))
	}
	if err != nil {
		return err
	}
	was, now := meta.FindStatusCondition(before.Conditions,
		v1alpha1.ConditionReady), meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionReady)
	refused := now != nil && r.Refusals.CannotRead() && now.Message == r.Refusals.Message()
	if refused && r.Events != nil && (was == nil || was.Message != now.Message) {
		r.Events.Eventf(nodeENI, nil, corev1.EventTypeWarning, now.Reason, "Read", "%s", now.Message)
	}
	return nil
}
