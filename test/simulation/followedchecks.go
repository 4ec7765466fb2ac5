// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/floating"
)

// floats reports whether an address is in a range that the cluster's NodeENIs declare.
func (c *cluster) floats(address netip.Addr) bool {
	return c.grantsFixed(address) || slices.ContainsFunc(c.floatingRanges(29), func(text string) bool {
		return netip.MustParsePrefix(text).Contains(address)
	})
}

// moving checks I18: a call moves only an address within declared ranges that a pod on the interface brought up, and to
// the holder that the API server has, or to one that it had when the call began. A process moves an address at most
// every [floating.MoveInterval].
func (r *run) moving(p *process, q request) {
	for _, address := range q.reassigns {
		r.judged("I18")
		if !p.cluster.floats(address) || !r.followers.brought[q.target][address] {
			r.violate("I18", "%s moves %s to %s, where no pod brought it up within the declared ranges", p.name,
				address, q.target)
		}
		if object := p.cluster.holding(q.target, address); !p.expired && !p.cluster.wasHolder(object, q.target) {
			r.violate("I18", "%s moves %s to %s, which has not been its holder for long: %s", p.name, address, q.target,
				holdingDigest(object))
		}
		if last, moved := r.followers.moved[p.name+" "+address.String()]; moved &&
			r.now.Sub(last) < floating.MoveInterval {
			r.violate("I18", "%s moves %s to %s, %s after its last move", p.name, address, q.target, seconds(r.now.Sub(last)))
		}
		r.takingBack(p, q.target, address)
		r.followers.assigned[q.target+" "+address.String()] = true
	}
	for _, address := range q.unassigns.SecondaryIPv4 {
		object := p.cluster.holding(q.target, address)
		if p.cluster.holdsStill(object, q.target) && !p.expired && r.hasBrought(q.target, address) {
			r.violate("I18", "%s unassigns %s from %s, where a pod has it", p.name, address, q.target)
		}
	}
}

// wasHolder reports whether an interface is the holder of an address, or was the last one before, while a call that
// names it can be under way.
func (c *cluster) wasHolder(object *v1alpha1.FloatingAddress, id string) bool {
	return object == nil || object.Status.Holder == nil || object.Status.Holder.ENIID == id ||
		c.run.now.Sub(c.run.followers.heldSince[c.name+" "+object.Name]) <= plannedBefore
}

// moved records the moves that EC2 accepted, as a process knows them.
func (r *run) moved(p *process, q request, err error) {
	for _, address := range q.reassigns {
		if err == nil {
			r.followers.moved[p.name+" "+address.String()] = r.now
		}
	}
}

// isLast reports whether no other interface should have an address: the last one on which an agent wrote that it came
// up should, while a pod has it there.
func (c *cluster) isLast(name, id string, address netip.Addr) bool {
	last, known := c.run.followers.arrived[c.name+" "+name]
	return !known || last == id || !c.run.hasBrought(last, address)
}

// noteEndOf notes that an address has no object any more. It stays on an interface whose tags another program changed
// meanwhile: the product touches none without the cluster's tags. The product may not have read restored tags yet.
func (r *run) noteEndOf(object *v1alpha1.FloatingAddress) {
	for _, id := range controller.InterfacesOf(object) {
		restored := r.faults.off && r.now.Sub(r.watch.meddled[id]) <= staleness
		if restored || r.watch.tampered(id) {
			delete(r.followers.assigned, id+" "+object.Spec.Address)
		}
	}
}

// hasBrought reports whether a pod has an address on an interface.
func (r *run) hasBrought(id string, address netip.Addr) bool {
	i, exists := r.truth().interfaces[id]
	if !exists || i.Attachment == nil {
		return false
	}
	host := r.pods.hosts[i.Attachment.InstanceID]
	return host != nil && (host.brought[id][address] || host.leasesFixed(id, address))
}

