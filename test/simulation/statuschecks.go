// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
)

// checkStatusConsistent checks I9: what objects report as attached is attached, and what is Ready is as declared.
func (c *cluster) checkStatusConsistent(s desiredSlot, claim expectedClaim) *Violation {
	for _, n := range c.objectsAt(s) {
		c.run.judged("I9")
		i, exists := c.run.truth().interfaces[n.Status.ENIID]
		switch {
		case n.Status.Slot != nil && (!exists || i.Attachment == nil || i.Attachment.Slot != eni.Slot{
			Card: int(n.Status.Slot.NetworkCardIndex), Device: int(n.Status.Slot.DeviceIndex)}):
			return &Violation{"I9", fmt.Sprintf("%s is not where it says: %s", objectDigest(n), c.run.describe(i))}
		case !isReady(n):
		case !exists || !i.Ready() || !i.AttachedTo(n.Spec.InstanceID):
			return &Violation{"I9", fmt.Sprintf("%s is Ready, and not attached: %s", objectDigest(n), c.run.describe(i))}
		case n.Spec.NodeENI.Generation == claim.nodeENI.Generation && claim.mismatch(i, c.requested(i)) != "":
			return &Violation{"I9", fmt.Sprintf("%s is Ready, and has not the declared %s: %s", objectDigest(n),
				claim.mismatch(i, c.requested(i)), c.run.describe(i))}
		}
	}
	return nil
}

// checkStatusTrue checks I9 for a NodeENI: while it is Ready for its present generation, each instance that it desires
// interfaces on has all of them, attached and as declared.
func (c *cluster) checkStatusTrue(s desiredSlot, claim expectedClaim, have []eni.Interface) *Violation {
	c.run.judged("I9")
	ready := meta.FindStatusCondition(claim.nodeENI.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status != "True" || ready.ObservedGeneration != claim.nodeENI.Generation {
		return nil
	}
	asDeclared := 0
	for _, i := range have {
		if i.Ready() && claim.mismatch(i, c.requested(i)) == "" {
			asDeclared++
		}
	}
	if asDeclared < len(claim.subnets) {
		return &Violation{"I9", fmt.Sprintf("NodeENI %s says that it is Ready (%s), and %d of %d interfaces on %s (node %s) "+
			"are as it declares",
			claim.nodeENI.Name, ready.Message, asDeclared, len(claim.subnets), s.instanceID, claim.node.Name)}
	}
	return nil
}
