// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
)

// mayStay reports whether an undesired object, or one that is being deleted, may still exist: its Node is absent, so
// that the reason to remove it is unknown; it is in use and its NodeENI has no subnet any more; another Node of its
// instance is selected; its NodeENI was lost less than a day ago; it is that of a pre-join interface; pods may use
// its interface, and no agent runs that could say that they do not; or it waits for its turn.
func (c *cluster) mayStay(n *v1alpha1.NetworkInterface) bool {
	ended := c.run.truth().ended(n.Spec.InstanceID)
	its := c.nodesOf(n.Spec.InstanceID)
	if len(its) > 0 && ended {
		return true // the cloud provider removes the Nodes of an ended instance
	}
	if !n.DeletionTimestamp.IsZero() {
		return c.mayEndLater(n, ended)
	}
	if n.Spec.Origin == v1alpha1.OriginNetwork {
		return len(its) > 0 || !ended
	}
	nodeENI := c.nodeENINamed(n.Spec.NodeENI.Name)
	if !c.removable(n) || nodeENI == nil && c.isStuck(n) { // nothing is given up for an orphan
		return true
	}
	if nodeENI == nil || !nodeENI.DeletionTimestamp.IsZero() {
		return false
	}
	return c.mayServe(n, nodeENI, its, ended)
}

// mayEndLater is mayStay for an object that is being deleted.
func (c *cluster) mayEndLater(n *v1alpha1.NetworkInterface, ended bool) bool {
	return n.Held() && !ended && !c.hasAgent(n) || n.Status.ENIID == "" && c.hasCopies(n) || c.awaitsTurn(n)
}

// isLaunchInterface reports whether an object has an interface that its instance was launched with: it stays there.
func (c *cluster) isLaunchInterface(i eni.Interface) bool {
	n := c.api.interfaceOf(i.ID)
	return n != nil && n.Status.Evidence == v1alpha1.EvidenceLaunched
}

// awaitsTurn reports whether an object says that it waits for its turn, and another node has one whose successor is
// blocked for a true reason, or whose instance refuses the removal.
func (c *cluster) awaitsTurn(n *v1alpha1.NetworkInterface) bool {
	nodeENI := c.nodeENINamed(n.Spec.NodeENI.Name)
	if nodeENI == nil || plan.Reason(reasonOf(n)) != plan.AwaitsTurn {
		return false
	}
	claims := c.claims()
	return slices.ContainsFunc(nodeENI.Status.Turns, func(t v1alpha1.Turn) bool {
		s := desiredSlot{nodeENI.Name, t.InstanceID}
		claim, wanted := claims[s]
		lacks := len(c.serving(s)) < len(claim.subnets) && c.blocked(s, claim) > 0
		refuses := c.run.broken.is(brokenInstance, t.InstanceID)
		return wanted && t.InstanceID != n.Spec.InstanceID && (lacks || refuses || c.anyIncomplete(s, claim))
	})
}

// anyIncomplete reports whether an interface of a claim says that it is not as declared for a true reason: EC2 has no
// free prefix.
func (c *cluster) anyIncomplete(s desiredSlot, claim expectedClaim) bool {
	return slices.ContainsFunc(c.objectsAt(s), func(n *v1alpha1.NetworkInterface) bool {
		return n.Status.ENIID != "" && isBlocked(n) && c.isTrue(plan.Reason(reasonOf(n)), s, claim)
	})
}

// awaitingTurn returns how many objects of a NodeENI on an instance wait for their turn. They have no successor yet.
func (c *cluster) awaitingTurn(s desiredSlot) (waiting int) {
	for _, n := range c.objectsAt(s) {
		if !n.DeletionTimestamp.IsZero() && c.awaitsTurn(n) {
			waiting++
		}
	}
	return waiting
}

// mayServe reports whether an undesired object of a NodeENI may still exist because of the Nodes of its instance.
func (c *cluster) mayServe(n *v1alpha1.NetworkInterface, nodeENI *v1alpha1.NodeENI, its []*corev1.Node,
	ended bool) bool {
	switch {
	case len(its) == 0:
		return !ended
	case len(its) > 1 && !selects(nodeENI, its[0]):
		return anySelected(nodeENI, its)
	default:
		return anySelected(nodeENI, its) && c.isStranded(n)
	}
}

// isStranded reports whether the object says that its NodeENI has no subnet for its instance, as the only object there
// or next to one with an interface: that one gives the reason, and no other object goes before it.
func (c *cluster) isStranded(n *v1alpha1.NetworkInterface) bool {
	objects := c.objectsAt(spotOfObject(n))
	stranded := slices.ContainsFunc(objects, func(other *v1alpha1.NetworkInterface) bool {
		return other.Status.ENIID != ""
	})
	return (len(objects) == 1 || stranded) && plan.Reason(reasonOf(n)) == plan.NoSubnetInZone
}

// hasAgent reports whether an agent runs that may write about an object: under the name of its Node, on its instance.
func (c *cluster) hasAgent(n *v1alpha1.NetworkInterface) bool {
	host := c.run.pods.hosts[n.Spec.InstanceID]
	return host != nil && host.c == c && host.node == n.Spec.NodeName && host.runsAgent()
}
