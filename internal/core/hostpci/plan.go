// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostpci

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/hostnet"
)

// The reasons of observations.
const (
	ReasonBound            = "DeviceBound"
	ReasonBinding          = "Binding"
	ReasonReleasing        = "Releasing"
	ReasonInUse            = "DeviceInUse"
	ReasonInOtherNamespace = "OtherPCIAddress"
	ReasonNoDriver         = "DriverNotLoaded"
	ReasonNoIOMMU          = "NoIOMMU"
	ReasonReadOnly         = "SysfsReadOnly"
	ReasonBindFailed       = "BindFailed"
	ReasonDeviceNotFound   = "DeviceNotFound"
)

// Plan returns the operations that bind the desired devices and return recorded devices that are not desired to the
// kernel, and the state of each. A device is bound only after it is recorded: until then Plan returns the observation
// that is to become the record, and no operation. Observations are in the order of MAC addresses; a record without an
// observation is settled.
func Plan(
	wanted []Device, records []OriginalBinding, facts Facts, network hostnet.Facts,
) ([]Binding, []hostnet.Observation) {
	d := planner{facts: facts, network: network}
	for _, device := range wanted {
		d.want(device, recordOf(records, device.Link.MAC))
	}
	for _, record := range records {
		if !slices.ContainsFunc(wanted, func(w Device) bool { return w.Link.MAC == record.MAC }) {
			d.release(record)
		}
	}
	slices.SortFunc(d.observed, func(a, b hostnet.Observation) int { return cmp.Compare(a.Link.MAC, b.Link.MAC) })
	return d.bindings, d.observed
}

type planner struct {
	facts    Facts
	network  hostnet.Facts
	bindings []Binding
	observed []hostnet.Observation
}

func recordOf(records []OriginalBinding, mac string) *OriginalBinding {
	for n := range records {
		if records[n].MAC == mac {
			return &records[n]
		}
	}
	return nil
}

func (d *planner) observe(link hostnet.Link, device *DeviceFacts, state hostnet.State, reason, message string) {
	o := hostnet.Observation{Link: link, State: state, Reason: reason, Message: message}
	if device != nil {
		o.Link.Device = device.Address
		o.Facts = &hostnet.LinkFacts{MAC: link.MAC, Device: device.Address, Driver: device.Driver}
	}
	d.observed = append(d.observed, o)
}

// want binds a device, or reports why not.
func (d *planner) want(w Device, record *OriginalBinding) {
	link := d.link(w.Link.MAC)
	if link == nil && record != nil {
		d.wantRecorded(w, *record)
		return
	}
	if link == nil {
		reason, message := d.missingDevice(w)
		d.observe(w.Link, nil, hostnet.Missing, reason, message)
		return
	}
	device := d.facts.device(link.Device)
	if device == nil {
		d.observe(w.Link, nil, hostnet.Refused, ReasonDeviceNotFound,
			fmt.Sprintf("%s is on %s, which is no PCI device", link.Name, link.Device))
		return
	}
	if reason, message := d.reasonToSkip(w, *link, *device); reason != "" {
		d.observe(w.Link, device, hostnet.Refused, reason, message)
		return
	}
	d.observe(w.Link, device, hostnet.Binding, ReasonBinding,
		fmt.Sprintf("%s is about to be bound to %s", device.Address, w.Driver))
	if record != nil && record.Address == device.Address {
		d.bindings = append(d.bindings, Binding{device.Address, w.Driver})
	}
}

// wantRecorded handles a device that has no link because it is bound, or because a process ended while it was being
// bound.
func (d *planner) wantRecorded(w Device, record OriginalBinding) {
	device := d.facts.device(record.Address)
	switch {
	case device == nil:
		d.observe(w.Link, nil, hostnet.Missing, ReasonDeviceNotFound, fmt.Sprintf("device %s is gone", record.Address))
	case device.Driver == w.Driver:
		d.observe(w.Link, device, hostnet.Bound, ReasonBound, fmt.Sprintf("%s is bound to %s", device.Address, device.Driver))
	case device.Driver == "":
		d.observe(w.Link, device, hostnet.Binding, ReasonBinding,
			fmt.Sprintf("%s has no driver and is about to be bound to %s", device.Address, w.Driver))
		d.bindings = append(d.bindings, Binding{device.Address, w.Driver})
	case forUserSpace(device.Driver):
		d.restore(w.Link, *device) // the NodeENI names another driver now
	default:
		reason, message := d.missingDevice(w)
		d.observe(w.Link, device, hostnet.Missing, reason, message)
	}
}