// checkFollowed checks that each address that pods have is on the interface of one of them, which is its holder and the
// last one on which it came up, and that nothing is left of an address that no pod has. The holder can be an interface
// without tags, which is not among the claimants.
func (c *cluster) checkFollowed() *Violation {
	claimants := c.claimants()
	at := map[netip.Addr]string{}
	for _, i := range c.run.truth().ordered {
		for _, address := range i.SecondaryIPv4 {
			at[address] = i.ID
		}
	}
	for _, address := range slices.SortedFunc(maps.Keys(claimants), netip.Addr.Compare) {
		c.run.judged("I18")
		object := c.holding(claimants[address][0], address)
		if cannotFollow(c.run.truth().ordered, address, object) {
			continue
		}
		if object == nil || object.Status.Holder == nil || object.Status.Holder.ENIID != at[address] ||
			!c.run.hasBrought(at[address], address) || !c.isLast(object.Name, at[address], address) {
			return &Violation{"I18", fmt.Sprintf("%s is on %q, and pods have it on %v: %s", address, at[address],
				claimants[address], holdingDigest(object))}
		}
	}
	for _, object := range c.api.all(floatingAddresses) {
		address := object.(*v1alpha1.FloatingAddress)
		holder := address.Status.Holder
		if holder != nil && c.lacksAgent(holder.ENIID) {
			continue
		}
		if holder == nil || !c.run.hasBrought(holder.ENIID, netip.MustParseAddr(address.Spec.Address)) {
			return &Violation{"I18", fmt.Sprintf("no pod has %s, and its object is there: %s", address.Name,
				holdingDigest(address))}
		}
	}
	return c.checkLeftAddresses(at)
}

// cannotFollow reports whether EC2 moves an address nowhere: a prefix has it, and pods can get it from there, or EC2
// chose it for another interface, and its object says so.
func cannotFollow(all []eni.Interface, address netip.Addr, object *v1alpha1.FloatingAddress) bool {
	return inPrefix(all, address) || isPrimaryOfAny(all, address) && saysRefused(object)
}

// lacksAgent reports whether no Node names the instance of an interface, so that no agent can say that its pods ended.
func (c *cluster) lacksAgent(id string) bool {
	i, exists := c.run.truth().interfaces[id]
	return exists && i.Attachment != nil && len(c.nodesOf(i.Attachment.InstanceID)) == 0
}

// checkLeftAddresses checks that EC2 has no address that a process assigned and that has no object.
func (c *cluster) checkLeftAddresses(at map[netip.Addr]string) *Violation {
	wanted := c.claims()
	for _, address := range slices.SortedFunc(maps.Keys(at), netip.Addr.Compare) {
		id := at[address]
		i := c.run.truth().interfaces[id]
		_, served := wanted[c.run.spotOf(i)]
		ours := c.run.followers.assigned[id+" "+address.String()] && !slices.Contains(c.run.foreign.on[id], address)
		if ours && served && !c.run.watch.tampered(id) && c.holding(id, address) == nil {
			return &Violation{"I18", fmt.Sprintf("%s has %s, and no pod holds it", id, address)}
		}
	}
	return nil
}

func holdingDigest(object *v1alpha1.FloatingAddress) string {
	if object == nil {
		return "it has no object"
	}
	holder := "no pod"
	if object.Status.Holder != nil {
		holder = object.Status.Holder.NodeName + " " + object.Status.Holder.ENIID
	}
	return "held by " + holder + ", " + assignmentDigest(object.Status)
}

func inPrefix(all []eni.Interface, address netip.Addr) bool {
	return slices.ContainsFunc(all, func(i eni.Interface) bool {
		return slices.ContainsFunc(i.IPv4Prefixes, func(p netip.Prefix) bool { return p.Contains(address) })
	})
}

// claimants returns the interfaces on which pods have an address within the ranges of the interface. An interface that
// must be removed, or is retained, stays as it is.
func (c *cluster) claimants() map[netip.Addr][]string {
	wanted, all := c.claims(), map[netip.Addr][]string{}
	for _, n := range c.api.interfaces() {
		i, exists := c.run.truth().interfaces[n.Status.ENIID]
		_, is := wanted[spotOfObject(n)]
		if !exists || !is || c.run.watch.tampered(i.ID) || !n.DeletionTimestamp.IsZero() || i.Attachment == nil ||
			c.run.pods.hosts[i.Attachment.InstanceID] == nil {
			continue
		}
		host := c.run.pods.hosts[i.Attachment.InstanceID]
		ranges := floatingRanges(n)
		for address := range host.brought[i.ID] {
			declared := slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(address) })
			if host.node == n.Spec.NodeName && declared {
				all[address] = append(all[address], i.ID)
			}
		}
	}
	return all
}

// floatingRanges returns the ranges in which addresses of an object follow pods.
func floatingRanges(n *v1alpha1.NetworkInterface) (ranges []netip.Prefix) {
	if n.Spec.Pods == nil {
		return nil
	}
	for _, text := range n.Spec.Pods.Floating {
		if r, err := netip.ParsePrefix(text); err == nil {
			ranges = append(ranges, r)
		}
	}
	return ranges
}
