// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"maps"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/multieni/multieni/internal/core/podnet"
)

// checkHolds checks I24: what can use an interface on a node implies that the API server has the hold, on the object of
// the interface, and each prefix that pods can get an address of is granted and not released. The checkpoint has
// nothing that was let go or released. It does not hold for an interface that lost its object, until an agent has
// answered for the next one.
func (c *cluster) checkHolds() {
	for _, instance := range slices.Sorted(maps.Keys(c.run.pods.hosts)) {
		if h := c.run.pods.hosts[instance]; h.c == c && !c.run.truth().ended(instance) {
			h.checkHolds()
		}
	}
}

func (h *podHost) checkHolds() {
	for _, at := range slices.Sorted(maps.Keys(h.files)) {
		if file := h.files[at]; file.IsOpen() && file.Attachment != podnet.Observed && !h.lost[at] {
			h.mustHold(file.ENI, "its file is open")
			h.mustBeUsable(file)
		}
	}
	h.checkPodHolds()
	for _, id := range slices.Sorted(maps.Keys(h.bound)) {
		if h.noteForgotten(id); !h.forgotten[id] && h.hasLink(id) {
			h.mustHold(id, "its device is bound")
		}
	}
	if h.checkpoint != nil {
		for _, saved := range h.checkpoint.Held {
			h.mustHold(saved.ENI, "the checkpoint has it")
		}
	}
}

// checkPodHolds checks the holds for leases and for the pods that run.
func (h *podHost) checkPodHolds() {
	for _, at := range slices.Sorted(maps.Keys(h.leases)) {
		for _, l := range h.leases[at] {
			if l.InUse() && l.BootID == h.boot.ID && !l.Unreadable {
				h.mustHold(h.files[at].ENI, "a pod has a lease of "+l.Address.String())
			}
		}
	}
	for _, at := range slices.Sorted(maps.Keys(h.using)) {
		for _, pod := range h.using[at] {
			if pod.holder.Attachment != podnet.Observed && h.hasLink(pod.eni) {
				h.mustHold(pod.eni, pod.holder.Pod+" uses it")
			}
		}
	}
}

// lacksObject reports whether an interface lost its object, or was changed by a person.
func (h *podHost) lacksObject(id string) bool {
	w := &h.c.run.watch
	_, exists := h.c.run.truth().interfaces[id]
	return !exists || !w.torn[id].IsZero() || w.tampered(id) || h.c.run.now.Sub(w.meddled[id]) <= staleness
}

func (h *podHost) mustHold(id, why string) {
	if id == "" || h.lacksObject(id) {
		return
	}
	h.c.run.judged("I24")
	n := h.c.api.interfaceOf(id)
	if n == nil || n.Status.Node == nil || !n.Status.Node.Open {
		h.c.run.violate("I24", "%s of node %s: %s, and no object has the hold: %s", id, h.node, why,
			h.c.run.describe(h.c.run.truth().interfaces[id]))
	}
}

func (h *podHost) mustBeUsable(file podnet.Network) {
	n := h.c.api.interfaceOf(file.ENI)
	if n == nil || h.lacksObject(file.ENI) {
		return
	}
	// A rebooted agent opens the file of its checkpoint before it reads that the object was lost.
	if _, ended := h.c.run.watch.endedAt[types.UID(file.UID)]; ended && file.UID != string(n.UID) {
		return
	}
	usable := n.UsablePrefixes()
	for _, prefix := range slices.Concat(prefixesOf(file.IPv4), prefixesOf(file.IPv6)) {
		if !slices.Contains(usable, prefix.String()) {
			h.c.run.violate("I24", "the file of %s on node %s has %s, and the object grants %v", file.ENI, h.node, prefix,
				usable)
		}
	}
}

func prefixesOf(family *podnet.Family) []netip.Prefix {
	if family == nil {
		return nil
	}
	return family.Prefixes
}
