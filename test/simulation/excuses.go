// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// This file has the true reasons why something is not as declared although all is well.

// awaitsPerson reports whether an object says that a person must act because several interfaces have its tags: EC2 does
// not say which of them is the one that was created for it.
func (c *cluster) awaitsPerson(i eni.Interface) bool {
	return slices.ContainsFunc(c.api.interfaces(), func(n *v1alpha1.NetworkInterface) bool {
		mayTakeOver := n.Status.ENIID == "" && n.Name == i.Tags[identity.TagInterface]
		return (mayTakeOver || string(n.UID) == i.Tags[identity.TagUID]) && c.hasCopies(n)
	})
}

// awaitsNode reports whether an interface was made for an object that waits for a Node of its instance. The answer was
// lost; only a repetition of the call records the interface, and none is made for an instance without a Node.
func (c *cluster) awaitsNode(i eni.Interface) bool {
	n := c.api.interfaceWith(types.UID(i.Tags[identity.TagUID]))
	return n != nil && n.Status.ENIID == "" && n.DeletionTimestamp.IsZero() &&
		len(c.nodesOf(n.Spec.InstanceID)) == 0 && !c.run.truth().ended(n.Spec.InstanceID)
}

// hasCopies reports whether an object says that several interfaces have its tags, and they do.
func (c *cluster) hasCopies(n *v1alpha1.NetworkInterface) bool {
	return plan.Reason(reasonOf(n)) == plan.NotImported && c.anyCopied(spotOfObject(n))
}

// isBlocked reports whether an object says that its interface is not as declared, for a reason that does not pass by
// itself.
func isBlocked(n *v1alpha1.NetworkInterface) bool {
	ready := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Status == metav1.ConditionFalse && !plan.Reason(ready.Reason).Transient()
}

// blocked counts the objects of a claim that are reported as blocked for a reason that is true.
func (c *cluster) blocked(s desiredSlot, claim expectedClaim) (blocked int) {
	for _, n := range c.objectsAt(s) {
		_, exists := c.run.truth().interfaces[n.Status.ENIID]
		if !exists && isBlocked(n) && c.isTrue(plan.Reason(reasonOf(n)), s, claim) {
			blocked++
		}
	}
	return blocked
}

// excused reports whether an interface is reported as blocked for a reason that is true.
func (c *cluster) excused(s desiredSlot, claim expectedClaim, id string) bool {
	n := c.api.interfaceOf(id)
	return n != nil && isBlocked(n) && c.isTrue(plan.Reason(reasonOf(n)), s, claim)
}

// anyLacks reports whether any node lacks an interface of a NodeENI, or the given instance lacks one of any NodeENI:
// both delay the replacement of an interface. So does another interface of the NodeENI that is attached and not ready,
// for example because its subnet is full. An interface that is never available delays nothing.
func (c *cluster) anyLacks(s desiredSlot, replaced eni.Interface) bool {
	return slices.ContainsFunc(c.api.interfaces(), func(n *v1alpha1.NetworkInterface) bool {
		concerns := n.Spec.NodeENI.Name == s.nodeENI || n.Spec.InstanceID == s.instanceID
		i, exists := c.run.truth().interfaces[n.Status.ENIID]
		attached := exists && i.Ready() && n.DeletionTimestamp.IsZero()
		serves := attached && (n.Spec.NodeENI.Name != s.nodeENI || i.ID == replaced.ID || isReady(n))
		return concerns && !serves && plan.Reason(reasonOf(n)) != plan.NoSubnetInZone
	})
}
