// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostpci_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/hostpci"
)

// The message of a device that is not bound names the device, the cause and what a user can change.
func TestMessagesNameTheCause(t *testing.T) {
	failed := map[hostpci.Binding]string{{Address: address, Driver: hostpci.VFIO}: "vfio-pci: probe failed with -22"}
	cases := map[string]struct {
		input input
		names []string
	}{
		"recorded":             {before(recorded), []string{address, hostpci.VFIO}},
		"not attached":         {before(unlinked), []string{"no physical link has the MAC address " + mac}},
		"in a pod":             {before(unlinked, func(w *input) { w.wanted[0].Link.Device = address }), []string{address, "another network namespace"}},
		"gone":                 {before(bound, func(w *input) { w.facts.Devices = nil }), []string{"device " + address + " is gone"}},
		"elsewhere":            {before(func(w *input) { w.wanted[0].Expected = "0000:00:05.0" }), []string{"0000:00:05.0", address, "take dpdkPCIAddress out"}},
		"primary":              {before(func(w *input) { w.network.PrimaryLink = 3 }), []string{"ens7", "default route"}},
		"excluded":             {before(func(w *input) { w.network.Links[1].Excluded = true }), []string{"ens7", "--ignore-interfaces"}},
		"read-only":            {before(func(w *input) { w.facts.ReadOnly = true }), []string{"/sys", "docs/node-agent.md"}},
		"no driver":            {before(func(w *input) { w.facts.Drivers = nil }), []string{hostpci.VFIO, "modprobe"}},
		"no IOMMU":             {before(func(w *input) { w.facts.Devices[0].Guarded = false }), []string{address, "enable_unsafe_noiommu_mode"}},
		"failed":               {before(func(w *input) { w.facts.Failed = failed }), []string{"probe failed with -22"}},
		"a virtual device":     {before(func(w *input) { w.network.Links[1].Device = "virtio3" }), []string{"ens7", "virtio3", "no PCI device"}},
		"open, no longer ours": {before(bound, open, unwanted), []string{address, "once the pod that uses it has ended"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, observed := hostpci.Plan(c.input.wanted, c.input.records, c.input.facts, c.input.network)
			for _, part := range c.names {
				if !strings.Contains(observed[0].Message, part) {
					t.Errorf("the message has no %q: %s", part, observed[0].Message)
				}
			}
		})
	}
}

// The agent logs each operation in one line.
func TestBindingAsText(t *testing.T) {
	for want, binding := range map[string]hostpci.Binding{
		"device 0000:00:07.0: bind to vfio-pci":                {Address: address, Driver: hostpci.VFIO},
		"device 0000:00:07.0: give back to the network driver": {Address: address},
	} {
		if got := binding.String(); got != want {
			t.Errorf("it is %q, want %q", got, want)
		}
	}
}

