// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/instancetype"
)

// mostOnTheirWay is how many interfaces of a node may exist unattached and wait for their attach (K of the reliability
// catalogue).
const mostOnTheirWay = 3

// waitsForPerson reports whether an interface waits for a person, as far as the process knows: its NodeENI is paused,
// or selects only another Node that names the instance, or its object says why it is blocked.
func (p *process) waitsForPerson(i eni.Interface) bool {
	s := p.run.spotOf(i)
	isIts := func(object client.Object) bool { return object.GetName() == s.nodeENI && isPaused(object) }
	nodeENI, its := p.cluster.nodeENINamed(s.nodeENI), p.cluster.nodesOf(s.instanceID)
	isRetained := nodeENI != nil && len(its) > 1 && !selects(nodeENI, its[0]) && anySelected(nodeENI, its)
	n := p.cluster.api.interfaceOf(i.ID)
	return isRetained || n != nil && isBlocked(n) || nodeENI != nil && isPaused(nodeENI) ||
		slices.ContainsFunc(p.informers.known(nodeENIs), isIts)
}

// reasonOf returns why an object is ready or not, as its status says.
func reasonOf(n *v1alpha1.NetworkInterface) string {
	if ready := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		return ready.Reason
	}
	return ""
}

// isReady reports whether an object says that its interface is as its present spec declares.
func isReady(n *v1alpha1.NetworkInterface) bool {
	ready := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == n.Generation
}

// exactSlot returns the slot of an interface if its NodeENI, as the process knows it, accepts no other slot.
func (p *process) exactSlot(i eni.Interface) (slot eni.Slot, exact bool) {
	for _, known := range p.informers.known(nodeENIs) {
		nodeENI := known.(*v1alpha1.NodeENI)
		at := slices.Index(subnetsIn(i.Zone, nodeENI.Spec.SubnetIDs, nodeENI.Spec.SubnetNames), i.SubnetID)
		if nodeENI.Name == p.run.spotOf(i).nodeENI && at >= 0 {
			return slotOf(nodeENI, at), nodeENI.Spec.DeviceIndexPolicy == v1alpha1.DeviceIndexExact
		}
	}
	return eni.Slot{}, false
}

// withSlot returns the waiting interfaces of an instance that can get a slot. The others wait for a person: an attached
// interface that stays, or another waiting one, has the only slot that they accept, or the card does not have it. The
// process sees that in the NodeENIs. It writes the reason into the state of the node only after the calls of the same
// plan, so waitsForPerson does not know it yet.
func (p *process) withSlot(instanceID string, limits eni.Limits, waiting []eni.Interface) []eni.Interface {
	taken, held := map[eni.Slot]bool{}, map[eni.Slot]desiredSlot{}
	for _, i := range p.cluster.run.truth().ordered {
		n := p.cluster.api.interfaceOf(i.ID)
		if i.AttachedTo(instanceID) {
			taken[i.Attachment.Slot] = n == nil || n.DeletionTimestamp.IsZero() && !p.cluster.removable(n)
			held[i.Attachment.Slot] = p.run.spotOf(i)
		}
	}
	return slices.DeleteFunc(waiting, func(i eni.Interface) bool {
		slot, exact := p.exactSlot(i)
		// A sibling that is to move waits until all are attached.
		if exact && (taken[slot] || held[slot] == p.run.spotOf(i) || slot.Device >= limits.MaxOnCard(slot.Card)) {
			return true
		}
		taken[slot] = taken[slot] || exact
		return false
	})
}

// isLeft reports whether an interface has no object, or one that is let go without it.
func (c *cluster) isLeft(i eni.Interface) bool {
	n := c.api.interfaceWith(types.UID(i.Tags[identity.TagUID]))
	return n == nil || !n.DeletionTimestamp.IsZero() && n.Annotations[v1alpha1.OnDeleteAnnotation] == v1alpha1.OnDeleteKeep
}

// checkUnattachedLimit checks I4 before the call: no interface is created for a node that has the largest allowed
// number of interfaces that never were attached. A process knows those that it created, and those that have existed for
// longer than reads are stale.
func (r *run) checkUnattachedLimit(p *process, m identity.Interface) {
	t := r.truth()
	machine := t.instances[m.InstanceID]
	if machine == nil || r.faults.has(forgottenTokens) || p.cluster.repeats(m) { // EC2 makes no further one
		return
	}
	limits, _ := instancetype.Offline(machine.InstanceType)
	attached := 0
	var waiting []eni.Interface
	for _, i := range t.ordered {
		s := r.spotOf(i)
		switch {
		case i.AttachedTo(m.InstanceID):
			attached++
		case i.Attachment != nil, s.instanceID != m.InstanceID, i.Tags[identity.TagCluster] != p.cluster.name,
			p.cluster.nodeENINamed(s.nodeENI) == nil:
		case p.waitsForPerson(i): // and others need not wait for it
		case p.cluster.isLeft(i): // the collector deletes it, or it stays as a user asked
		case r.watch.seated[i.ID], r.watch.tampered(i.ID), r.now.Sub(r.watch.meddled[i.ID]) <= staleness:
		case r.watch.shaped[i.ID].by == p.name, r.now.Sub(r.watch.made[i.ID]) > staleness:
			waiting = append(waiting, i)
		}
	}
	waiting = p.withSlot(m.InstanceID, limits, waiting)
	r.judged("I4")
	// Interfaces for which the instance has no slot any more wait for a person, and others need not wait for them.
	if roomy := attached+len(waiting) < limits.Interfaces; roomy && len(waiting) >= mostOnTheirWay {
		var ids []string
		for _, i := range waiting {
			ids = append(ids, i.ID)
		}
		r.violate("I4", "%s makes an interface for %s on %s, where %v exist and are not attached", p.name, m.Name,
			m.InstanceID, ids)
	}
}
