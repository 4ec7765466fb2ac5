// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"strings"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
)

// replacement is a live interface that a process detached to create it again, and that has no successor yet.
type replacement struct {
	desiredSlot
	by string
}

// replaceable reports whether updatePolicy: Replace is a reason to detach an interface: it differs from its NodeENI in
// the subnet, which EC2 ties to an interface, or the slot, which EC2 ties to its attachment. It is computed
// independently of the product, so that an error in the product's computation of drift becomes visible.
func (c *cluster) replaceable(nodeENI *v1alpha1.NodeENI, i eni.Interface) bool {
	its := c.nodesOf(spotOf(i).instanceID)
	if nodeENI.Spec.UpdatePolicy != v1alpha1.UpdateReplace || len(its) == 0 {
		return false
	}
	at := slices.Index(subnetsIn(zoneOf(its[0]), nodeENI.Spec.SubnetIDs, nodeENI.Spec.SubnetNames), i.SubnetID)
	if at < 0 {
		return true
	}
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
func (c *cluster) couldReplace(nodeENI *v1alpha1.NodeENI, i eni.Interface) bool {
	if i.Attachment == nil || !c.replaceable(nodeENI, i) {
		return false
	}
	its := c.nodesOf(spotOf(i).instanceID)
	at := slices.Index(subnetsIn(zoneOf(its[0]), nodeENI.Spec.SubnetIDs, nodeENI.Spec.SubnetNames), i.SubnetID)
	holder := c.run.truth().holder(i.Attachment.InstanceID, slotOf(nodeENI, max(at, 0)))
	return holder == "" || holder == i.ID || nodeENI.Spec.DeviceIndexPolicy != v1alpha1.DeviceIndexExact
}

// replacing checks that at most one interface of a node is replaced at a time, and on at most maxUnavailable nodes. A
// process knows its own actions; those of another one can be unknown to it.
func (r *run) replacing(p *process, q request, i eni.Interface) {
	s := spotOf(i)
	nodeENI := p.cluster.nodeENIOf(s.uid)
	if nodeENI == nil || !strings.HasPrefix(q.action, "Detach") || !i.Ready() || !p.cluster.onlyReplaced(nodeENI, i) {
		return
	}
	if !anySelected(nodeENI, nodesIn(p.informers.known(nodes), s.instanceID)) {
		return // the process removes the interface: it has not received yet that a label selects the node again
	}
	r.judged("I1")
	r.noteSuccessors() // time may have passed since the last event
	others := map[string]bool{}
	for id, other := range r.watch.replaced {
		if id == i.ID || other.by != p.name {
			continue
		}
		if other.instanceID == s.instanceID {
			r.violate("I1", "%s replaces %s while %s of the same instance has no successor yet: %s", p.name, i.ID,
				id, describe(i))
		}
		if other.uid == s.uid {
			others[other.instanceID] = true
		}
	}
	if most := p.maxUnavailable(nodeENI); len(others) >= most {
		r.violate("I1", "%s replaces %s while %d other nodes lack an interface of that NodeENI, and maxUnavailable is %d: %s",
			p.name, i.ID, len(others), most, describe(i))
	}
	r.watch.replaced[i.ID] = replacement{s, p.name}
}

// onlyReplaced reports whether the update policy of its NodeENI is the only reason to detach an interface.
func (c *cluster) onlyReplaced(nodeENI *v1alpha1.NodeENI, i eni.Interface) bool {
	inPlace := nodeENI.DeepCopy()
	inPlace.Spec.UpdatePolicy = v1alpha1.UpdateInPlace
	return c.replaceable(nodeENI, i) && !c.removableFor(inPlace, i)
}

// maxUnavailable is how many nodes may lack an interface for a replacement, by the true state or by that which the
// process has received.
func (p *process) maxUnavailable(nodeENI *v1alpha1.NodeENI) int {
	most := max(1, int(nodeENI.Spec.MaxUnavailable))
	for _, known := range p.informers.known(nodeENIs) {
		if known.GetUID() == nodeENI.UID {
			most = max(most, int(known.(*v1alpha1.NodeENI).Spec.MaxUnavailable))
		}
	}
	return most
}

// noteSuccessors forgets the replacements after which a NodeENI has all of its interfaces on the instance again, or
// desires none.
func (r *run) noteSuccessors() {
	if len(r.watch.replaced) == 0 {
		return
	}
	whole := map[desiredSlot]int{}
	for _, i := range r.truth().ordered {
		if s := spotOf(i); i.Ready() && i.AttachedTo(s.instanceID) {
			whole[s]++
		}
	}
	for _, c := range r.clusters {
		claims := c.claims()
		for s, claim := range claims {
			whole[s] += len(c.adoptedBy(s, claim))
		}
		for id, one := range r.watch.replaced {
			if !strings.HasPrefix(one.by, c.name+"/") {
				continue
			}
			if claim, wanted := claims[one.desiredSlot]; !wanted || whole[one.desiredSlot] >= len(claim.subnets) {
				delete(r.watch.replaced, id)
			}
		}
	}
}
