// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/hostpci"
	"github.com/multieni/multieni/internal/host/agent"
)

// changed returns the object of attached with a change.
func changed(change func(*v1alpha1.NetworkInterface)) []*v1alpha1.NetworkInterface {
	n := attached()
	change(n)
	return []*v1alpha1.NetworkInterface{n}
}

// deleted marks an object as being deleted.
func deleted(n *v1alpha1.NetworkInterface) { n.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }

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
		change func(*v1alpha1.NetworkInterface)
		want   func(*hostnet.Link)
	}{
		"as it comes": {func(*v1alpha1.NetworkInterface) {}, func(*hostnet.Link) {}},
		"without an attachment, where it belongs": {
			func(n *v1alpha1.NetworkInterface) { n.Status.Slot, n.Spec.Slot.DeviceIndex = nil, 3 },
			func(l *hostnet.Link) { l.Slot = eni.Slot{Device: 3} },
		},
		"the third of a NodeENI": {
			func(n *v1alpha1.NetworkInterface) { n.Spec.Ordinal = 2 }, func(l *hostnet.Link) { l.Name = "web_2" },
		},
		"an MTU and settings": {
			func(n *v1alpha1.NetworkInterface) {
				n.Spec.Link = &v1alpha1.LinkSettings{MTU: 1500, Sysctls: map[string]v1alpha1.SysctlValue{"ipv4.rp_filter": 1}}
			},
			func(l *hostnet.Link) { l.MTU, l.Settings = 1500, map[hostnet.Setting]int{hostnet.RPFilter: 1} },
		},
		"addresses on the host": {
			func(n *v1alpha1.NetworkInterface) {
				n.Spec.Link = &v1alpha1.LinkSettings{AddressMode: v1alpha1.AddressPrimary}
			},
			func(l *hostnet.Link) {
				l.Mode, l.Subnet = hostnet.Primary, netip.MustParsePrefix("10.0.1.0/24")
				l.Addresses = []netip.Addr{netip.MustParseAddr("10.0.1.10"), netip.MustParseAddr("2600:1f14::10")}
			},
		},
		"seen before": {
			func(n *v1alpha1.NetworkInterface) {
				n.Status.Node = &v1alpha1.NodeReport{Link: &v1alpha1.LinkReport{PCIAddress: "0000:00:06.0"}}
			},
			func(l *hostnet.Link) { l.Device = "0000:00:06.0" },
		},
		"being deleted, while a pod uses it": {
			func(n *v1alpha1.NetworkInterface) {
				deleted(n)
				n.Status.Node = &v1alpha1.NodeReport{Open: true}
			},
			func(*hostnet.Link) {},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			want := plain
			c.want(&want)
			got, devices := agent.DesiredLinks(changed(c.change), 8500)
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
	links, devices := agent.DesiredLinks(changed(func(n *v1alpha1.NetworkInterface) {
		n.Spec.DPDK = &v1alpha1.DPDKSettings{Driver: v1alpha1.DPDKDriverVFIO, PCIAddress: "0000:00:07.0"}
		n.Status.Node = &v1alpha1.NodeReport{Link: &v1alpha1.LinkReport{PCIAddress: "0000:00:06.0"}}
	}), 0)
	if len(links) != 0 || len(devices) != 1 {
		t.Fatalf("there are links %v and devices %v, want one device", links, devices)
	}
	if d := devices[0]; d.Driver != hostpci.VFIO || d.Expected != "0000:00:07.0" || d.Link.MAC != mac || d.Link.Device != "0000:00:06.0" {
		t.Errorf("the device is %+v", d)
	}
}

func TestNoLinks(t *testing.T) {
	for name, objects := range map[string][]*v1alpha1.NetworkInterface{
		"no object":     nil,
		"not made yet":  changed(func(n *v1alpha1.NetworkInterface) { n.Status = v1alpha1.NetworkInterfaceStatus{} }),
		"being deleted": changed(deleted),
		"a device that is being deleted, and still bound": changed(func(n *v1alpha1.NetworkInterface) {
			deleted(n)
			n.Spec.DPDK = &v1alpha1.DPDKSettings{Driver: v1alpha1.DPDKDriverVFIO}
			n.Status.Node = &v1alpha1.NodeReport{Open: true}
		}),
	} {
		if got, devices := agent.DesiredLinks(objects, 0); len(got)+len(devices) != 0 {
			t.Errorf("%s: the links are %v and the devices %v, want none", name, got, devices)
		}
	}
}
