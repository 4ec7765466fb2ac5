// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/hostpci"
	"github.com/multieni/multieni/internal/host/agent"
)

const mac = "02:00:00:00:00:0a"

func attached() v1alpha1.InterfaceState {
	return v1alpha1.InterfaceState{
		Member: v1alpha1.Member{NodeENI: "web", NodeENIUID: "7d2f0f5e"}, Phase: v1alpha1.PhaseAttached,
		ENIID: "eni-1", MACAddress: mac, PrivateIP: "10.0.1.10", DeviceIndex: 2, NetworkCardIndex: 1,
		SecondaryPrivateIPs: []string{"10.0.1.11"}, IPv4Prefixes: []string{"10.0.1.64/28"},
		IPv6Addresses: []string{"2600:1f14::10"}, IPv6Prefixes: []string{"2600:1f14:0:0:1::/80"},
	}
}

// state is the state of a node with the interface, on which the controller has reported.
func state(change func(*v1alpha1.NodeENIState, *v1alpha1.InterfaceState)) *v1alpha1.NodeENIState {
	i := attached()
	s := &v1alpha1.NodeENIState{ObjectMeta: metav1.ObjectMeta{Name: "node", Generation: 3}}
	s.Spec.Members = []v1alpha1.Member{i.Member}
	s.Status.ObservedGeneration = 3
	change(s, &i)
	s.Status.Interfaces = append(s.Status.Interfaces, i)
	return s
}

func TestLinks(t *testing.T) {
	assigned := []netip.Prefix{
		netip.MustParsePrefix("10.0.1.10/32"), netip.MustParsePrefix("10.0.1.11/32"), netip.MustParsePrefix("2600:1f14::10/128"),
		netip.MustParsePrefix("10.0.1.64/28"), netip.MustParsePrefix("2600:1f14:0:0:1::/80"),
	}
	plain := hostnet.Link{
		Name: "web", MAC: mac, Slot: eni.Slot{Card: 1, Device: 2}, MTU: 8500, Mode: hostnet.None, Assigned: assigned,
		Settings: map[hostnet.Setting]int{},
	}
	cases := map[string]struct {
		change func(*v1alpha1.NodeENIState, *v1alpha1.InterfaceState)
		want   func(*hostnet.Link)
	}{
		"as it comes": {func(*v1alpha1.NodeENIState, *v1alpha1.InterfaceState) {}, func(*hostnet.Link) {}},
		"not attached yet, but already in sight": {
			func(_ *v1alpha1.NodeENIState, i *v1alpha1.InterfaceState) { i.Phase = v1alpha1.PhaseAttaching },
			func(*hostnet.Link) {},
		},
		"the third of a NodeENI": {
			func(_ *v1alpha1.NodeENIState, i *v1alpha1.InterfaceState) { i.Ordinal = 2 },
			func(l *hostnet.Link) { l.Name = "web_2" },
		},
		"an MTU and settings": {
			func(_ *v1alpha1.NodeENIState, i *v1alpha1.InterfaceState) {
				i.MTU, i.Sysctls = 1500, map[string]v1alpha1.SysctlValue{"ipv4.rp_filter": 1}
			},
			func(l *hostnet.Link) { l.MTU, l.Settings = 1500, map[hostnet.Setting]int{hostnet.RPFilter: 1} },
		},
		"addresses on the host": {
			func(_ *v1alpha1.NodeENIState, i *v1alpha1.InterfaceState) {
				i.AddressMode, i.SubnetCIDR = v1alpha1.AddressPrimary, "10.0.1.0/24"
			},
			func(l *hostnet.Link) {
				l.Mode, l.Subnet = hostnet.Primary, netip.MustParsePrefix("10.0.1.0/24")
				l.Addresses = []netip.Addr{netip.MustParseAddr("10.0.1.10"), netip.MustParseAddr("2600:1f14::10")}
			},
		},
		"seen before": {
			func(s *v1alpha1.NodeENIState, _ *v1alpha1.InterfaceState) {
				s.Status.Links = []v1alpha1.LinkState{{MACAddress: mac, PCIAddress: "0000:00:06.0"}}
			},
			func(l *hostnet.Link) { l.Device = "0000:00:06.0" },
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			want := plain
			c.want(&want)
			got, devices := agent.DesiredLinks(state(c.change), 8500)
			if len(devices) > 0 {
				t.Errorf("there are devices: %v", devices)
			}
			if diff := cmp.Diff([]hostnet.Link{want}, got, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDevices(t *testing.T) {
	links, devices := agent.DesiredLinks(state(func(s *v1alpha1.NodeENIState, i *v1alpha1.InterfaceState) {
		i.DPDKDriver, i.DPDKPCIAddress = v1alpha1.DPDKDriverVFIO, "0000:00:07.0"
		s.Status.Links = []v1alpha1.LinkState{{MACAddress: mac, PCIAddress: "0000:00:06.0"}}
	}), 0)
	if len(links) != 0 || len(devices) != 1 {
		t.Fatalf("there are links %v and devices %v, want one device", links, devices)
	}
	if d := devices[0]; d.Driver != hostpci.VFIO || d.Expected != "0000:00:07.0" || d.Link.MAC != mac || d.Link.Device != "0000:00:06.0" {
		t.Errorf("the device is %+v", d)
	}
}

func TestNoLinks(t *testing.T) {
	for name, s := range map[string]*v1alpha1.NodeENIState{
		"no state":       nil,
		"not made yet":   state(func(_ *v1alpha1.NodeENIState, i *v1alpha1.InterfaceState) { i.MACAddress = "" }),
		"being detached": state(func(_ *v1alpha1.NodeENIState, i *v1alpha1.InterfaceState) { i.Phase = v1alpha1.PhaseDetaching }),
		"being deleted":  state(func(_ *v1alpha1.NodeENIState, i *v1alpha1.InterfaceState) { i.Phase = v1alpha1.PhaseDeleting }),
	} {
		if got, devices := agent.DesiredLinks(s, 0); len(got)+len(devices) != 0 {
			t.Errorf("%s: the links are %v, want none", name, got)
		}
	}
}
