// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostpci"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/agent"
)

const (
	// programTime is how long, in draws of one in this many, a program drives a device, and programPause how long none
	// does.
	programTime, programPause = 12, 6
	// betweenDrivers is how often, in draws of one in this many, a process of an agent ends while it gives a device
	// another driver.
	betweenDrivers = 8
	// devicesChange is how often, in draws of one in this many, a user changes what a NodeENI says of devices.
	devicesChange = 80
)

// devices draws what happens to devices of programs in user space. It has a random stream of its own, so that it shifts
// no other draw.
type devices struct {
	random *rand.Rand
	// acts is set if users change whether NodeENIs are for programs.
	acts bool
}

func newDevices(seed uint64) *devices {
	d := &devices{random: rand.New(rand.NewPCG(seed, 0xdd))}
	d.acts = d.random.IntN(3) == 0
	return d
}

func (d *devices) happens(oneIn int) bool { return d.random.IntN(oneIn) == 0 }

// toggleDevices at times lets a user give the devices of a NodeENI to programs, or end that.
func (r *run) toggleDevices() {
	if !r.devices.acts || r.faults.off || !r.devices.happens(devicesChange) {
		return
	}
	c := r.clusters[r.devices.random.IntN(len(r.clusters))]
	all := c.api.all(nodeENIs)
	if len(all) == 0 {
		return
	}
	name := all[r.devices.random.IntN(len(all))].GetName()
	_, _ = c.api.update(nodeENIs, name, "", func(o client.Object) (client.Object, error) {
		spec := &o.(*v1alpha1.NodeENI).Spec
		if spec.Pods == nil {
			spec.EnableDPDK = !spec.EnableDPDK
			r.covers.Actors[togglesDevices]++
			r.note(nil, "%s: a user makes NodeENI %s one for programs: %t", c.name, name, spec.EnableDPDK)
		}
		return o, nil
	})
}

// moveDevices at times lets a program start to drive a device that is bound for user space, or end. The agent does not
// know of either: a program starts also while the object of the interface is being deleted.
func (h *podHost) moveDevices() {
	d := h.c.run.devices
	h.unplug()
	for _, id := range slices.Sorted(maps.Keys(h.bound)) {
		switch {
		case h.driven[id] && d.happens(programTime):
			delete(h.driven, id)
			h.c.run.covers.Actors[leavesDevice]++
			h.c.run.note(nil, "%s: the program of node %s that drives %s ends", h.c.name, h.node, id)
		case !h.driven[id] && !h.between[id] && d.happens(programPause):
			h.driven[id] = true
			h.c.run.covers.Actors[drivesDevice]++
			h.c.run.note(nil, "%s: a program of node %s drives %s", h.c.name, h.node, id)
		}
	}
}

// unplug forgets the devices of interfaces that the node does not have any more.
func (h *podHost) unplug() {
	for _, all := range []map[string]bool{h.bound, h.driven, h.between, h.unsaved, h.forgotten} {
		maps.DeleteFunc(all, func(id string, _ bool) bool { return !h.bound[id] || !h.hasLink(id) })
	}
}

// loseCheckpoint removes the checkpoint.
func (h *podHost) loseCheckpoint() {
	h.checkpoint = nil
	for id := range h.bound {
		h.unsaved[id] = true
	}
}

// noteForgotten records that nothing names a bound device any more: the checkpoint was lost, and the interface has no
// object, or one in which no agent has reported the device as bound. The agent cannot know the device then.
func (h *podHost) noteForgotten(id string) {
	isSaved := func(saved podnet.Saved) bool { return saved.ENI == id && saved.Device != "" }
	object := h.c.api.interfaceOf(id)
	switch {
	case h.checkpoint != nil && slices.ContainsFunc(h.checkpoint.Held, isSaved):
		delete(h.unsaved, id)
	case h.unsaved[id] && !reportsBound(object):
		h.forgotten[id] = true
	}
}

// reportsBound reports whether an agent has reported the device of an object as bound, or about to be.
func reportsBound(n *v1alpha1.NetworkInterface) bool {
	if n == nil || n.Status.Node == nil || n.Status.Node.Link == nil {
		return false
	}
	state := n.Status.Node.Link.State
	return state == v1alpha1.LinkBound || state == v1alpha1.LinkBinding
}

// endPrograms lets users end all programs.
func (h *podHost) endPrograms() {
	h.unplug()
	clear(h.driven)
}

// address is the bus address of the device of an interface, and deviceAt the interface at one.
func (h *podHost) address(id string) string { return fmt.Sprintf("0000:00:%02x.0", h.linkOf(id)) }

func (h *podHost) deviceAt(address string) string {
	for _, i := range h.c.run.truth().ordered {
		if h.hasLink(i.ID) && h.address(i.ID) == address {
			return i.ID
		}
	}
	return ""
}

// bus is the PCI bus of the node.
func (h *podHost) bus() hostpci.Facts {
	facts := hostpci.Facts{Drivers: []string{hostpci.VFIO, "ena"}, Unguarded: true}
	for _, i := range h.c.run.truth().ordered {
		if !h.hasLink(i.ID) {
			continue
		}
		device := hostpci.DeviceFacts{Address: h.address(i.ID), Driver: "ena"}
		switch {
		case h.between[i.ID]:
			device.Driver, device.Override = "", hostpci.VFIO
		case h.bound[i.ID]:
			device.Driver, device.Override, device.Enabled = hostpci.VFIO, hostpci.VFIO, h.driven[i.ID]
		}
		facts.Devices = append(facts.Devices, device)
	}
	return facts
}

// rebind gives devices the drivers that the agent decided about.
func (h *podHost) rebind(pass *agent.Pass, bindings []hostpci.Binding) {
	for _, b := range bindings {
		id := h.deviceAt(b.Address)
		switch {
		case id == "":
		case b.Driver != "" && !pass.MayBind(b.Address):
		case !h.bind(id, b.Driver != ""):
			return // the process ended
		}
	}
}

// bind gives a device its driver for user space, or that of the kernel. It checks I24: a program keeps its device. It
// reports whether the process runs on; else the device has no driver.
func (h *podHost) bind(id string, userSpace bool) bool {
	r := h.c.run
	r.note(nil, "%s: the agent of node %s binds %s: %t", h.c.name, h.node, id, userSpace)
	if h.driven[id] && !h.forgotten[id] {
		r.violate("I24", "the agent of node %s gives %s another driver while a program drives it: %s", h.node, id,
			r.describe(r.truth().interfaces[id]))
	}
	if !r.faults.off && r.stage == nil && r.devices.happens(betweenDrivers) {
		r.covers.Actors[endsBinding]++
		r.note(nil, "%s: the agent of node %s restarts while %s has no driver", h.c.name, h.node, id)
		h.bound[id], h.between[id] = true, true
		h.runs(h.agent)
		return false
	}
	delete(h.between, id)
	if userSpace {
		h.bound[id] = true
		r.covers.Actors[bindsDevice]++
	} else {
		delete(h.bound, id)
		h.unplug()
		r.covers.Actors[releasesDevice]++
	}
	return true
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
	if host.bound[i.ID] && !host.forgotten[i.ID] {
		r.violate("I1", "%s %s %s, whose device is bound for programs of node %s: %s", p.name, q.action, q.target, host.node,
			r.describe(i))
	}
}
