// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostpci_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/hostpci"
)

const (
	mac     = "02:00:00:00:00:0a"
	address = "0000:00:07.0"
)

// input is what a decision depends on: an interface to be bound, recorded or not, on a device of the kernel's driver.
type input struct {
	wanted  []hostpci.Device
	records []hostpci.OriginalBinding
	facts   hostpci.Facts
	network hostnet.Facts
}

func before(changes ...func(*input)) input {
	w := input{
		wanted: []hostpci.Device{{Link: hostnet.Link{Name: "fast", MAC: mac}, Driver: hostpci.VFIO}},
		facts: hostpci.Facts{
			Devices: []hostpci.DeviceFacts{{Address: address, Driver: "ena", Guarded: true, Enabled: true}, {Address: "0000:00:05.0", Driver: "ena"}},
			Drivers: []string{"ena", hostpci.IGBUIO, hostpci.VFIO},
		},
		network: hostnet.Facts{
			PrimaryLink: 2,
			Links: []hostnet.LinkFacts{
				{Index: 2, Name: "ens5", MAC: "02:00:00:00:00:01", Device: "0000:00:05.0"},
				{Index: 3, Name: "ens7", MAC: mac, Device: address},
			},
		},
	}
	for _, change := range changes {
		change(&w)
	}
	return w
}

func recorded(w *input) {
	w.records = []hostpci.OriginalBinding{{Name: "fast", MAC: mac, Address: address}}
}

// bound is the input afterwards: the device has no link any more.
func bound(w *input) {
	recorded(w)
	w.facts.Devices[0] = hostpci.DeviceFacts{Address: address, Driver: hostpci.VFIO, Override: hostpci.VFIO, Guarded: true}
	w.network.Links = w.network.Links[:1]
}

func open(w *input)     { w.facts.Devices[0].Enabled = true }
func unwanted(w *input) { w.wanted = nil }
func unlinked(w *input) { w.network.Links = w.network.Links[:1] }

