// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/podlease"
)

// TestTheAgentServesAPodNetwork follows an interface from its attachment until the controller may detach it.
func TestTheAgentServesAPodNetwork(t *testing.T) {
	n := newNode(t, withPods())
	first := n.pass()
	if len(first) != 1 || !first[0].Open || first[0].Link == nil || first[0].Agent.ProcessID != n.Process.ID {
		t.Fatalf("reported %+v, want one report with the link and the hold", first)
	}
	if n.isOpen() {
		t.Error("pods can attach before the API server has the hold")
	}
	for range 3 {
		if more := n.pass(); len(more) > 0 {
			t.Errorf("a second report %+v, %+v", more[0], more[0].Pods)
		}
	}
	file := n.file()
	if !file.IsOpen() || file.Link != "net-n3" || file.ENI != "eni-1" || file.UID != "uid-n3" || file.MTU != 9001 ||
		file.IPv4.Gateway.String() != "10.0.4.1" || len(file.IPv4.Prefixes) != 2 || len(file.Routes) != 1 {
		t.Errorf("the file has %+v", file)
	}
	if saved := n.checkpoint(); len(saved) != 1 || saved[0].ENI != "eni-1" || saved[0].UID != "uid-n3" {
		t.Errorf("the checkpoint has %+v", saved)
	}
	n.lease("10.0.4.17")
	n.now = n.now.Add(time.Minute)
	report := n.settle()
	want := &v1alpha1.PodsReport{Reason: v1alpha1.ReasonNetworkReady, Message: "pods can attach", Ready: true, Wanted: 1, Capacity: 32, Used: 1, Free: 31}
	if diff := cmp.Diff(want, report.Pods); diff != "" {
		t.Errorf("with a pod (-want +got):\n%s", diff)
	}

	n.change(func(i *v1alpha1.NetworkInterface) { i.Spec.Pods.Closed = true })
	report = n.settle()
	want = &v1alpha1.PodsReport{Reason: v1alpha1.ReasonNetworkDraining, Message: report.Pods.Message, Used: 1, Free: 31,
		Pods: []v1alpha1.PodReference{{Namespace: "upf", Name: "upf-0", UID: "uid-1"}}}
	if diff := cmp.Diff(want, report.Pods); diff != "" || !report.Open || n.isOpen() {
		t.Errorf("closed, with a pod: open %t, pods can attach: %t (-want +got):\n%s", report.Open, n.isOpen(), diff)
	}
	n.change(func(i *v1alpha1.NetworkInterface) { i.Spec.Pods.Closed = false })
	if report = n.settle(); !n.isOpen() || !report.Pods.Ready {
		t.Errorf("the order was taken back: reported %+v", report)
	}

	n.remove()
	if report = n.settle(); !report.Open || n.isOpen() {
		t.Errorf("to be removed, with a pod: open %t, pods can attach: %t", report.Open, n.isOpen())
	}
	n.ends("10.0.4.17")
	if report = n.settle(); report.Open {
		t.Errorf("without the pod: reported %+v", report)
	}
	if _, err := os.Stat(filepath.Join(n.PodsDir, "n3")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder outlives its interface: %v", err)
	}
	if saved := n.checkpoint(); len(saved) != 0 {
		t.Errorf("the checkpoint has %+v", saved)
	}
}

// An interface without pods that goes costs no write.
func TestTheRemovalOfALinkIsNoReport(t *testing.T) {
	n := newNode(t, attached())
	if report := n.settle(); report == nil || report.Open {
		t.Fatalf("reported %+v", report)
	}
	n.remove()
	n.change(func(i *v1alpha1.NetworkInterface) { i.Generation++ })
	if told := n.pass(); len(told) > 0 {
		t.Errorf("reported %+v", told)
	}
}

// A link that does not exist yet appears soon, so the first report waits for it for a moment.
func TestTheFirstReportHasTheLink(t *testing.T) {
	n := newNode(t, attached())
	n.link, n.reason = hostnet.Missing, hostnet.ReasonNotFound
	if told := n.pass(); len(told) > 0 {
		t.Errorf("reported %+v", told)
	}
	n.now = n.now.Add(5 * time.Second)
	if told := n.pass(); len(told) != 1 || told[0].Link.State != v1alpha1.LinkMissing {
		t.Errorf("after a moment: reported %+v", told)
	}
	taken := attached()
	taken.Status.Evidence = v1alpha1.EvidenceTakenOver
	n.objects[0] = taken
	if told := n.pass(); len(told) != 1 || told[0].Open {
		t.Errorf("the controller waits for an answer: reported %+v", told)
	}
}

