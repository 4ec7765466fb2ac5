// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/status"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/text"
)

// removeFinalizer removes the finalizer when no ledger names the NodeENI, no call for it is in flight, and EC2 returns
// none of its interfaces and will return none. It has no timeout. It returns the interfaces that EC2 still returns.
func (r *Reconciler) removeFinalizer(
	ctx context.Context, nodeENI *v1alpha1.NodeENI,
) (gone bool, left []eni.Interface, err error) {
	if !controllerutil.ContainsFinalizer(nodeENI, v1alpha1.Finalizer) {
		return true, nil, nil
	}
	var states v1alpha1.NodeENIStateList
	if err := r.Client.List(ctx, &states, controller.StatesOf(nodeENI.UID), client.Limit(1),
		client.UnsafeDisableDeepCopy); err != nil {
		return false, nil, err
	}
	uid := nodeENI.UID
	if !r.InFlight.Drained(r.marks.of(uid, r.InFlight.Mark)) || r.Observer.Holds(identity.Owner(uid)) {
		return false, nil, nil
	}
	if len(states.Items) > 0 && !r.ledgersUndefined(ctx) {
		return false, nil, nil
	}
	if r.mayBeInvisible(uid) {
		return false, nil, nil
	}
	left, err = r.Observer.ListRemaining(ctx, identity.Owner(uid))
	if err != nil || len(left) > 0 {
		return false, left, err
	}
	before := nodeENI.DeepCopy()
	controllerutil.RemoveFinalizer(nodeENI, v1alpha1.Finalizer)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, nodeENI, patch,
		client.FieldOwner(v1alpha1.FieldOwnerController)); client.IgnoreNotFound(err) != nil {
		return false, nil, fmt.Errorf("remove the finalizer from NodeENI %s: %w", nodeENI.Name, err)
	}
	r.marks.forget(uid)
	r.accepted.Delete(uid)
	r.Log.Info("NodeENI is gone; EC2 has none of its interfaces left", "nodeeni", nodeENI.Name)
	return true, nil, nil
}

// strays returns the interfaces with the UID of a NodeENI that no plan includes: their other tags differ from those
// that this cluster writes.
func (r *Reconciler) strays(left []eni.Interface) []eni.Interface {
	return slices.DeleteFunc(left, func(i eni.Interface) bool {
		_, verdict := identity.Read(r.Observer.Cluster, i.Tags)
		return verdict == identity.Owned
	})
}

// unreported returns the attached interfaces of a NodeENI whose deletion waits for a long time, while no NodeENIState
// that names the NodeENI names their instance. A state of another instance reports other interfaces of the NodeENI.
func (r *Reconciler) unreported(nodeENI *v1alpha1.NodeENI, f facts) []inventory.Record {
	if nodeENI.DeletionTimestamp.IsZero() || !f.waitsLong(nodeENI) {
		return nil
	}
	named := instancesOf(f.states)
	return slices.DeleteFunc(r.Observer.AttachedOf(identity.Owner(nodeENI.UID)), func(known inventory.Record) bool {
		return named[known.Member.InstanceID]
	})
}

// instancesOf returns the instances that NodeENIStates name: the present and the previous ones of their nodes.
func instancesOf(states []v1alpha1.NodeENIState) map[string]bool {
	named := map[string]bool{}
	for n := range states {
		named[states[n].Spec.InstanceID] = true
		for _, previous := range states[n].Spec.PreviousInstances {
			named[previous.InstanceID] = true
		}
		for _, i := range states[n].Status.Interfaces {
			named[cmp.Or(i.InstanceID, states[n].Spec.InstanceID)] = true
		}
	}
	return named
}

// waitsLong reports whether a deletion waits for a long time.
func (f facts) waitsLong(nodeENI *v1alpha1.NodeENI) bool {
	return f.now.Sub(nodeENI.DeletionTimestamp.Time) > mostRecheck
}

