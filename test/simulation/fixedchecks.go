// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/multieni/multieni/api/v1alpha1"
)

// checkFixed checks I20 after each step: a node has at most one lease in use and one running pod of each granted
// address, and EC2 has the address on one interface. It records which pods EC2 delivers their addresses to.
func (r *run) checkFixed() {
	at := map[netip.Addr][]string{}
	for _, i := range r.truth().ordered {
		for _, address := range i.SecondaryIPv4 {
			at[address] = append(at[address], i.ID)
		}
	}
	for _, instance := range slices.Sorted(maps.Keys(r.pods.hosts)) {
		r.pods.hosts[instance].checkFixed()
	}
	r.noteServed(at)
}

func (h *podHost) checkFixed() {
	r, leased, has := h.c.run, map[netip.Addr]string{}, map[netip.Addr]string{}
	for _, network := range slices.Sorted(maps.Keys(h.leases)) {
		for _, l := range h.leases[network] {
			if !l.InUse() || !h.c.grantsFixed(l.Address) || r.inPrefix(network, l.Address) {
				continue
			}
			r.judged("I20")
			if other, twice := leased[l.Address]; twice {
				r.violate("I20", "node %s has two leases of %s: %s of network %s, and one of network %s", h.node, l.Address,
					l.ContainerID, network, other)
			}
			leased[l.Address] = network
		}
	}
	for _, network := range slices.Sorted(maps.Keys(h.using)) {
		for _, pod := range h.using[network] {
			if pod.fixed == nil {
				continue
			}
			if other, twice := has[pod.fixed.address]; twice {
				r.violate("I20", "both %s and %s of node %s have %s", other, pod.fixed.uid, h.node, pod.fixed.address)
			}
			has[pod.fixed.address] = pod.fixed.uid
		}
	}
}

// inPrefix reports whether an address is in a prefix of the interface of a network: EC2 gives blocks away whose
// reservation a person deleted.
func (r *run) inPrefix(network string, address netip.Addr) bool {
	_, id, _ := strings.Cut(network, "/")
	prefixes := r.truth().interfaces[id].IPv4Prefixes
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(address) })
}

// noteServed records the newest pod of each granted address to which EC2 delivers it, and forgets pods that do not have
// it any more. A pod whose interface was detached has lost its link.
func (r *run) noteServed(at map[netip.Addr][]string) {
	for address, p := range r.fixed.served {
		if !p.hasLeased(address) {
			delete(r.fixed.served, address)
		}
	}
	for _, c := range r.clusters {
		for address, on := range at {
			if !c.grantsFixed(address) {
				continue
			}
			if len(on) > 1 {
				r.violate("I20", "EC2 has %s on %v", address, on)
			}
			p := r.fixedOn(on[0], address)
			if p != nil && p.held && (r.fixed.served[address] == nil || r.fixed.served[address].number < p.number) {
				r.fixed.served[address] = p
			}
		}
	}
}

// hasLeased reports whether a pod runs on an attached interface, with a lease of the address.
func (p *fixedPod) hasLeased(address netip.Addr) bool {
	if p.address != address || !p.running() || p.host.c.run.truth().ended(p.host.instance) || !p.host.hasLink(p.eni) {
		return false
	}
	return p.host.isLeased(p.folder, address)
}

func (h *podHost) isLeased(network string, address netip.Addr) bool {
	for _, l := range h.leases[network] {
		if l.Address == address && l.InUse() && !l.Unreadable {
			return true
		}
	}
	return false
}

// noteHeld records that the agent made the pod of a lease the holder. A lease is one of its network, whose interface
// can be another one than when the pod started.
func (h *podHost) noteHeld(address netip.Addr, holder v1alpha1.AddressHolder) {
	if holder.Pod == "" {
		return
	}
	h.noteBrought(holder.ENIID, address)
	for network, pods := range h.using {
		for _, pod := range pods {
			if pod.hasFixed(address) && h.files[network].ENI == holder.ENIID && h.isLeased(network, address) {
				pod.fixed.held = true
			}
		}
	}
}

