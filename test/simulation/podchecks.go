// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// heldForPods reports whether an interface may have pods that no agent can report: the state of its Node is that of
// another instance, or no Node names the instance any more and a state under a former name waits, or the NodeENI says
// that no state reports the interface.
func (c *cluster) heldForPods(i eni.Interface) bool {
	if i.Attachment == nil || !c.run.pods.excused {
		return false
	}
	host := c.run.pods.hosts[i.Attachment.InstanceID]
	if host == nil || host.c != c {
		return false
	}
	if len(c.nodesOf(host.instance)) == 0 && c.waitsWithoutNode(host, i) {
		return true
	}
	state := c.state(host.node)
	if state == nil || state.Spec.InstanceID == host.instance {
		return false
	}
	told := slices.ContainsFunc(state.Status.Interfaces, func(said v1alpha1.InterfaceState) bool {
		return said.ENIID == i.ID && said.Pods != nil && said.Pods.Draining || waitsForUser(said, i)
	})
	return told || !c.run.truth().ended(state.Spec.InstanceID)
}

// waitsWithoutNode reports whether an interface of a host that no Node names waits for a user: a state under a former
// name says so, or the NodeENI that is being deleted.
func (c *cluster) waitsWithoutNode(host *podHost, i eni.Interface) bool {
	former := func(object client.Object) bool {
		return object.GetName() != host.node && slices.ContainsFunc(object.(*v1alpha1.NodeENIState).Status.Interfaces,
			func(said v1alpha1.InterfaceState) bool { return waitsForUser(said, i) })
	}
	return slices.ContainsFunc(c.api.all(states), former) || c.saysUnreported(i)
}

// waitsForUser reports whether a state says that only a user can end the wait for the pods of an interface.
func waitsForUser(said v1alpha1.InterfaceState, i eni.Interface) bool {
	return said.ENIID == i.ID && strings.Contains(said.Message, "terminate the instance")
}

// saysUnreported reports whether a NodeENI that is being deleted says that no state reports some of its interfaces, and
// no state reports this one.
func (c *cluster) saysUnreported(i eni.Interface) bool {
	nodeENI := c.nodeENIOf(spotOf(i).uid)
	if nodeENI == nil || nodeENI.DeletionTimestamp.IsZero() {
		return false
	}
	for _, object := range c.api.all(states) {
		if slices.ContainsFunc(object.(*v1alpha1.NodeENIState).Status.Interfaces,
			func(said v1alpha1.InterfaceState) bool { return said.ENIID == i.ID }) {
			return false
		}
	}
	ready := apimeta.FindStatusCondition(nodeENI.Status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Reason == v1alpha1.ReasonUnreported
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
	its := host.c.nodesOf(host.instance)
	if len(its) == 0 || its[0].Name != host.node {
		return // the instance has no state, so its agent can report nothing
	}
	if host.c.isStripped(spotOf(i).uid) && host.c.api.get(states, host.node) == nil {
		return // neither a NodeENI nor a state says that it is a pod network
	}
	r.judged("I16")
	for network, pods := range host.using {
		if slices.ContainsFunc(pods, func(p runningPod) bool { return p.eni == i.ID && host.uses(p) }) {
			r.violate("I16", "%s %s %s, which a pod of network %s uses: %s", p.name, q.action, q.target, network, describe(i))
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
	return h.observed != nil && slices.ContainsFunc(h.observed.Status.Interfaces, func(i v1alpha1.InterfaceState) bool {
		return i.ENIID == id && slices.ContainsFunc(controller.FloatingRanges(i.Pods), func(r netip.Prefix) bool {
			return r.Contains(address)
		})
	})
}

// noteDrained records since when the agent reports interfaces as drained.
func (h *podHost) noteDrained(reports []v1alpha1.PodNetworkState) {
	before := h.drainedAt
	h.drainedAt = map[string]time.Time{}
	for _, report := range reports {
		if !report.Drained {
			continue
		}
		h.drainedAt[report.ENIID] = h.c.run.now
		if since, was := before[report.ENIID]; was {
			h.drainedAt[report.ENIID] = since
		}
	}
}
