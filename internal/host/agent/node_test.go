// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/hostpci"
	"github.com/multieni/multieni/internal/core/podaddress"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/agent"
	"github.com/multieni/multieni/internal/host/podlease"
)

const (
	mac    = "02:00:00:00:00:0a"
	device = "0000:00:06.0"
	// objectName is the name of the object of withPods.
	objectName = "n3-" + instance + "-0"
)

// attached is an object with an attached interface.
func attached() *v1alpha1.NetworkInterface {
	return &v1alpha1.NetworkInterface{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "NetworkInterface"},
		ObjectMeta: metav1.ObjectMeta{Name: "web-" + instance + "-0", UID: "uid-web", ResourceVersion: "1", Generation: 1,
			Labels: map[string]string{v1alpha1.InstanceLabel: instance}},
		Spec: v1alpha1.NetworkInterfaceSpec{InstanceID: instance, NodeName: "node-1",
			NodeENI: v1alpha1.NodeENIReference{Name: "web"},
			Subnets: []v1alpha1.InterfaceSubnet{{ID: "subnet-1", CIDR: "10.0.1.0/24", IPv6CIDR: "2600:1f14::/64"}}},
		Status: v1alpha1.NetworkInterfaceStatus{ENIID: "eni-1", MACAddress: mac, SubnetID: "subnet-1",
			Evidence: v1alpha1.EvidenceCreated, Slot: &v1alpha1.InterfaceSlot{NetworkCardIndex: 1, DeviceIndex: 2},
			Addresses: v1alpha1.InterfaceAddresses{PrivateIP: "10.0.1.10", SecondaryPrivateIPs: []string{"10.0.1.11"},
				IPv4Prefixes: []string{"10.0.1.64/28"}, IPv6Addresses: []string{"2600:1f14::10"},
				IPv6Prefixes: []string{"2600:1f14:0:0:1::/80"}}},
	}
}

// withPods is an object with an attached interface of NodeENI n3, which has two prefixes.
func withPods() *v1alpha1.NetworkInterface {
	n := attached()
	n.Name, n.UID, n.Spec.NodeENI.Name = objectName, "uid-n3", "n3"
	n.Spec.Subnets = []v1alpha1.InterfaceSubnet{{ID: "subnet-00000000000000001", CIDR: "10.0.4.0/24"}}
	n.Spec.Pods = &v1alpha1.PodSettings{Attachment: v1alpha1.PodAttachmentIPVLAN, Routes: []string{"10.60.0.0/16"},
		IPv4: &v1alpha1.PodPrefixSettings{Min: 1, Max: 4, Spare: 8}}
	n.Status.SubnetID = "subnet-00000000000000001"
	n.Status.Addresses = v1alpha1.InterfaceAddresses{PrivateIP: "10.0.4.5",
		IPv4Prefixes: []string{"10.0.4.16/28", "10.0.4.32/28"}}
	n.Status.Pods = &v1alpha1.PodPrefixes{Prefixes: []string{"10.0.4.16/28", "10.0.4.32/28"}}
	return n
}

// node is a node; a test runs single passes of its agent. It has real files, and nothing else.
type node struct {
	*testing.T
	agent.Options
	agent   *agent.Agent
	objects []*v1alpha1.NetworkInterface
	node    *corev1.Node
	// offline is set while the API server does not answer, and known is the answer of instance metadata.
	offline bool
	known   *eni.Metadata
	// link is the state of all links with its reason, and index the index of the first one.
	link   hostnet.State
	reason string
	index  int
	bus    hostpci.Facts
	now    time.Time
	// fails is why reports are not written.
	fails error
}

// newNode returns a node with an agent that has just started, and one object.
func newNode(t *testing.T, objects ...*v1alpha1.NetworkInterface) *node {
	t.Helper()
	n := &node{T: t, objects: objects, node: aNode(), link: hostnet.Ready, reason: "Test", index: 7, now: time.Now()}
	n.Options = agent.Options{Node: "node-1", DefaultMTU: 9001, PodsDir: filepath.Join(t.TempDir(), "pods"),
		StateDir: filepath.Join(t.TempDir(), "state"), Addresses: noAddresses{}, Now: func() time.Time { return n.now }, Log: slog.New(slog.DiscardHandler),
		Process: podnet.Process{Boot: "boot-1", ID: "process-0"}}
	n.restart()
	return n
}

// noAddresses is an API server without FloatingAddresses.
type noAddresses struct{ agent.AddressAPI }

func (noAddresses) RecallAddresses(context.Context) error        { return nil }
func (noAddresses) AddressesRecalled() bool                      { return true }
func (noAddresses) AddressesBefore(string) []podaddress.Presence { return nil }

// restart starts another process of the agent.
func (n *node) restart() {
	id, _ := strconv.Atoi(n.Process.ID[len("process-"):])
	n.Process.ID = "process-" + strconv.Itoa(id+1)
	n.agent = agent.New(n.Options)
}

// boot boots the node.
func (n *node) boot() {
	n.Process.Boot += "'"
	if err := os.RemoveAll(n.PodsDir); err != nil {
		n.Fatal(err)
	}
	n.restart()
}

