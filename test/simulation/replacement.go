// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
)

// replacement is a live interface that a process detached although its NodeENI declares it, and that has no successor
// yet.
type replacement struct {
	desiredSlot
	by string
	// served counts the ready interfaces of the NodeENI on the instance at that time, with this one.
	served int
}

// replaceable reports whether updatePolicy: Replace is a reason to detach an interface: it differs from its NodeENI in
// the subnet, which EC2 ties to an interface, or the slot, which EC2 ties to its attachment. It is computed
// independently of the product, so that an error in the product's computation of drift becomes visible.
func (c *cluster) replaceable(nodeENI *v1alpha1.NodeENI, n *v1alpha1.NetworkInterface) bool {
	return c.replaceableOn(c.nodesOf(n.Spec.InstanceID), nodeENI, n)
}

// replaceableOn is replaceable for an instance with the given Nodes.
func (c *cluster) replaceableOn(its []*corev1.Node, nodeENI *v1alpha1.NodeENI, n *v1alpha1.NetworkInterface) bool {
	if nodeENI.Spec.UpdatePolicy != v1alpha1.UpdateReplace || len(its) == 0 || n.Status.ENIID == "" {
		return false
	}
	at := slices.Index(subnetsIn(zoneOf(its[0]), nodeENI.Spec.SubnetIDs, nodeENI.Spec.SubnetNames), n.Status.SubnetID)
	if at < 0 {
		return true
	}
	i := c.run.truth().interfaces[n.Status.ENIID]
	if i.Attachment == nil {
		return false
	}
	wanted, have := slotOf(nodeENI, at), i.Attachment.Slot
	if nodeENI.Spec.DeviceIndexPolicy == v1alpha1.DeviceIndexExact {
		return have != wanted
	}
	return have.Card != wanted.Card
}

// slotOf is the slot that a NodeENI asks for in the subnet at an index of its list for a zone.
func slotOf(nodeENI *v1alpha1.NodeENI, at int) eni.Slot {
	return eni.Slot{Card: int(nodeENI.Spec.NetworkCardIndex), Device: int(nodeENI.Spec.DeviceIndex) + at}
}

// couldReplace reports whether an interface must be replaced by one whose slot no other interface holds.
func (c *cluster) couldReplace(nodeENI *v1alpha1.NodeENI, n *v1alpha1.NetworkInterface) bool {
	i := c.run.truth().interfaces[n.Status.ENIID]
	if i.Attachment == nil || !c.replaceable(nodeENI, n) {
		return false
	}
	its := c.nodesOf(n.Spec.InstanceID)
	at := slices.Index(subnetsIn(zoneOf(its[0]), nodeENI.Spec.SubnetIDs, nodeENI.Spec.SubnetNames), i.SubnetID)
	holder := c.run.truth().holder(i.Attachment.InstanceID, slotOf(nodeENI, max(at, 0)))
	return holder == "" || holder == i.ID || nodeENI.Spec.DeviceIndexPolicy != v1alpha1.DeviceIndexExact
}

// replacing checks that an interface that its NodeENI still declares is detached in its turn: on at most maxUnavailable
// nodes at a time, whether the controller deleted its object for a replacement or a user did. A process knows its own
// actions; those of another one can be unknown to it.
func (r *run) replacing(p *process, q request, i eni.Interface) {
	s := r.spotOf(i)
	nodeENI, n := p.cluster.nodeENINamed(s.nodeENI), p.cluster.api.interfaceOf(i.ID)
	if nodeENI == nil || n == nil || !strings.HasPrefix(q.action, "Detach") || !i.Ready() ||
		n.Spec.NodeENI.UID != nodeENI.UID || !p.cluster.onlyReplaced(nodeENI, n) {
		return
	}
	if its := nodesIn(p.informers.known(nodes), s.instanceID); len(its) == 0 || !selects(nodeENI, its[0]) {
		return // the process removes the interface: it has not received yet that a label selects the node again
	}
	r.judged("I1")
	r.noteSuccessors() // time may have passed since the last event
	others := map[string]bool{}
	for id, other := range r.watch.replaced {
		if id != i.ID && other.by == p.name && other.nodeENI == s.nodeENI && other.instanceID != s.instanceID {
			others[other.instanceID] = true
		}
	}
	if most := max(p.maxUnavailable(nodeENI), r.watch.turned[string(n.UID)]); len(others) >= most {
		r.violate("I1", "%s replaces %s while %d other nodes lack an interface of that NodeENI, and maxUnavailable is %d: %s",
			p.name, i.ID, len(others), most, r.describe(i))
	}
	serving, _ := r.servingInterfaces()
	r.watch.replaced[i.ID] = replacement{s, p.name, serving[s]}
}