// mayBeInvisible reports whether an earlier leader may have created an interface for the NodeENI that EC2 does not
// return yet. The observer knows what this process created or requested.
func (r *Reconciler) mayBeInvisible(uid types.UID) bool {
	_, ours := r.accepted.Load(uid)
	return !ours && r.Now().Before(r.Era().VisibleAt())
}

// removing is the outcome of a NodeENI that is being deleted.
func removing(nodeENI *v1alpha1.NodeENI, f facts, interfaces []located) status.Outcome {
	if controller.Paused(nodeENI) && len(interfaces) > 0 {
		return status.Outcome{State: status.Stalled, Reason: v1alpha1.ReasonPaused, Message: fmt.Sprintf(
			"it is to be deleted, and paused: %s of it stay until a user removes the annotation %s",
			text.Count(len(interfaces), "interface"), v1alpha1.PausedAnnotation)}
	}
	if len(f.strays) > 0 && len(f.states) == 0 {
		return astray(nodeENI, f.strays)
	}
	if len(f.unreported) > 0 {
		return unreported(f.unreported)
	}
	if len(interfaces) == 0 && len(f.states) > 0 && f.waitsLong(nodeENI) {
		return indistinct(nodeENI, f.states[0].Name)
	}
	message := fmt.Sprintf("%s being removed", text.Count(len(interfaces), "interface"))
	if f.hidden && len(interfaces) == 0 {
		message = "no interface is known; EC2 gets two minutes from the change of the leader to return what an earlier " +
			"leader may have created"
	}
	if f.refused != "" {
		message += "; " + f.refused
	}
	return status.Outcome{State: status.Progressing, Reason: v1alpha1.ReasonDeleting, Message: message}
}

// indistinct is the outcome of a NodeENI whose deletion waits a long time for a NodeENIState that reports none of its
// interfaces. The interface in the ledger cannot be distinguished from others with the same tags, so the node
// controller removes none of them.
func indistinct(nodeENI *v1alpha1.NodeENI, state string) status.Outcome {
	return status.Outcome{State: status.Stalled, Reason: v1alpha1.ReasonUnverified, Message: fmt.Sprintf(
		"it is to be deleted, and NodeENIState %s still records an interface of it that cannot be "+
			"distinguished from others with the same tags; delete the interfaces with the tag %s=%s, or remove "+
			"that tag from those that are not multieni's; multieni checks again within %s",
		state, identity.TagNodeENIUID, nodeENI.UID, mostRecheck)}
}

// astray is the outcome of a NodeENI whose deletion waits for interfaces that a user must inspect.
func astray(nodeENI *v1alpha1.NodeENI, strays []eni.Interface) status.Outcome {
	first := strays[0]
	where := "unattached"
	if first.Attachment != nil {
		where = "attached to " + first.Attachment.InstanceID
	}
	return status.Outcome{State: status.Stalled, Reason: v1alpha1.ReasonUnverified, Message: fmt.Sprintf(
		"it is to be deleted, and %s with the tag %s=%s stays: %s, %s, has other %s tags than multieni writes, and "+
			"is left alone; delete the interface, or remove that tag from it; multieni checks again within %s",
		text.Count(len(strays), "interface"), identity.TagNodeENIUID, nodeENI.UID, first.ID, where,
		identity.Prefix, mostRecheck)}
}

// unreported is the outcome of a NodeENI whose deletion waits a long time for interfaces that no NodeENIState reports.
// Their Node is gone, and pods of its instance can use them.
func unreported(attached []inventory.Record) status.Outcome {
	first := attached[0]
	return status.Outcome{State: status.Stalled, Reason: v1alpha1.ReasonUnreported, Message: fmt.Sprintf(
		"it is to be deleted, and %s of it stays: %s is attached to %s, and no NodeENIState reports it, so no agent can "+
			"say that pods do not use it; if the instance has no Node any more, terminate the instance, or detach the "+
			"interface; multieni checks again within %s",
		text.Count(len(attached), "interface"), first.ID, first.Attachment.InstanceID, mostRecheck)}
}
