// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
)

// hold is a device that a program in user space drives, as the agent of its node reports.
type hold struct {
	state string
	// version is that of the API server at which the agent reported it.
	version int
}

// agents adds what the agents on the nodes could do now: bind devices for user space, and release them.
func (c *cluster) agents(add func(int, func())) {
	for _, object := range c.api.all(states) {
		state := object.(*v1alpha1.NodeENIState)
		links := c.boundLinks(state)
		if slices.EqualFunc(links, state.Status.Links, func(a, b v1alpha1.LinkState) bool { return a.ENIID == b.ENIID }) {
			continue
		}
		add(1, func() {
			if len(links) > len(state.Status.Links) {
				c.run.covers.Actors[bindsDevice]++
			}
			c.run.note(nil, "%s: the agent of node %s has %d devices in user space", c.name, state.Name, len(links))
			_, _ = c.api.update(states, state.Name, "", func(o client.Object) (client.Object, error) {
				o.(*v1alpha1.NodeENIState).Status.Links = links
				return o, nil
			})
		})
	}
}

// boundLinks are the devices that an agent has bound for user space once it has done all that its state asks for. It
// releases a device before the interface is detached.
func (c *cluster) boundLinks(state *v1alpha1.NodeENIState) []v1alpha1.LinkState {
	var links []v1alpha1.LinkState
	t := c.run.truth()
	for _, said := range state.Status.Interfaces {
		i := t.interfaces[said.ENIID]
		if !i.Ready() || t.ended(i.Attachment.InstanceID) || said.DPDKDriver == "" {
			continue
		}
		was := slices.ContainsFunc(state.Status.Links, func(l v1alpha1.LinkState) bool { return l.ENIID == i.ID })
		leaving := said.Phase == v1alpha1.PhaseDetaching || said.Phase == v1alpha1.PhaseDeleting
		if said.Phase == v1alpha1.PhaseAttached || was && !leaving {
			links = append(links, v1alpha1.LinkState{
				MACAddress: i.MAC, NodeENI: said.NodeENI, ENIID: i.ID, State: v1alpha1.LinkBound, Reason: "Bound",
			})
		}
	}
	return links
}

// noteHolds records the version of the API server at which agents reported that they hold devices.
func (r *run) noteHolds(c *cluster, change change) {
	before := r.watch.held
	if change.before != nil {
		before = r.forgetHolds(c, change.before.GetName())
	}
	if change.after == nil {
		return
	}
	for _, link := range change.after.(*v1alpha1.NodeENIState).Status.Links {
		key, version := c.name+link.ENIID, change.version
		if was, is := before[key]; is && was.state == change.after.GetName() {
			version = was.version
		}
		r.watch.held[key] = hold{change.after.GetName(), version}
	}
}

// forgetHolds removes the record of what the agent of a node holds, and returns it.
func (r *run) forgetHolds(c *cluster, state string) map[string]hold {
	forgotten := map[string]hold{}
	for key, held := range r.watch.held {
		if held.state == state && strings.HasPrefix(key, c.name) {
			forgotten[key] = held
			delete(r.watch.held, key)
		}
	}
	return forgotten
}

// pulling checks that no interface is detached from a running instance while the process knows that a program drives
// its device.
func (r *run) pulling(p *process, q request, i eni.Interface) {
	held, is := r.watch.held[p.cluster.name+i.ID]
	if !is || !strings.HasPrefix(q.action, "Detach") || !i.Ready() ||
		r.truth().ended(i.Attachment.InstanceID) || p.expired {
		return
	}
	its := p.cluster.nodesOf(i.Attachment.InstanceID)
	if len(its) == 0 || its[0].Name != held.state {
		return // the state of another Node says nothing about the instance
	}
	r.judged("I1")
	if held.version <= p.views[len(p.views)-1] {
		r.violate("I1", "%s %s %s, which a program on node %s drives since version %d, and the process has seen all of %d: "+
			"%s",
			p.name, q.action, q.target, held.state, held.version, p.views[len(p.views)-1], describe(i))
	}
}