// An observation has the bus address of the device, which the agent records.
func TestObservationNamesTheDevice(t *testing.T) {
	cases := map[string]struct {
		input  input
		device string
		facts  *hostnet.LinkFacts
	}{
		"with a link": {before(), address, &hostnet.LinkFacts{MAC: mac, Device: address, Driver: "ena"}},
		"bound":       {before(bound), address, &hostnet.LinkFacts{MAC: mac, Device: address, Driver: hostpci.VFIO}},
		"released":    {before(bound, unwanted), address, &hostnet.LinkFacts{MAC: mac, Device: address, Driver: hostpci.VFIO}},
		"missing":     {before(unlinked), "", nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, observed := hostpci.Plan(c.input.wanted, c.input.records, c.input.facts, c.input.network)
			if o := observed[0]; o.Link.MAC != mac || o.Link.Name != "fast" || o.Link.Device != c.device {
				t.Errorf("the link is %+v", o.Link)
			}
			if diff := cmp.Diff(c.facts, observed[0].Facts); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Observations are in the order of MAC addresses, including those of devices that are returned to the kernel.
func TestObservationsAreOrdered(t *testing.T) {
	w := before(bound)
	w.wanted[0].Link.MAC = "02:00:00:00:00:0c"
	w.wanted = append(w.wanted, hostpci.Device{Link: hostnet.Link{Name: "first", MAC: "02:00:00:00:00:02"}, Driver: hostpci.VFIO})
	_, observed := hostpci.Plan(w.wanted, w.records, w.facts, w.network)
	var macs []string
	for _, o := range observed {
		macs = append(macs, o.Link.MAC)
	}
	if diff := cmp.Diff([]string{"02:00:00:00:00:02", mac, "02:00:00:00:00:0c"}, macs); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// inputs draws any combination of what is desired, recorded and on the host for one device.
func inputs() *rapid.Generator[input] {
	return rapid.Custom(func(t *rapid.T) input {
		w := before()
		d := &w.facts.Devices[0]
		d.Driver = rapid.SampledFrom([]string{"ena", "ena", "ena", "", hostpci.VFIO, hostpci.IGBUIO}).Draw(t, "driver")
		d.Override = rapid.SampledFrom([]string{"", hostpci.VFIO}).Draw(t, "override")
		d.Enabled, d.Guarded = rapid.Bool().Draw(t, "enabled"), rapid.Bool().Draw(t, "guarded")
		w.wanted[0].Driver = rapid.SampledFrom([]string{hostpci.VFIO, hostpci.IGBUIO}).Draw(t, "wanted driver")
		if rapid.Bool().Draw(t, "recorded") {
			recorded(&w)
		}
		if rapid.Bool().Draw(t, "unwanted") {
			unwanted(&w)
		}
		if d.Driver != "ena" {
			unlinked(&w) // only the network driver makes a link
		}
		if rapid.Bool().Draw(t, "primary") {
			w.network.PrimaryLink = 3
		}
		return w
	})
}

// The primary interface keeps its driver, a device that a program has open keeps its driver, and no device is bound
// without a record.
func TestBindingsAreSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := inputs().Draw(t, "input")
		bindings, _ := hostpci.Plan(w.wanted, w.records, w.facts, w.network)
		device := w.facts.Devices[0]
		for _, b := range bindings {
			switch {
			case b.Address != address:
				t.Fatalf("%s is about another device", b)
			case len(w.records) == 0:
				t.Fatalf("%s is without a record", b)
			case b.Driver != "" && b.Driver == device.Driver:
				t.Fatalf("%s changes nothing", b)
			case device.Driver == hostpci.VFIO && device.Enabled:
				t.Fatalf("%s takes the device from a program", b)
			case device.Driver == "ena" && b.Driver != "" && w.network.PrimaryLink == 3:
				t.Fatalf("%s takes the primary interface", b)
			}
		}
	})
}

// A binding that took effect is not requested again.
func TestBindingsAreMadeOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := inputs().Draw(t, "input")
		for range 2 { // a device of another driver is returned to the kernel first
			bindings, _ := hostpci.Plan(w.wanted, w.records, w.facts, w.network)
			for _, b := range bindings {
				w.facts.Devices[0].Driver, w.facts.Devices[0].Override, w.facts.Devices[0].Enabled = b.Driver, b.Driver, false
				w.network.Links = w.network.Links[:1]
				if b.Driver == "" {
					w.facts.Devices[0].Driver = "ena"
					w.network.Links = append(w.network.Links[:1:1], hostnet.LinkFacts{Index: 3, Name: "ens7", MAC: mac, Device: address})
				}
			}
		}
		if bindings, observed := hostpci.Plan(w.wanted, w.records, w.facts, w.network); len(bindings) > 0 {
			t.Fatalf("there is still to do: %v; %+v", bindings, observed)
		}
	})
}

// The plugin restarts when its configuration changes, so the order in which devices are found must not change it.
func TestPluginConfigIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		resources := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) hostpci.Resource {
			return hostpci.Resource{
				Name:    rapid.SampledFrom([]string{"fast", "example.com/fast", hostpci.DefaultResource}).Draw(t, "name"),
				Address: rapid.SampledFrom([]string{"0000:00:07.0", "0000:00:08.0", "0000:00:09.0"}).Draw(t, "address"),
				Driver:  rapid.SampledFrom([]string{"ena", hostpci.VFIO}).Draw(t, "driver"),
			}
		}), 0, 6).Draw(t, "resources")
		given := slices.Clone(resources)
		one := string(hostpci.PluginConfig(resources))
		if diff := cmp.Diff(given, resources); diff != "" {
			t.Fatalf("the argument changed:\n%s", diff)
		}
		slices.Reverse(resources)
		if diff := cmp.Diff(one, string(hostpci.PluginConfig(resources))); diff != "" {
			t.Fatal(diff)
		}
		var written map[string]any
		if err := json.Unmarshal([]byte(one), &written); err != nil || written[hostpci.PluginMark] == nil {
			t.Fatalf("%v: %s", err, one)
		}
		if pools, ok := written["resourceList"].([]any); !ok || len(pools) > 3 || (len(pools) == 0) != (len(resources) == 0) {
			t.Fatalf("the pools are %v", written["resourceList"])
		}
	})
}