// Each process writes first: a write of the process before may still arrive.
func TestANewProcessWritesFirst(t *testing.T) {
	n := newNode(t, withPods())
	n.settle()
	n.restart()
	n.change(func(i *v1alpha1.NetworkInterface) {
		i.Status.Pods.Prefixes = append(i.Status.Pods.Prefixes, "10.0.4.48/28")
	})
	told := n.pass()
	if len(told) != 1 || !told[0].Open || told[0].Agent.ProcessID != n.Process.ID {
		t.Errorf("reported %+v, want the identity of the process", told)
	}
	if file := n.file(); !file.IsOpen() || len(file.IPv4.Prefixes) != 2 {
		t.Errorf("the file is %+v, want that of the process before", file)
	}
	n.settle()
	if file := n.file(); len(file.IPv4.Prefixes) != 3 {
		t.Errorf("the file is %+v, want the granted prefix", file)
	}
}

// A write without an answer is treated as done and as not done.
func TestAWriteWithoutAnAnswerIsRepeated(t *testing.T) {
	n := newNode(t, withPods())
	n.settle()
	n.fails = errors.New("timeout")
	n.change(func(i *v1alpha1.NetworkInterface) { i.Generation++ })
	if told := n.pass(); len(told) != 1 {
		t.Fatalf("reported %+v", told)
	}
	n.fails = nil
	n.change(func(i *v1alpha1.NetworkInterface) {
		i.Status.Pods.Prefixes = append(i.Status.Pods.Prefixes, "10.0.4.48/28")
		i.Status.Node.ObservedGeneration = i.Generation
	})
	if told := n.pass(); len(told) != 1 || len(n.file().IPv4.Prefixes) != 2 {
		t.Errorf("reported %+v, and the file has %v", told, n.file().IPv4.Prefixes)
	}
	n.settle()
	if len(n.file().IPv4.Prefixes) != 3 {
		t.Errorf("the file has %v", n.file().IPv4.Prefixes)
	}
}

// An address at rest keeps the interface: peers remember the pod.
func TestAnAddressAtRestKeepsTheInterface(t *testing.T) {
	n := newNode(t, withPods())
	n.settle()
	n.lease("10.0.4.17", func(l *podnet.Lease) { l.Freed = time.Now() })
	n.remove()
	if report := n.settle(); !report.Open {
		t.Errorf("reported %+v", report)
	}
	n.now = n.now.Add(2 * podnet.RestTime)
	if report := n.settle(); report.Open {
		t.Errorf("after the rest: reported %+v", report)
	}
}

// An agent without pod networks lets no pod attach, and lets interfaces go when their pods have ended.
func TestAnAgentWithoutPodNetworksLetsGo(t *testing.T) {
	n := newNode(t, withPods())
	n.settle()
	n.lease("10.0.4.17")
	n.PodsDisabled = true
	n.restart()
	report := n.settle()
	if !report.Open || n.isOpen() || report.Pods.Ready || report.Pods.Reason != v1alpha1.ReasonPodNetworksDisabled || report.Pods.Used != 1 {
		t.Errorf("with a pod: reported %+v, %+v; pods can attach: %t", report, report.Pods, n.isOpen())
	}
	n.ends("10.0.4.17")
	if report = n.settle(); report.Open {
		t.Errorf("without the pod: reported %+v", report)
	}
}

// Without the files the agent does not know whether pods run.
func TestAnAgentWithoutFilesLetsNothingGo(t *testing.T) {
	n := newNode(t, withPods())
	n.settle()
	n.PodsDir = ""
	n.restart()
	n.remove()
	if report := n.settle(); !report.Open {
		t.Errorf("reported %+v", report)
	}
}

// An interface whose link is gone is closed, and let go like any other.
func TestANetworkWithoutItsLinkIsClosed(t *testing.T) {
	n := newNode(t, withPods())
	n.settle()
	n.lease("10.0.4.17")
	n.link = hostnet.Missing
	if report := n.settle(); !report.Open || n.isOpen() || report.Pods.Ready || report.Pods.Reason != "Test" {
		t.Errorf("with a pod: reported %+v; pods can attach: %t", report.Pods, n.isOpen())
	}
	n.remove()
	n.ends("10.0.4.17")
	if report := n.settle(); report.Open {
		t.Errorf("without the pod: reported %+v", report)
	}
}

