// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
)

// programTime is how long, in draws of one in this many, a program drives a device.
const programTime = 12

// moveDevices at times lets a program start to drive a device that is bound for user space, or end.
func (h *podHost) moveDevices() {
	p := h.c.run.pods
	for _, n := range h.c.api.interfaces() {
		id := n.Status.ENIID
		switch {
		case id == "":
		case !h.hasLink(id):
			delete(h.bound, id)
			delete(h.driven, id)
		case !h.bound[id]:
		case h.driven[id] && p.happens(programTime):
			delete(h.driven, id)
		case !h.driven[id] && n.DeletionTimestamp.IsZero() && p.happens(4):
			h.driven[id] = true
			h.c.run.covers.Actors[drivesDevice]++
			h.c.run.note(nil, "%s: a program of node %s drives %s", h.c.name, h.node, id)
		}
	}
}

// endPrograms lets users end all programs.
func (h *podHost) endPrograms() { clear(h.driven) }

// bind gives a device its driver for user space, or that of the kernel.
func (h *podHost) bind(id string, userSpace bool) {
	if h.bound[id] == userSpace {
		return
	}
	h.c.run.note(nil, "%s: the agent of node %s binds %s: %t", h.c.name, h.node, id, userSpace)
	if h.bound[id] = userSpace; userSpace {
		h.c.run.covers.Actors[bindsDevice]++
	} else {
		delete(h.bound, id)
		delete(h.driven, id)
	}
}

// taking checks that no interface is detached from a running instance while its device has a driver for user space: a
// program can drive it.
func (r *run) taking(p *process, q request, i eni.Interface) {
	if !strings.HasPrefix(q.action, "Detach") || !i.Ready() || p.expired || r.truth().ended(i.Attachment.InstanceID) {
		return
	}
	host := r.pods.hosts[i.Attachment.InstanceID]
	if host == nil {
		return
	}
	r.judged("I1")
	if host.bound[i.ID] {
		r.violate("I1", "%s %s %s, whose device is bound for programs of node %s: %s", p.name, q.action, q.target, host.node,
			r.describe(i))
	}
}