func TestDecide(t *testing.T) {
	bind := []hostpci.Binding{{Address: address, Driver: hostpci.VFIO}}
	back := []hostpci.Binding{{Address: address}}
	cases := map[string]struct {
		input    input
		bindings []hostpci.Binding
		state    hostnet.State
		reason   string
	}{
		"not recorded yet":      {before(), nil, hostnet.Binding, hostpci.ReasonBinding},
		"recorded":              {before(recorded), bind, hostnet.Binding, hostpci.ReasonBinding},
		"bound":                 {before(bound), nil, hostnet.Bound, hostpci.ReasonBound},
		"bound and at work":     {before(bound, open), nil, hostnet.Bound, hostpci.ReasonBound},
		"a crash between":       {before(bound, func(w *input) { w.facts.Devices[0].Driver = "" }), bind, hostnet.Binding, hostpci.ReasonBinding},
		"not attached yet":      {before(unlinked), nil, hostnet.Missing, hostnet.ReasonNotFound},
		"unplugged while bound": {before(bound, func(w *input) { w.facts.Devices = w.facts.Devices[1:] }), nil, hostnet.Missing, hostpci.ReasonDeviceNotFound},
		"lent to a pod": {
			before(unlinked, func(w *input) { w.wanted[0].Link.Device = address }), nil, hostnet.Missing, hostnet.ReasonMoved,
		},
		"recorded, and lent to a pod": {
			before(recorded, unlinked, func(w *input) { w.wanted[0].Link.Device = address }), nil, hostnet.Missing, hostnet.ReasonMoved,
		},
		"at the address written down": {before(recorded, func(w *input) { w.wanted[0].Expected = "0000:00:07.0" }), bind, hostnet.Binding, hostpci.ReasonBinding},
		"elsewhere than written down": {
			before(recorded, func(w *input) { w.wanted[0].Expected = "0000:00:05.0" }), nil, hostnet.Refused, hostpci.ReasonInOtherNamespace,
		},
		"the primary interface": {before(recorded, func(w *input) { w.network.PrimaryLink = 3 }), nil, hostnet.Refused, hostnet.ReasonPrimary},
		"excluded":              {before(recorded, func(w *input) { w.network.Links[1].Excluded = true }), nil, hostnet.Refused, hostnet.ReasonExcluded},
		"a link on top": {
			before(recorded, func(w *input) {
				w.network.Links = append(w.network.Links, hostnet.LinkFacts{Index: 9, Name: "pod0", MAC: mac, Lower: 3})
			}), nil, hostnet.Refused, hostpci.ReasonInUse,
		},
		"sysfs is read-only": {before(recorded, func(w *input) { w.facts.ReadOnly = true }), nil, hostnet.Refused, hostpci.ReasonReadOnly},
		"no such driver":     {before(recorded, func(w *input) { w.facts.Drivers = []string{"ena"} }), nil, hostnet.Refused, hostpci.ReasonNoDriver},
		"no IOMMU":           {before(recorded, func(w *input) { w.facts.Devices[0].Guarded = false }), nil, hostnet.Refused, hostpci.ReasonNoIOMMU},
		"no IOMMU, and none asked for": {
			before(recorded, func(w *input) { w.facts.Devices[0].Guarded, w.facts.Unguarded = false, true }), bind, hostnet.Binding, hostpci.ReasonBinding,
		},
		"it did not work": {
			before(recorded, func(w *input) { w.facts.Failed = map[hostpci.Binding]string{bind[0]: "no"} }), nil, hostnet.Refused, hostpci.ReasonBindFailed,
		},
		"another driver is wanted":    {before(bound, func(w *input) { w.wanted[0].Driver = hostpci.IGBUIO }), back, hostnet.Binding, hostpci.ReasonReleasing},
		"another, while it is open":   {before(bound, open, func(w *input) { w.wanted[0].Driver = hostpci.IGBUIO }), nil, hostnet.Bound, hostpci.ReasonInUse},
		"wanted no more":              {before(bound, unwanted), back, hostnet.Binding, hostpci.ReasonReleasing},
		"wanted no more, but open":    {before(bound, unwanted, open), nil, hostnet.Bound, hostpci.ReasonInUse},
		"given back by half":          {before(bound, unwanted, func(w *input) { w.facts.Devices[0].Driver = "" }), back, hostnet.Binding, hostpci.ReasonReleasing},
		"given back":                  {before(recorded, unwanted), nil, "", ""},
		"wanted no more, and gone":    {before(bound, unwanted, func(w *input) { w.facts.Devices = nil }), nil, "", ""},
		"nothing of ours":             {before(unwanted), nil, "", ""},
		"bound by others, not record": {before(bound, unwanted, func(w *input) { w.records = nil }), nil, "", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			bindings, observed := hostpci.Plan(c.input.wanted, c.input.records, c.input.facts, c.input.network)
			if diff := cmp.Diff(c.bindings, bindings); diff != "" {
				t.Errorf("bindings (-want +got):\n%s", diff)
			}
			if c.state == "" && len(observed) == 0 {
				return
			}
			if len(observed) != 1 || observed[0].State != c.state || observed[0].Reason != c.reason || observed[0].Message == "" {
				t.Errorf("observed %+v, want %s (%s)", observed, c.state, c.reason)
			}
		})
	}
}

func TestPluginConfig(t *testing.T) {
	got := string(hostpci.PluginConfig([]hostpci.Resource{
		{Name: "example.com/fast", Address: "0000:00:08.0", Driver: hostpci.VFIO},
		{Name: hostpci.DefaultResource, Address: "0000:00:09.0", Driver: "ena"},
		{Name: "example.com/fast", Address: "0000:00:07.0", Driver: hostpci.VFIO},
		{Name: "sriov_net", Address: "0000:00:0a.0", Driver: "ena"},
	}))
	want := `{
  "writtenBy": "multieni agent",
  "resourceList": [
    {
      "resourcePrefix": "example.com",
      "resourceName": "fast",
      "selectors": [
        {
          "vendors": [
            "1d0f"
          ],
          "drivers": [
            "vfio-pci"
          ],
          "pciAddresses": [
            "0000:00:07.0",
            "0000:00:08.0"
          ]
        }
      ]
    },
    {
      "resourcePrefix": "intel.com",
      "resourceName": "sriov_net",
      "selectors": [
        {
          "vendors": [
            "1d0f"
          ],
          "drivers": [
            "ena"
          ],
          "pciAddresses": [
            "0000:00:09.0",
            "0000:00:0a.0"
          ]
        }
      ]
    }
  ]
}
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