// A pod with attachment HostDevice takes the link before it gets its address.
func TestALinkThatAPodTakesClosesNothing(t *testing.T) {
	n := newNode(t, withPods())
	n.change(func(i *v1alpha1.NetworkInterface) {
		i.Spec.Pods = &v1alpha1.PodSettings{Attachment: v1alpha1.PodAttachmentHostDevice}
		i.Status.Pods, i.Status.Addresses.IPv4Prefixes = nil, nil
	})
	n.settle()
	n.link = hostnet.Missing
	if report := n.settle(); !report.Open || !n.isOpen() || report.Pods.Ready {
		t.Errorf("reported %+v, %+v; pods can attach: %t", report, report.Pods, n.isOpen())
	}
	n.lease("10.0.4.5")
	if report := n.settle(); !n.isOpen() || !report.Pods.Ready {
		t.Errorf("with the pod: reported %+v", report.Pods)
	}
}

// A link that changes for a moment closes nothing.
func TestALinkThatChangesClosesNothing(t *testing.T) {
	n := newNode(t, withPods())
	n.settle()
	n.link = hostnet.Configuring
	if report := n.settle(); !report.Open || !n.isOpen() {
		t.Errorf("reported %+v; pods can attach: %t", report, n.isOpen())
	}
}

// The object was torn away, and made again: it takes the folder and the leases over.
func TestAnotherObjectTakesTheFolderOver(t *testing.T) {
	n := newNode(t, withPods())
	n.settle()
	n.lease("10.0.4.17")
	n.objects = nil
	n.settle()
	if file := n.file(); file == nil || file.IsOpen() {
		t.Fatalf("without an object the file is %+v, want a closed one", file)
	}
	successor := withPods()
	successor.UID, successor.Status.Evidence = "uid-2", v1alpha1.EvidenceTakenOver
	n.objects = []*v1alpha1.NetworkInterface{successor}
	told := n.pass()
	if len(told) != 1 || !told[0].Open || n.isOpen() || n.file().UID != "uid-2" {
		t.Errorf("reported %+v, and the file is %+v; want the hold before pods can attach", told, n.file())
	}
	if report := n.settle(); !n.isOpen() || report.Pods.Used != 1 {
		t.Errorf("reported %+v", report.Pods)
	}
}

// No pod needs the folder of an object that is gone once its pods have ended.
func TestTheFolderOfNoObjectGoes(t *testing.T) {
	n := newNode(t, withPods())
	n.settle()
	n.lease("10.0.4.17")
	n.lease("10.0.4.18", func(l *podnet.Lease) { l.Netns = filepath.Join(t.TempDir(), "cni-1") }) // its pod is gone
	n.objects = nil
	n.settle()
	if n.file() == nil {
		t.Fatal("the folder goes under a pod")
	}
	n.ends("10.0.4.17")
	n.ends("10.0.4.18")
	n.settle()
	if _, err := os.Stat(filepath.Join(n.PodsDir, "n3")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder stays: %v", err)
	}
	if saved := n.checkpoint(); len(saved) != 0 {
		t.Errorf("the checkpoint has %+v", saved)
	}
}

// A successor is opened while its predecessor, which was torn away, keeps the leases of its pods.
func TestASuccessorIsOpenedBesideItsPredecessor(t *testing.T) {
	n := newNode(t, withPods())
	n.settle()
	n.lease("10.0.4.17")
	successor := withPods()
	successor.UID, successor.Status.ENIID, successor.Status.MACAddress = "uid-2", "eni-2", "02:00:00:00:00:0b"
	n.objects = []*v1alpha1.NetworkInterface{successor}
	if report := n.settle(); !report.Open || !report.Pods.Ready {
		t.Errorf("reported %+v", report)
	}
	all, err := podlease.All(n.PodsDir)
	if err != nil || !slices.Equal(all["n3"], []string{"eni-1", "eni-2"}) || n.isOpen() {
		t.Errorf("the folders are %v, %v; pods can attach to the former one: %t", all, err, n.isOpen())
	}
	n.ends("10.0.4.17")
	n.settle()
	if all, err = podlease.All(n.PodsDir); err != nil || !slices.Equal(all["n3"], []string{"eni-2"}) {
		t.Errorf("the folders are %v, %v", all, err)
	}
}