// rollingOut checks that a process deletes one object of an instance at a time for a replacement, and those of at most
// maxUnavailable nodes of a NodeENI.
func (r *run) rollingOut(p *process, n *v1alpha1.NetworkInterface) {
	s := spotOfObject(n)
	nodeENI := p.cluster.nodeENINamed(s.nodeENI)
	if nodeENI == nil || n.Status.ENIID == "" || p.cluster.hasVanished(n) || p.cluster.isStuck(n) ||
		!p.cluster.onlyReplaced(nodeENI, n) {
		return
	}
	r.judged("I1")
	r.noteSuccessors()
	others := map[string]bool{}
	for uid, other := range r.watch.rolled {
		switch {
		case uid == n.UID, other.by != p.name:
		case other.instanceID == s.instanceID:
			r.violate("I1", "%s replaces %s while another interface of the same instance has no successor yet", p.name,
				objectDigest(n))
		case other.nodeENI == s.nodeENI:
			others[other.instanceID] = true
		}
	}
	if most := p.maxUnavailable(nodeENI); len(others) >= most {
		r.violate("I1", "%s replaces %s while %d other nodes lack an interface of that NodeENI, and maxUnavailable is %d",
			p.name, objectDigest(n), len(others), most)
	}
	_, stays := r.servingInterfaces()
	r.watch.rolled[n.UID] = replacement{s, p.name, stays[s]}
}

// rollsOut reports whether a rollout replaces an interface whose Node has left, and the process has not received that.
func (p *process) rollsOut(n *v1alpha1.NetworkInterface) bool {
	nodeENI, received := p.cluster.nodeENINamed(n.Spec.NodeENI.Name), nodesIn(p.informers.known(nodes), n.Spec.InstanceID)
	return nodeENI != nil && len(p.cluster.nodesOf(n.Spec.InstanceID)) == 0 && len(received) > 0 &&
		selects(nodeENI, received[0]) && p.cluster.replaceableOn(received, nodeENI, n)
}

// onlyReplaced reports whether the NodeENI of an object that is being deleted still declares its interface. It declares
// none where it has no subnet: an interface stays there until a user deletes its object, and has no successor.
func (c *cluster) onlyReplaced(nodeENI *v1alpha1.NodeENI, n *v1alpha1.NetworkInterface) bool {
	inPlace := nodeENI.DeepCopy()
	inPlace.Spec.UpdatePolicy = v1alpha1.UpdateInPlace
	its := c.nodesOf(n.Spec.InstanceID) // the oldest one has the interfaces
	if c.run.truth().ended(n.Spec.InstanceID) || len(its) == 0 || !selects(nodeENI, its[0]) {
		return false
	}
	listed := subnetsIn(zoneOf(its[0]), nodeENI.Spec.SubnetIDs, nodeENI.Spec.SubnetNames)
	return len(listed) > 0 && !c.removableFor(inPlace, n)
}

// maxUnavailable is how many nodes may lack an interface for a replacement, by the true state or by that which the
// process has received.
func (p *process) maxUnavailable(nodeENI *v1alpha1.NodeENI) int {
	most := max(1, int(nodeENI.Spec.MaxUnavailable))
	for _, known := range p.informers.known(nodeENIs) {
		if known.GetName() == nodeENI.Name {
			most = max(most, int(known.(*v1alpha1.NodeENI).Spec.MaxUnavailable))
		}
	}
	return most
}

// noteTurns notes the limit with which a process gives turns. A turn that an object has stays when a user lowers the
// limit.
func (p *process) noteTurns(nodeENI *v1alpha1.NodeENI, turns []v1alpha1.Turn) {
	for _, t := range turns {
		if !slices.Contains(nodeENI.Status.Turns, t) {
			p.run.watch.turned[t.UID] = p.maxUnavailable(nodeENI)
		}
	}
}

// noteSuccessors forgets the replacements after which the instance has as many interfaces of the NodeENI again, or the
// NodeENI desires no more. An interface whose object is being deleted serves until it is detached, and is no successor.
func (r *run) noteSuccessors() {
	if len(r.watch.replaced)+len(r.watch.rolled) == 0 {
		return
	}
	serving, stays := r.servingInterfaces()
	for _, c := range r.clusters {
		claims := c.claims()
		succeeded := func(one replacement, have map[desiredSlot]int) bool {
			return strings.HasPrefix(one.by, c.name+"/") &&
				have[one.desiredSlot] >= min(one.served, len(claims[one.desiredSlot].subnets))
		}
		maps.DeleteFunc(r.watch.replaced, func(_ string, one replacement) bool { return succeeded(one, serving) })
		maps.DeleteFunc(r.watch.rolled, func(_ types.UID, one replacement) bool { return succeeded(one, stays) })
	}
}

// servingInterfaces counts the ready interfaces of each NodeENI and instance: all, and those whose object is not being
// deleted.
func (r *run) servingInterfaces() (serving, stays map[desiredSlot]int) {
	serving, stays = map[desiredSlot]int{}, map[desiredSlot]int{}
	for _, i := range r.truth().ordered {
		_, n := r.objectOf(i)
		if n == nil || !i.Ready() || !i.AttachedTo(n.Spec.InstanceID) {
			continue
		}
		serving[spotOfObject(n)]++
		if n.DeletionTimestamp.IsZero() {
			stays[spotOfObject(n)]++
		}
	}
	return serving, stays
}
