// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/podlease"
)

// TestPodsThatLostTheirLinkAreNamed: a pod keeps running without its link after EC2 detached the interface, and nothing
// but its lease tells.
func TestPodsThatLostTheirLinkAreNamed(t *testing.T) {
	before := func(attachment podnet.Attachment, link int) func(*podnet.Lease) {
		return func(l *podnet.Lease) {
			l.Attachment, l.Link, l.Since = attachment, link, time.Now().Add(-time.Minute)
		}
	}
	for name, tc := range map[string]struct {
		lease func(*podnet.Lease)
		index int
		lost  bool
	}{
		"the link is the same":           {before(podnet.IPVLAN, 7), 7, false},
		"the interface is attached anew": {before(podnet.IPVLAN, 7), 8, true},
		"the pod attached a moment ago":  {func(l *podnet.Lease) { l.Attachment, l.Link, l.Since = podnet.IPVLAN, 7, time.Now().Add(time.Hour) }, 8, false},
		"the link is on the node again":  {before(podnet.HostDevice, 0), 8, true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, withPods())
			n.settle()
			n.lease("10.0.4.17", tc.lease)
			n.index = tc.index
			report := n.settle().Pods
			if lost := report.Reason == v1alpha1.ReasonPodsWithoutLink; lost != tc.lost || lost != strings.HasSuffix(report.Message, ": upf/upf-0") {
				t.Errorf("reported %s: %s; want a pod without its link: %t", report.Reason, report.Message, tc.lost)
			}
			if !report.Ready || !n.isOpen() {
				t.Error("further pods cannot attach")
			}
		})
	}
}

// TestAPodGetsAnAddressOfEachFamilyOrNone: the subnet of the interface can lack the range of a family.
func TestAPodGetsAnAddressOfEachFamilyOrNone(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.NetworkInterface){
		"IPv6": func(i *v1alpha1.NetworkInterface) { i.Spec.Pods.IPv6Prefixes = 1 },
		"IPv4": func(i *v1alpha1.NetworkInterface) { i.Spec.Subnets[0].CIDR = "" },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, withPods())
			n.change(change)
			report := n.settle()
			if report.Open || report.Pods.Reason != "SubnetRangeUnknown" || !strings.Contains(report.Pods.Message, name+" range") || n.file() != nil {
				t.Errorf("reported %+v, %+v; the file is %+v", report, report.Pods, n.file())
			}
		})
	}
}

// TestAPodGetsTheInterfaceWithItsPrimaryAddress has a pod with attachment HostDevice. Another address of the interface can
// be unassigned while the pod starts.
func TestAPodGetsTheInterfaceWithItsPrimaryAddress(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1alpha1.NetworkInterface)
		want   string
	}{
		"both families": {func(*v1alpha1.NetworkInterface) {}, "10.0.4.5"},
		"in a subnet with IPv6 alone": {func(i *v1alpha1.NetworkInterface) {
			i.Status.Addresses.PrivateIP, i.Spec.Subnets[0].CIDR, i.Status.Addresses.SecondaryPrivateIPs = "", "", nil
		}, "2001:db8:0:4::5"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, withPods())
			n.change(func(i *v1alpha1.NetworkInterface) {
				i.Spec.Subnets[0].IPv6CIDR = "2001:db8:0:4::/64"
				i.Spec.Pods = &v1alpha1.PodSettings{Attachment: v1alpha1.PodAttachmentHostDevice}
				i.Status.Pods, i.Status.Addresses.IPv4Prefixes = nil, nil
				i.Status.Addresses.SecondaryPrivateIPs = []string{"10.0.4.6", "10.0.4.200"}
				i.Status.Addresses.IPv6Addresses = []string{"2001:db8:0:4::5"}
				tc.change(i)
			})
			report := n.settle()
			if !report.Pods.Ready || report.Pods.Capacity != 1 {
				t.Errorf("reported %+v", report.Pods)
			}
			mine, err := n.file().Allocate(nil, nil, podnet.Holder{ContainerID: "c", Interface: "net1"}, podnet.Request{}, n.now)
			if err != nil || len(mine) != 1 || mine[0].Address.String() != tc.want {
				t.Errorf("a pod gets %v, %v, want %s", mine, err, tc.want)
			}
		})
	}
}