// Leases that are lost under running pods leave the interface held until the node boots.
func TestLostLeases(t *testing.T) {
	n := newNode(t, withPods())
	n.settle()
	if err := os.RemoveAll(n.PodsDir); err != nil {
		t.Fatal(err)
	}
	n.restart()
	report := n.settle()
	if !report.Open || n.file() != nil || report.Pods.Reason != "LeasesLost" {
		t.Errorf("reported %+v, and the file is %+v", report.Pods, n.file())
	}
	n.remove()
	if report = n.settle(); !report.Open {
		t.Errorf("to be removed: reported %+v", report)
	}
	n.boot()
	if report = n.settle(); report.Open {
		t.Errorf("after a boot: reported %+v", report)
	}
}

// An interface that is no network for pods any more is let go after a boot: no lease is left of it.
func TestABootAfterTheEndOfANetwork(t *testing.T) {
	n := newNode(t, withPods())
	n.settle()
	n.change(func(i *v1alpha1.NetworkInterface) { i.Spec.Pods = nil })
	n.boot()
	if report := n.settle(); report.Open {
		t.Errorf("reported %+v", report)
	}
	if _, err := os.Stat(filepath.Join(n.PodsDir, "n3")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder stays: %v", err)
	}
}

// A node that boots without the API server opens what its checkpoint has, if instance metadata shows it as well.
func TestABootWithoutTheAPIServer(t *testing.T) {
	shows := &eni.Metadata{InstanceID: instance, Interfaces: []eni.Interface{{ID: "eni-1", MAC: mac, Addresses: eni.Addresses{
		IPv4Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.4.32/28")}}}}}
	for name, tc := range map[string]struct {
		known    *eni.Metadata
		disabled bool
		want     []netip.Prefix
	}{
		"instance metadata shows one prefix":    {shows, false, []netip.Prefix{netip.MustParsePrefix("10.0.4.32/28")}},
		"instance metadata does not answer":     {nil, false, nil},
		"the interface is not attached":         {&eni.Metadata{InstanceID: instance}, false, nil},
		"the instance is another one":           {&eni.Metadata{InstanceID: "i-0fedcba9876543210", Interfaces: shows.Interfaces}, false, nil},
		"the agent does not serve pod networks": {shows, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, withPods())
			n.settle()
			n.PodsDisabled = tc.disabled
			n.boot()
			n.offline, n.known = true, tc.known
			n.pass()
			if n.isOpen() != (tc.want != nil) {
				t.Fatalf("pods can attach: %t", n.isOpen())
			}
			if tc.want != nil && !slices.Equal(n.file().IPv4.Prefixes, tc.want) {
				t.Errorf("the prefixes are %v, want %v", n.file().IPv4.Prefixes, tc.want)
			}
			n.offline = false
			n.known = nil
			report := n.settle()
			if !tc.disabled && (!report.Open || !n.isOpen() || len(n.file().IPv4.Prefixes) != 2) {
				t.Errorf("with the API server: reported %+v, and the file is %+v", report, n.file())
			}
			if tc.disabled && report.Open {
				t.Errorf("with the API server: reported %+v", report)
			}
		})
	}
}

// Nothing is let go before the checkpoint has forgotten it: a boot without the API server would open it.
func TestNothingIsLetGoBeforeTheCheckpointHasIt(t *testing.T) {
	n := newNode(t, withPods())
	n.settle()
	if err := errors.Join(os.RemoveAll(n.StateDir), os.WriteFile(n.StateDir, nil, 0o600)); err != nil { // as on a full disk
		t.Fatal(err)
	}
	n.remove()
	for range 3 {
		p, err := n.tryPass()
		if err == nil || !strings.Contains(err.Error(), "store the checkpoint") {
			t.Fatalf("the checkpoint is stored: %v", err)
		}
		n.answer(p)
	}
	if report := n.objects[0].Status.Node; !report.Open || n.isOpen() {
		t.Errorf("reported %+v; pods can attach: %t", report, n.isOpen())
	}
	if err := os.Remove(n.StateDir); err != nil {
		t.Fatal(err)
	}
	if report := n.settle(); report.Open {
		t.Errorf("once the checkpoint can be stored: reported %+v", report)
	}
}
