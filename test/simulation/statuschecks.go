// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
)

// checkStatusConsistent checks I9: what is reported as attached is attached, and the reported numbers are right.
func (c *cluster) checkStatusConsistent(s desiredSlot, claim expectedClaim, have []eni.Interface) *Violation {
	state := c.state(claim.node.Name)
	if state == nil {
		return &Violation{"I9", fmt.Sprintf("node %s has no NodeENIState", claim.node.Name)}
	}
	reported := 0
	for _, i := range state.Status.Interfaces {
		if string(i.NodeENIUID) != s.uid || i.Phase != v1alpha1.PhaseAttached {
			continue
		}
		truly, exists := c.run.truth().interfaces[i.ENIID]
		if exists && (spotOf(truly) != s || c.leftAlone(truly)) {
			continue // it is on a previous instance of the node, or waits for a person
		}
		reported++
		if !exists || truly.Attachment == nil ||
			truly.Attachment.Slot != (eni.Slot{Card: int(i.NetworkCardIndex), Device: int(i.DeviceIndex)}) {
			return &Violation{"I9", fmt.Sprintf("%s is reported as attached at card %d device %d of node %s, and is not: %s",
				i.ENIID, i.NetworkCardIndex, i.DeviceIndex, claim.node.Name, describe(truly))}
		}
	}
	if attached := countAttached(have); reported != attached && !sharedOrdinal(have) {
		return &Violation{"I9", fmt.Sprintf("node %s reports %d interfaces of NodeENI %s as attached, %d are",
			claim.node.Name, reported, claim.nodeENI.Name, attached)}
	}
	return nil
}

// countAttached counts the attached interfaces that a NodeENIState lists, without launch interfaces.
func countAttached(have []eni.Interface) int {
	n := 0
	for _, i := range have {
		if i.Ready() && !isLaunched(i) {
			n++
		}
	}
	return n
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