func (n *node) observe(links []hostnet.Link, devices []hostpci.Device, records []hostpci.OriginalBinding) (hostnet.Facts,
	[]hostnet.Observation) {
	var observed []hostnet.Observation
	for at, link := range links {
		o := hostnet.Observation{Link: link, State: n.link, Reason: n.reason, Message: "is of a test"}
		if n.link == hostnet.Ready || n.link == hostnet.Configuring {
			o.Facts = &hostnet.LinkFacts{Index: n.index + at, Name: "ens6", MAC: link.MAC, Device: device}
		}
		observed = append(observed, o)
	}
	for _, d := range devices {
		o := hostnet.Observation{Link: d.Link, State: hostnet.Binding, Reason: hostpci.ReasonBinding,
			Facts: &hostnet.LinkFacts{MAC: d.Link.MAC, Device: device}}
		if n.bus.Holds(device) {
			o.State, o.Reason = hostnet.Bound, hostpci.ReasonBound
		}
		observed = append(observed, o)
	}
	if len(devices) == 0 {
		_, givenBack := hostpci.Plan(nil, records, n.bus, hostnet.Facts{})
		observed = append(observed, givenBack...)
	}
	return hostnet.Facts{}, observed
}

// pass makes one pass, and returns the reports, which the API server has then.
func (n *node) pass() []v1alpha1.NodeReport {
	n.Helper()
	p, err := n.tryPass()
	if err != nil {
		n.Fatal(err)
	}
	return n.answer(p)
}

func (n *node) tryPass() (*agent.Pass, error) {
	reading := agent.Reading{Read: !n.offline, Node: n.node, Metadata: n.known, Observe: n.observe, Bus: n.bus, ReadAt: n.now}
	if !n.offline {
		reading.Interfaces = n.objects
	}
	return n.agent.Serve(n.Context(), reading)
}

// answer writes the reports of a pass.
func (n *node) answer(p *agent.Pass) (reports []v1alpha1.NodeReport) {
	n.Helper()
	for _, r := range p.Reports() {
		reports = append(reports, r.Node)
		if n.fails == nil {
			at := slices.Index(n.objects, r.Interface)
			n.objects[at] = r.Interface.DeepCopy()
			n.objects[at].Status.Node = r.Node.DeepCopy()
		}
		p.Answered(r, n.fails)
	}
	return reports
}

// settle makes passes until nothing is left to do, and returns the last report of the first object; nil if it has none.
func (n *node) settle() *v1alpha1.NodeReport {
	n.Helper()
	for range 8 {
		n.pass()
	}
	if more := n.pass(); len(more) > 0 {
		n.Fatalf("the agent does not end, and reports %+v", more)
	}
	if len(n.objects) == 0 {
		return nil
	}
	return n.objects[0].Status.Node
}

// change changes the first object.
func (n *node) change(change func(*v1alpha1.NetworkInterface)) {
	changed := n.objects[0].DeepCopy()
	change(changed)
	n.objects[0] = changed
}

// remove orders the removal of the first object.
func (n *node) remove() {
	n.change(func(i *v1alpha1.NetworkInterface) { i.DeletionTimestamp = &metav1.Time{Time: n.now} })
}

// path returns a path in the folder of an interface of network n3.
func (n *node) path(file string) string { return filepath.Join(n.PodsDir, "n3", "eni-1", file) }

// file returns the file of network n3; nil for none.
func (n *node) file() *podnet.Network {
	n.Helper()
	content, err := os.ReadFile(n.path("network.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		n.Fatal(err)
	}
	network, err := podnet.ParseNetwork(content)
	if err != nil {
		n.Fatal(err)
	}
	return &network
}

// isOpen reports whether pods can attach to network n3.
func (n *node) isOpen() bool {
	n.Helper()
	file := n.file()
	return file != nil && file.IsOpen()
}

// lease gives an address of network n3 to pod upf/upf-0.
func (n *node) lease(address string, changes ...func(*podnet.Lease)) {
	n.Helper()
	store, err := podlease.Open(n.PodsDir, "n3")
	if err != nil {
		n.Fatal(err)
	}
	defer store.Close()
	boot, err := podlease.ThisBoot(time.Now())
	if err != nil {
		n.Fatal(err)
	}
	l := podnet.Lease{
		Address: netip.MustParseAddr(address), Since: time.Now(),
		Holder: podnet.Holder{ContainerID: address, Interface: "net1", PodNamespace: "upf", Pod: "upf-0", PodUID: "uid-1", BootID: boot.ID},
	}
	for _, change := range changes {
		change(&l)
	}
	if err := store.Put("eni-1", l); err != nil {
		n.Fatal(err)
	}
}

// ends ends the lease of an address, a while ago.
func (n *node) ends(address string) {
	n.Helper()
	n.lease(address, func(l *podnet.Lease) { l.Freed = time.Now().Add(-2 * podnet.RestTime) })
}

// checkpoint returns what the agent has stored as held.
func (n *node) checkpoint() []podnet.Saved {
	n.Helper()
	restarted := agent.New(n.Options)
	read, err := restarted.Checkpoints.Read()
	if err != nil {
		n.Fatal(err)
	}
	if read == nil {
		return nil
	}
	return read.Held
}
