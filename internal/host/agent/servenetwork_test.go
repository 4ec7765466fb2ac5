// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/agent"
)

// seenAt is when the agent read the links of the node.
var seenAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// serveNetwork returns the file and the report of an open network.
func serveNetwork(i v1alpha1.InterfaceState, facts agent.NetworkFacts) (podnet.Network, v1alpha1.PodNetworkState) {
	network := agent.PodNetwork(i, "node-1", 9001)
	facts.Last, facts.Now, facts.LinkAt = &v1alpha1.PodNetworkState{}, seenAt.Add(time.Second), seenAt
	report := agent.ServeNetwork(&network, i, facts, v1alpha1.PodNetworkState{Network: "n3", ENIID: i.ENIID})
	return network, report
}

// TestPodsThatLostTheirLinkAreNamed: a pod keeps running without its link after EC2 detached the interface, and nothing
// but its lease tells.
func TestPodsThatLostTheirLinkAreNamed(t *testing.T) {
	lease := func(change func(*podnet.Lease)) podnet.Lease {
		l := podnet.Lease{Address: netip.MustParseAddr("10.0.4.17"), Since: seenAt.Add(-time.Minute), Holder: podnet.Holder{
			ContainerID: "c", Interface: "net1", PodNamespace: "upf", Pod: "a", Attachment: podnet.IPVLAN, Link: 7,
		}}
		change(&l)
		return l
	}
	for name, tc := range map[string]struct {
		lease podnet.Lease
		link  int
		lost  bool
	}{
		"the link is the same":                       {lease(func(*podnet.Lease) {}), 7, false},
		"the interface was attached again":           {lease(func(*podnet.Lease) {}), 8, true},
		"the interface is in no namespace":           {lease(func(*podnet.Lease) {}), 0, false},
		"the pod has ended":                          {lease(func(l *podnet.Lease) { l.Freed = seenAt }), 8, false},
		"the pod attached after the links were read": {lease(func(l *podnet.Lease) { l.Since = seenAt }), 8, false},
		"a lease of an earlier release":              {lease(func(l *podnet.Lease) { l.Attachment, l.Link = "", 0 }), 8, false},
		"HostDevice: the link is in the pod":         {lease(func(l *podnet.Lease) { l.Attachment, l.Link = podnet.HostDevice, 0 }), 0, false},
		"HostDevice: the link is on the node again":  {lease(func(l *podnet.Lease) { l.Attachment, l.Link = podnet.HostDevice, 0 }), 8, true},
	} {
		t.Run(name, func(t *testing.T) {
			_, report := serveNetwork(withPods().Status.Interfaces[0], agent.NetworkFacts{Leases: []podnet.Lease{tc.lease}, Link: tc.link})
			if lost := report.Reason == v1alpha1.ReasonPodsWithoutLink; lost != tc.lost || lost != strings.HasSuffix(report.Message, ": upf/a") {
				t.Errorf("reported %s: %s; want a pod without its link: %t", report.Reason, report.Message, tc.lost)
			}
			if !report.Ready {
				t.Error("further pods cannot attach")
			}
		})
	}
}

// TestAPodGetsAnAddressOfEachFamilyOrNone: the range of a family can be missing, because the subnet has none or the
// controller has not read it.
func TestAPodGetsAnAddressOfEachFamilyOrNone(t *testing.T) {
	both := withPods().Status.Interfaces[0]
	both.Pods.IPv6Prefixes, both.Pods.SubnetIPv6CIDR, both.IPv6Prefixes = 1, "2001:db8:0:4::/64", []string{"2001:db8:0:4:5::/80"}
	whole := agent.PodNetwork(both, "node-1", 9001)
	for name, change := range map[string]func(*v1alpha1.InterfaceState){
		"IPv6": func(i *v1alpha1.InterfaceState) { i.Pods.SubnetIPv6CIDR = "" },
		"IPv4": func(i *v1alpha1.InterfaceState) { i.SubnetCIDR = "" },
	} {
		t.Run(name, func(t *testing.T) {
			i := *both.DeepCopy()
			change(&i)
			file, report := serveNetwork(i, agent.NetworkFacts{})
			if !file.Draining || report.Ready || report.Capacity != 0 || report.Reason != "SubnetRangeUnknown" || !strings.Contains(report.Message, name+" range") {
				t.Errorf("the network takes pods: %t; reported %+v", !file.Draining, report)
			}
			if _, err := file.Encode(); err != nil {
				t.Error(err)
			}
			file, report = serveNetwork(i, agent.NetworkFacts{Before: whole})
			if file.Draining || !report.Ready || file.IPv4 == nil || file.IPv6 == nil {
				t.Errorf("the file knew the range, and now it is %+v; reported %+v", file, report)
			}
			other := whole
			other.ENI = "eni-2"
			if file, _ = serveNetwork(i, agent.NetworkFacts{Before: other}); !file.Draining {
				t.Error("the range is that of another interface")
			}
			i.Pods.Draining = true
			if _, report = serveNetwork(i, agent.NetworkFacts{}); !report.Drained || report.Reason != v1alpha1.ReasonNetworkDraining {
				t.Errorf("the network does not drain: reported %+v", report)
			}
		})
	}
}

// TestAPodGetsTheInterfaceWithItsPrimaryAddress has a pod with attachment HostDevice. Another address of the interface can
// be unassigned while the pod starts.
func TestAPodGetsTheInterfaceWithItsPrimaryAddress(t *testing.T) {
	whole := withPods().Status.Interfaces[0]
	whole.Pods = &v1alpha1.InterfacePods{Attachment: v1alpha1.PodAttachmentHostDevice, SubnetIPv6CIDR: "2001:db8:0:4::/64", Opened: true}
	whole.IPv4Prefixes, whole.SecondaryPrivateIPs, whole.IPv6Addresses = nil, []string{"10.0.4.6", "10.0.4.200"}, []string{"2001:db8:0:4::5"}
	for name, tc := range map[string]struct {
		change func(*v1alpha1.InterfaceState)
		want   []string
	}{
		"both families": {func(*v1alpha1.InterfaceState) {}, []string{"10.0.4.5"}},
		"in a subnet with IPv6 alone": {
			func(i *v1alpha1.InterfaceState) { i.PrivateIP, i.SubnetCIDR, i.SecondaryPrivateIPs = "", "", nil }, []string{"2001:db8:0:4::5"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := *whole.DeepCopy()
			tc.change(&i)
			file, report := serveNetwork(i, agent.NetworkFacts{})
			if _, err := file.Encode(); err != nil || !report.Ready || report.Capacity != 1 {
				t.Errorf("%v; reported %+v", err, report)
			}
			mine, err := file.Allocate(nil, podnet.Holder{ContainerID: "c", Interface: "net1"}, podnet.Request{}, seenAt)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, l := range mine {
				got = append(got, l.Address.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