// fixedOn returns the pod that has a granted address on an interface; nil for none.
func (r *run) fixedOn(id string, address netip.Addr) *fixedPod {
	for _, h := range r.pods.hosts {
		for _, pods := range h.using {
			for _, pod := range pods {
				if pod.fixed != nil && pod.eni == id && pod.fixed.hasLeased(address) {
					return pod.fixed
				}
			}
		}
	}
	return nil
}

// leasesFixed reports whether the node has a lease of a granted address on an interface.
func (h *podHost) leasesFixed(id string, address netip.Addr) bool {
	for network, file := range h.files {
		if file.ENI == id && h.c.grantsFixed(address) && h.isLeased(network, address) {
			return true
		}
	}
	return false
}

// takingBack checks I20 for calls: EC2 moves no address from the newest pod that has had it to an earlier pod.
func (r *run) takingBack(p *process, to string, address netip.Addr) {
	newest, earlier := r.fixed.served[address], r.fixedOn(to, address)
	if newest == nil || earlier == nil || p.expired {
		return
	}
	r.judged("I20")
	if earlier.number < newest.number && newest.hasLeased(address) {
		r.violate("I20", "%s moves %s to %s of node %s, and the newer %s of node %s has it", p.name, address, earlier.uid,
			earlier.host.node, newest.uid, newest.host.node)
	}
}

// succeeding checks I20 for the writes of agents: no agent makes an earlier pod the holder in place of a newer one.
func (r *run) succeeding(before, after *v1alpha1.FloatingAddress) {
	from, to := before.Status.Holder, after.Status.Holder
	address := netip.MustParseAddr(after.Spec.Address)
	if from == nil || to == nil || from.ENIID == to.ENIID {
		return
	}
	newer, earlier := r.fixedOn(from.ENIID, address), r.fixedOn(to.ENIID, address)
	if newer == nil || !newer.held || earlier == nil {
		return
	}
	r.judged("I20")
	if earlier.number < newer.number {
		r.violate("I20", "the agent of node %s makes %s the holder of %s in place of the newer %s of node %s", to.NodeName,
			earlier.uid, address, newer.uid, from.NodeName)
	}
}

// settledFixed checks I20 when all is well: EC2 has the address of each pod on the interface of the pod.
func (c *cluster) settledFixed() *Violation {
	r := c.run
	for _, key := range slices.Sorted(maps.Keys(r.fixed.last)) {
		p := r.fixed.last[key]
		if p.host.c != c || p.deleted || !p.hasLeased(p.address) || !c.servesFixed(p) {
			continue
		}
		r.judged("I20")
		i := r.truth().interfaces[p.eni]
		object := c.holding(p.eni, p.address)
		if slices.Contains(i.SecondaryIPv4, p.address) && object != nil && object.Status.Holder != nil &&
			object.Status.Holder.ENIID == p.eni {
			continue
		}
		if cannotFollow(r.truth().ordered, p.address, object) {
			continue
		}
		return &Violation{"I20", fmt.Sprintf("%s of node %s has %s, and EC2 does not deliver it to %s: %s", p.uid,
			p.host.node, p.address, r.describe(i), holdingDigest(object))}
	}
	return nil
}

// servesFixed reports whether the product can deliver an address to a pod: the object of the interface stays, and the
// ranges contain the address.
func (c *cluster) servesFixed(p *fixedPod) bool {
	n := c.api.interfaceOf(p.eni)
	if n == nil || c.run.watch.tampered(p.eni) || n.Spec.InstanceID != p.host.instance ||
		n.Spec.NodeName != p.host.node || !n.DeletionTimestamp.IsZero() || n.Spec.Pods == nil || n.Spec.Pods.Closed {
		return false
	}
	_, is := c.claims()[spotOfObject(n)]
	return is && slices.ContainsFunc(floatingRanges(n), func(r netip.Prefix) bool { return r.Contains(p.address) })
}