// TestUsageIsReportedSeldom: pods start all the time, and each report wakes the controller. A pod that makes another
// prefix necessary is reported at once.
func TestUsageIsReportedSeldom(t *testing.T) {
	n := newNode(t, withPods())
	n.settle()
	n.lease("10.0.4.17")
	if told := n.pass(); len(told) > 0 {
		t.Errorf("reported %+v", told)
	}
	n.now = n.now.Add(time.Minute)
	if told := n.pass(); len(told) != 1 || told[0].Pods.Used != 1 {
		t.Errorf("after a minute: reported %+v", told)
	}
	for _, a := range []string{"16", "18", "19", "20", "21", "22", "23", "24", "25"} {
		n.lease("10.0.4." + a)
	}
	if told := n.pass(); len(told) != 1 || told[0].Pods.Wanted != 2 {
		t.Errorf("reported %+v", told)
	}
}

// TestLeasesOfPodsThatAreGoneKeepNoInterface: the runtime never ends these leases.
func TestLeasesOfPodsThatAreGoneKeepNoInterface(t *testing.T) {
	folder := t.TempDir()
	for name, tc := range map[string]struct {
		change func(*podnet.Lease)
		goes   bool
	}{
		"a pod that runs":                     {func(*podnet.Lease) {}, false},
		"a pod of an earlier boot":            {func(l *podnet.Lease) { l.BootID = "the former boot" }, true},
		"a pod without a network namespace":   {func(l *podnet.Lease) { l.Netns = filepath.Join(folder, "cni-1") }, true},
		"a namespace that the agent sees not": {func(l *podnet.Lease) { l.Netns = filepath.Join(folder, "not-mounted", "cni-1") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, withPods())
			n.settle()
			n.lease("10.0.4.17", tc.change)
			n.remove()
			n.settle()
			n.now = n.now.Add(2 * podnet.RestTime)
			if report := n.settle(); report.Open == tc.goes {
				t.Errorf("reported %+v, want it to go: %t", report, tc.goes)
			}
		})
	}
}

// TestALockedNetworkStopsNoOther: a process that does not run has the files of one network locked.
func TestALockedNetworkStopsNoOther(t *testing.T) {
	other := withPods()
	other.Name, other.UID, other.Spec.NodeENI.Name = "n4-"+instance+"-0", "uid-n4", "n4"
	other.Status.ENIID, other.Status.MACAddress = "eni-2", "02:00:00:00:00:44"
	n := newNode(t, withPods(), other)
	n.settle()
	store, err := podlease.Open(n.PodsDir, "n3")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	n.remove()
	n.objects[1].Spec.Pods.Closed = true
	for range 3 {
		p, err := n.tryPass()
		if !errors.Is(err, podlease.ErrLocked) {
			t.Fatal(err)
		}
		n.answer(p)
	}
	locked, free := n.objects[0].Status.Node, n.objects[1].Status.Node
	if !locked.Open || locked.Pods.Ready || locked.Pods.Reason != "LeasesLocked" || !strings.Contains(locked.Pods.Message, "fuser /run/multieni/pods/n3/lock") {
		t.Errorf("the locked network is reported as %+v, %+v", locked, locked.Pods)
	}
	if free.Open {
		t.Errorf("the other network is reported as %+v", free)
	}
}

// A damaged lease names no pod, because nothing but the address is known. The message says how to free the address.
func TestADamagedLeaseIsNoPod(t *testing.T) {
	n := newNode(t, withPods())
	n.settle()
	n.lease("10.0.4.17")
	if err := os.WriteFile(n.path("10.0.4.17.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	n.remove()
	report := n.settle()
	if !report.Open || report.Pods.Used != 1 || len(report.Pods.Pods) > 0 || !strings.Contains(report.Pods.Message, "delete /run/multieni/pods/n3/eni-1/10.0.4.17.json") {
		t.Errorf("reported %+v, %+v", report, report.Pods)
	}
}

// A damaged file opens nothing, and the agent writes it again.
func TestADamagedFileIsWrittenAgain(t *testing.T) {
	for name, text := range map[string]string{"damaged": "{", "of a later release": `{"version": 99, "name": "n3", "phase": "Open"}`} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, withPods())
			n.settle()
			n.lease("10.0.4.17")
			if err := os.WriteFile(n.path("network.json"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			n.restart()
			if report := n.settle(); !report.Open || !n.isOpen() {
				t.Errorf("reported %+v", report)
			}
		})
	}
}
