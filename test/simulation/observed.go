// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/agent"
)

const (
	// mostObserved is how many pods of attachment Observed share an interface. One starts, and one ends, in one of this
	// many draws.
	mostObserved                = 2
	observedPause, observedTime = 6, 25
)

// observed draws which pods the user's own plugin attaches to interfaces with attachment Observed: they start and end
// without any file of ours. It has a random stream of its own, so that it shifts no other draw.
type observed struct{ random *rand.Rand }

func newObserved(seed uint64) *observed { return &observed{rand.New(rand.NewPCG(seed, 0x0b))} }

func (o *observed) happens(oneIn int) bool { return o.random.IntN(oneIn) == 0 }

// moveObserved at times starts pods on interfaces with attachment Observed, or ends them. A plugin of the user knows
// nothing of closed networks.
func (h *podHost) moveObserved() {
	r := h.c.run
	for _, at := range h.observedNetworks() {
		switch n := len(h.using[at]); {
		case n > 0 && r.observed.happens(observedTime):
			r.note(nil, "%s: a pod of node %s on %s ends", h.c.name, h.node, at)
			r.covers.Actors[endsObserved]++
			h.dropFirst(at)
			h.forgetBrought()
		case n < mostObserved && r.observed.happens(observedPause):
			h.add(at)
		}
	}
}

// startObserved starts a pod on each network with attachment Observed that serves.
func (h *podHost) startObserved() {
	for _, at := range h.observedNetworks() {
		if len(h.using[at]) == 0 && h.letsIn(at) {
			h.add(at)
		}
	}
}

// observedNetworks returns the folders of the networks with attachment Observed whose links the node has.
func (h *podHost) observedNetworks() (all []string) {
	for _, at := range slices.Sorted(maps.Keys(h.files)) {
		if file := h.files[at]; file.Attachment == podnet.Observed && h.hasLink(file.ENI) {
			all = append(all, at)
		}
	}
	return all
}

// letsIn reports whether pods may use a network of the node: its file is open, or the user's plugin attaches pods, and
// the object is not closed.
func (h *podHost) letsIn(at string) bool {
	file := h.files[at]
	if file.Attachment != podnet.Observed {
		return file.IsOpen()
	}
	n := h.c.api.interfaceOf(file.ENI)
	return n != nil && n.DeletionTimestamp.IsZero() && isObserved(n) && !n.Spec.Pods.Closed
}

func isObserved(n *v1alpha1.NetworkInterface) bool {
	return n.Spec.Pods != nil && n.Spec.Pods.Attachment == v1alpha1.PodAttachmentObserved
}

// checkSeen checks I24 for a report that an agent wrote: it holds the interface if a pod has an address within the
// ranges on it, and the address came before the agent read the namespaces. No hold begins on an object that is being
// deleted.
func (h *podHost) checkSeen(report agent.Report, served time.Time) {
	id := report.Interface.Status.ENIID
	since := func(address netip.Addr) bool { return h.cameAt[id+" "+address.String()].Before(served) }
	n := report.Interface
	isFinal := n.Status.Node != nil && !n.DeletionTimestamp.IsZero() && !n.Status.Node.Open
	if isFinal || !h.hasLink(id) || h.lacksObject(id) {
		return
	}
	if address, is := h.holdingAddress(n, since); is && !report.Node.Open {
		h.c.run.violate("I24", "the agent of node %s lets %s go, on which a pod has %s: %s", h.node, id, address,
			objectDigest(n))
	}
}

// holdingAddress returns an address within the ranges of an object that a pod has on its interface, of those that fit.
// An address of the interface itself is none.
func (h *podHost) holdingAddress(n *v1alpha1.NetworkInterface, fits func(netip.Addr) bool) (netip.Addr, bool) {
	id := n.Status.ENIID
	i := h.c.run.truth().interfaces[id]
	for _, address := range slices.SortedFunc(maps.Keys(h.brought[id]), netip.Addr.Compare) {
		h.c.run.judged("I24")
		within := func(r netip.Prefix) bool { return r.Contains(address) }
		isOwn := slices.ContainsFunc(i.IPv4Prefixes, within) || i.PrimaryIPv4 == address
		if slices.ContainsFunc(floatingRanges(n), within) && !isOwn && fits(address) {
			return address, true
		}
	}
	return netip.Addr{}, false
}

// settledHolds checks I24 when all is well: an agent holds an interface with attachment Observed while a pod has an
// address within the ranges on it, and no longer.
func (c *cluster) settledHolds() *Violation {
	for _, n := range c.api.interfaces() {
		h := c.run.pods.hosts[n.Spec.InstanceID]
		if h == nil || !c.hasAgent(n) || !h.hasLink(n.Status.ENIID) || !n.DeletionTimestamp.IsZero() || !isObserved(n) ||
			h.lacksObject(n.Status.ENIID) {
			continue
		}
		c.run.judged("I24")
		_, has := h.holdingAddress(n, func(netip.Addr) bool { return true })
		switch open := n.Status.Node != nil && n.Status.Node.Open; {
		case has && !open:
			return &Violation{"I24", fmt.Sprintf("a pod of node %s has an address on %s, which is not held: %s", h.node,
				n.Status.ENIID, objectDigest(n))}
		case open && !h.isUsed(n.Status.ENIID):
			return &Violation{"I24", fmt.Sprintf("nothing of node %s uses %s, which is held: %s", h.node, n.Status.ENIID,
				objectDigest(n))}
		}
	}
	return nil
}

// isUsed reports whether a pod, a lease or a driver uses an interface on the node.
func (h *podHost) isUsed(id string) bool {
	for at := range h.leases {
		if h.files[at].ENI == id && len(h.leases[at]) > 0 {
			return true
		}
	}
	for _, pods := range h.using {
		if slices.ContainsFunc(pods, func(p runningPod) bool { return p.eni == id }) {
			return true
		}
	}
	return h.bound[id]
}
