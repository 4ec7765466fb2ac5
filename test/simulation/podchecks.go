// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/podnet"
)

// mayUseAll reports whether pods may use any address of an interface: a pod has the whole interface, or pods bring up
// addresses on one that agents only observe.
func (r *run) mayUseAll(id string) bool {
	for _, h := range r.pods.hosts {
		if h.hasWhole(id) || h.observes(id) && len(h.brought[id]) > 0 {
			return true
		}
	}
	return false
}

// interrupting checks I16: no interface is detached under a pod.
func (r *run) interrupting(p *process, q request, i eni.Interface) {
	if !strings.HasPrefix(q.action, "Detach") || i.Attachment == nil || p.expired {
		return
	}
	host := r.pods.hosts[i.Attachment.InstanceID]
	if host == nil || r.truth().ended(host.instance) {
		return
	}
	r.judged("I16")
	for at, pods := range host.using {
		if slices.ContainsFunc(pods, func(p runningPod) bool { return p.eni == i.ID && host.uses(p) }) {
			r.violate("I16", "%s %s %s, which a pod of %s uses: %s", p.name, q.action, q.target, at, r.describe(i))
		}
	}
}

// uses reports whether the agent had to keep an interface for a pod. With attachment Observed the agent knows a pod by
// the addresses within the ranges. A pod can bring one up at any time, so also while the interface is being detached.
func (h *podHost) uses(p runningPod) bool {
	if p.holder.Attachment != podnet.Observed {
		return true
	}
	drained, is := h.drainedAt[p.eni]
	for address := range h.brought[p.eni] {
		if h.follows(p.eni, address) && (!is || h.cameAt[p.eni+" "+address.String()].Before(drained)) {
			return true
		}
	}
	return false
}

// follows reports whether the agent must know that a pod has an address on an interface: it follows the object, which
// names the interface, or a range of the interface contains the address. The object can be about another interface of
// the node alone.
func (h *podHost) follows(id string, address netip.Addr) bool {
	object := h.c.holding(id, address)
	if !h.book.followed[v1alpha1.FloatingAddressName(h.c.run.truth().interfaces[id].SubnetID, address.String())] {
		return false
	}
	if object != nil && slices.Contains(controller.InterfacesOf(object), id) {
		return true
	}
	n := h.c.api.interfaceOf(id)
	return n != nil && slices.ContainsFunc(floatingRanges(n), func(r netip.Prefix) bool { return r.Contains(address) })
}

// noteLetGo records since when an agent does not hold an interface: since it read what pods have.
func (h *podHost) noteLetGo(id string, open bool, served time.Time) {
	_, was := h.drainedAt[id]
	switch {
	case open && was:
		delete(h.drainedAt, id)
		h.openedAt[id] = h.c.run.now
	case !open && !was:
		h.drainedAt[id] = served
	}
}
