// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podhost

import (
	"fmt"
	"slices"

	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/hostnet/hostnettest"
	"github.com/multieni/multieni/internal/host/agent"
)

// primary is the index of the node's first interface.
const primary = 2

// boot is the network of a node that has booted with its primary interface.
func boot() hostnet.Facts {
	return hostnet.Facts{PrimaryLink: primary, Links: []hostnet.LinkFacts{
		{Index: 1, Name: "lo", MAC: "00:00:00:00:00:00", MTU: 65536, Up: true, Carrier: true, Settings: settings()},
		{Index: primary, Name: "ens5", MAC: "02:ff:ff:ff:ff:ff", Device: "0000:00:05.0", Driver: "ena", MTU: mtu, Up: true,
			Carrier: true, Settings: settings()},
	}}
}

// settings are those of a link that nothing configured.
func settings() map[hostnet.Setting]int {
	all := map[hostnet.Setting]int{}
	for _, s := range hostnet.Settings() {
		all[s] = 0
	}
	all[hostnet.AcceptRA], all[hostnet.Autoconf] = 1, 1
	return all
}

// kernel is the node's network, as an agent sees it.
type kernel struct{ *Host }

func (h *Host) asHost() agent.Host { return kernel{h} }

// Facts is part of [agent.Host].
func (k kernel) Facts([]string) (hostnet.Facts, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.plug(k.EC2())
	return k.kernel.Facts(), nil
}

// Apply is part of [agent.Host].
func (k kernel) Apply(op hostnet.Operation) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.kernel.Apply(op)
}

// Events is part of [agent.Host].
func (k kernel) Events() <-chan struct{} { return k.events }

// plug gives each attached interface its link, and removes the links of the others.
func (h *Host) plug(state ec2.State) {
	attached := map[string]*ec2.Attachment{}
	for _, i := range state.NetworkInterfaces {
		if a := i.Attachment; a != nil && a.InstanceID == h.InstanceID && a.DeviceIndex > 0 && a.Status == ec2.Attached {
			attached[i.MACAddress] = a
		}
	}
	for _, link := range h.kernel.Facts().Links {
		if link.Index > primary && attached[link.MAC] == nil {
			h.kernel.Unplug(link.Index)
		}
		delete(attached, link.MAC)
	}
	facts := h.kernel.Facts()
	for mac, a := range attached {
		h.links++
		facts.Links = append(facts.Links, hostnet.LinkFacts{Index: h.links, Name: fmt.Sprintf("eth%d", h.links), MAC: mac,
			Device: fmt.Sprintf("0000:00:%02x.0", 5+a.DeviceIndex), Driver: "ena", MTU: 1500, MaxMTU: 9216,
			Settings: settings()})
	}
	h.kernel = hostnettest.New(facts)
}

// linkOf returns the index of an interface's link by its MAC address; 0 if the node does not have it.
func (h *Host) linkOf(mac string) int {
	links := h.kernel.Facts().Links
	if n := slices.IndexFunc(links, func(l hostnet.LinkFacts) bool { return l.MAC == mac }); n >= 0 {
		return links[n].Index
	}
	return 0
}