// missingDevice returns why there is no link.
func (d *planner) missingDevice(w Device) (reason, message string) {
	if device := d.facts.device(w.Link.Device); device != nil && device.Driver != "" && !forUserSpace(device.Driver) {
		return hostnet.ReasonMoved, fmt.Sprintf(
			"the link of device %s is in another network namespace, a pod's by all appearances; the device is bound "+
				"once it is back", device.Address)
	}
	return hostnet.ReasonNotFound, fmt.Sprintf("no physical link has the MAC address %s yet", w.Link.MAC)
}

// reasonToSkip returns why a device must keep the network driver.
func (d *planner) reasonToSkip(w Device, link hostnet.LinkFacts, device DeviceFacts) (reason, message string) {
	switch {
	case link.Excluded:
		return hostnet.ReasonExcluded, fmt.Sprintf(
			"%s is excluded by the agent's options; see --eni-pattern and --ignore-interfaces", link.Name)
	case link.Index == d.network.PrimaryLink:
		return hostnet.ReasonPrimary, fmt.Sprintf(
			"%s carries the host's default route, so it is taken for the primary interface", link.Name)
	case w.Expected != "" && !strings.EqualFold(w.Expected, device.Address):
		return ReasonInOtherNamespace, fmt.Sprintf(
			"dpdkPCIAddress is %s, but the interface is device %s; take dpdkPCIAddress out of the NodeENI, "+
				"none is needed", w.Expected, device.Address)
	case d.upperLinks(link) != "":
		return ReasonInUse, fmt.Sprintf("%s is in use: the link %s is on top of it", link.Name, d.upperLinks(link))
	case d.facts.ReadOnly:
		return ReasonReadOnly, "the agent cannot write to sysfs; it needs the host's /sys mounted for devices to be " +
			"bound, see docs/node-agent.md"
	case !slices.Contains(d.facts.Drivers, w.Driver):
		return ReasonNoDriver, fmt.Sprintf(
			"the kernel has no driver %s; load its module when the node starts, for example with modprobe in "+
				"its user data", w.Driver)
	case w.Driver == VFIO && !device.Guarded && !d.facts.Unguarded:
		return ReasonNoIOMMU, fmt.Sprintf(
			"no IOMMU confines %s, so vfio-pci refuses it; a bare metal instance has one, elsewhere load vfio with "+
				"enable_unsafe_noiommu_mode=1", device.Address)
	}
	if failure, failed := d.facts.Failed[Binding{device.Address, w.Driver}]; failed {
		return ReasonBindFailed, failure
	}
	return "", ""
}

// link returns the physical link with the MAC address, or nil.
func (d *planner) link(mac string) *hostnet.LinkFacts {
	for n, link := range d.network.Links {
		if link.Device != "" && strings.EqualFold(link.MAC, mac) {
			return &d.network.Links[n]
		}
	}
	return nil
}

// upperLinks returns the name of a link on top of the link, or "".
func (d *planner) upperLinks(link hostnet.LinkFacts) string {
	for _, other := range d.network.Links {
		if other.Lower == link.Index {
			return other.Name
		}
	}
	return ""
}

// release returns a recorded device that is no longer desired to the kernel.
func (d *planner) release(record OriginalBinding) {
	device := d.facts.device(record.Address)
	if device == nil || device.Driver != "" && !forUserSpace(device.Driver) && !forUserSpace(device.Override) {
		return // it does not exist any more, or has its original driver
	}
	d.restore(hostnet.Link{Name: record.Name, MAC: record.MAC, Device: record.Address}, *device)
}

func (d *planner) restore(link hostnet.Link, device DeviceFacts) {
	switch {
	case device.Driver == VFIO && device.Enabled:
		d.observe(link, &device, hostnet.Bound, ReasonInUse, fmt.Sprintf(
			"a program has %s open; it goes back to the network driver, and its interface can be detached, once the "+
				"pod that uses it has ended", device.Address))
	default:
		d.observe(link, &device, hostnet.Binding, ReasonReleasing,
			fmt.Sprintf("%s is about to go back to the network driver", device.Address))
		d.bindings = append(d.bindings, Binding{Address: device.Address})
	}
}
