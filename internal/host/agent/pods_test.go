// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/agent"
	"github.com/multieni/multieni/internal/host/podlease"
)

const device = "0000:00:06.0"

// withPods is the state of a node with one attached interface of NodeENI n3, which has two prefixes and keeps one. The agent
// reported its network before.
func withPods() *v1alpha1.NodeENIState {
	return &v1alpha1.NodeENIState{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "NodeENIState"},
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", ResourceVersion: "1"},
		Status: v1alpha1.NodeENIStateStatus{
			ObservedGeneration: 1,
			Interfaces: []v1alpha1.InterfaceState{{
				Member: v1alpha1.Member{NodeENI: "n3", NodeENIUID: "uid"}, Phase: v1alpha1.PhaseAttached, ENIID: "eni-1", MACAddress: mac,
				PrivateIP: "10.0.4.5", SubnetCIDR: "10.0.4.0/24", IPv4Prefixes: []string{"10.0.4.16/28", "10.0.4.32/28"},
				RequestedAddresses: []string{"10.0.4.16/28", "10.0.4.32/28"},
				Pods:               &v1alpha1.InterfacePods{Attachment: v1alpha1.PodAttachmentIPVLAN, IPv4Prefixes: 1, IPv4MaxPrefixes: 4, Spare: 8, Routes: []string{"10.60.0.0/16"}, Opened: true},
			}},
			Links:       []v1alpha1.LinkState{{MACAddress: mac, NodeENI: "n3", ENIID: "eni-1", PCIAddress: device}},
			PodNetworks: []v1alpha1.PodNetworkState{{Network: "n3", NodeENI: "n3", ENIID: "eni-1"}},
		},
	}
}

// node has the folders of a node, and the reports of its agent.
type node struct {
	*testing.T
	networks, leases string
	// lost is set if the node has no link of the interface.
	lost bool
	// instance is the instance ID in instance metadata; empty if instance metadata does not answer.
	instance string
	// addresses observes the addresses of pods; nil if the agent may not observe them.
	addresses agent.PodAddresses
	// providerID is that of the Node, and stateDir the folder of the checkpoint; empty for none.
	providerID, stateDir string
}

// report runs an agent until its first report, and returns the pod networks in it.
func (n node) report(state *v1alpha1.NodeENIState) []v1alpha1.PodNetworkState {
	n.Helper()
	return n.reportUntil(state, func([]v1alpha1.PodNetworkState) bool { return true })
}

// reportUntil runs an agent until a report satisfies the condition.
func (n node) reportUntil(state *v1alpha1.NodeENIState, wanted func([]v1alpha1.PodNetworkState) bool) []v1alpha1.PodNetworkState {
	n.Helper()
	reports := make(chan []v1alpha1.PodNetworkState, 100)
	kubeNode := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", ResourceVersion: "1"}, Spec: corev1.NodeSpec{ProviderID: n.providerID}}
	server := serve(n.T, state, kubeNode, func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "nodeenistates") {
			var told v1alpha1.NodeENIState
			content, err := io.ReadAll(r.Body)
			if err == nil {
				err = json.Unmarshal(content, &told)
			}
			if err != nil {
				n.Error(err)
			}
			reports <- told.Status.PodNetworks
		}
		return false
	})
	api, err := agent.Connect(&rest.Config{Host: server.URL}, "node-1")
	if err != nil {
		n.Fatal(err)
	}
	ctx, stop := context.WithTimeout(n.Context(), 10*time.Second)
	defer stop()
	// The link is in the namespace of a pod, so nothing is left to configure.
	host := &paper{touched: map[int]int{}, events: make(chan struct{}), facts: hostnet.Facts{Away: []string{device}}}
	if n.lost {
		host.facts = hostnet.Facts{}
	}
	o := agent.Options{
		Node: "node-1", API: api, Host: host, Resync: time.Minute, DefaultMTU: 9001, NetworksDir: n.networks, LeasesDir: n.leases, Log: slog.New(slog.DiscardHandler),
		PodAddresses: n.addresses, StateDir: n.stateDir,
	}
	if n.instance != "" {
		o.Metadata = func(context.Context) (eni.Metadata, error) { return eni.Metadata{InstanceID: n.instance}, nil }
	}
	a := agent.New(o)
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	var told []v1alpha1.PodNetworkState
	for fits := false; !fits; {
		select {
		case told = <-reports:
			fits = wanted(told)
		case <-ctx.Done():
			n.Errorf("the agent has not reported what is wanted, at last %+v", told)
			fits = true
		}
	}
	stop()
	if err := <-ended; err != nil {
		n.Error(err)
	}
	return told
}

// passes is a host that counts the reads of the agent.
type passes struct {
	*paper
	looks atomic.Int32
	many  chan struct{}
}

func (p *passes) Facts(devices []string) (hostnet.Facts, error) {
	if p.looks.Add(1) == manyLooks {
		close(p.many)
	}
	return p.paper.Facts(devices)
}

// manyLooks is more than the reads that one pass makes.
const manyLooks = 12

// reports runs an agent with instance metadata for several passes, and returns the pod networks of each report.
func (n node) reports(state *v1alpha1.NodeENIState) [][]v1alpha1.PodNetworkState {
	n.Helper()
	var told [][]v1alpha1.PodNetworkState
	server := serveNode(n.T, state, func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "nodeenistates") {
			var report v1alpha1.NodeENIState
			if err := json.NewDecoder(r.Body).Decode(&report); err != nil {
				n.Error(err)
			}
			told = append(told, report.Status.PodNetworks)
		}
		return false
	})
	api, err := agent.Connect(&rest.Config{Host: server.URL}, "node-1")
	if err != nil {
		n.Fatal(err)
	}
	host := &passes{paper: &paper{touched: map[int]int{}, events: make(chan struct{})}, many: make(chan struct{})}
	ctx, stop := context.WithTimeout(n.Context(), 30*time.Second)
	defer stop()
	known := make(chan struct{})
	a := agent.New(agent.Options{
		Node: "node-1", API: api, Host: host, Resync: 10 * time.Millisecond, DefaultMTU: 9001, NetworksDir: n.networks, LeasesDir: n.leases,
		Log: slog.New(slog.DiscardHandler),
		Metadata: func(context.Context) (eni.Metadata, error) {
			host.looks.Store(0) // earlier passes do not count
			close(known)
			return eni.Metadata{InstanceID: n.instance}, nil
		},
	})
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	for _, wait := range []chan struct{}{known, host.many} {
		select {
		case <-wait:
		case <-ctx.Done():
			n.Error("the agent did not look often enough")
		}
	}
	stop()
	if err := <-ended; err != nil {
		n.Error(err)
	}
	return told
}

func (n node) file() podnet.Network {
	n.Helper()
	content, err := os.ReadFile(filepath.Join(n.networks, "n3.json"))
	if err != nil {
		n.Fatal(err)
	}
	network, err := podnet.ParseNetwork(content)
	if err != nil {
		n.Fatal(err)
	}
	return network
}

// lease gives an address to pod upf/upf-0.
func (n node) lease(address string) {
	n.Helper()
	store, err := podlease.Open(n.leases, "n3")
	if err != nil {
		n.Fatal(err)
	}
	defer store.Close()
	err = store.Put(podnet.Lease{
		Address: netip.MustParseAddr(address), Since: time.Now(),
		Holder: podnet.Holder{ContainerID: address, Interface: "net1", PodNamespace: "upf", Pod: "upf-0"},
	})
	if err != nil {
		n.Fatal(err)
	}
}

// TestTheAgentServesAPodNetwork follows a prefix from its assignment until the controller may return it to EC2.
func TestTheAgentServesAPodNetwork(t *testing.T) {
	n := node{T: t, networks: filepath.Join(t.TempDir(), "networks"), leases: t.TempDir()}
	n.lease("10.0.4.17")
	state := withPods()
	state.Status.PodNetworks, state.Status.Interfaces[0].Pods.Opened = nil, false
	want := v1alpha1.PodNetworkState{
		Network: "n3", NodeENI: "n3", ENIID: "eni-1", Ready: true, Reason: v1alpha1.ReasonNetworkReady, Message: "the file of the network is written",
		Used: 1, Free: 31, Capacity: 32, Pods: []v1alpha1.PodReference{{Namespace: "upf", Name: "upf-0"}},
		Prefixes: []v1alpha1.PodPrefix{
			{CIDR: "10.0.4.16/28", Used: 1, Phase: v1alpha1.PodPrefixActive}, {CIDR: "10.0.4.32/28", Phase: v1alpha1.PodPrefixActive},
		},
	}
	says := func(step string) {
		t.Helper()
		told := n.report(state)
		if diff := cmp.Diff([]v1alpha1.PodNetworkState{want}, told); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", step, diff)
		}
		state.Status.PodNetworks = told
	}
	opened := want
	want.Ready, want.Reason, want.Message, want.Capacity = false, v1alpha1.ReasonNetworkPending, "pods can attach once the controller has recorded this report", 0
	says("a new network")
	if !n.file().Draining {
		t.Error("pods can attach before the API server has a report of the network")
	}
	state.Status.Links[0].Message = "other" // makes the agent report
	says("a network that the controller has not recorded")
	if !n.file().Draining {
		t.Error("pods can attach before the controller has recorded that the network is open")
	}
	want, state.Status.Interfaces[0].Pods.Opened = opened, true
	says("a reported network")
	file := n.file()
	if file.Draining {
		t.Error("pods cannot attach to a reported network")
	}
	if file.Link != "net-n3" || file.ENI != "eni-1" || file.MTU != 9001 || file.IPv4.Gateway.String() != "10.0.4.1" || len(file.Routes) != 1 {
		t.Errorf("the file has %+v", file)
	}

	// Ten minutes later no pod used the second prefix.
	for p := range file.IPv4.Prefixes {
		file.IPv4.Prefixes[p].Since = file.IPv4.Prefixes[p].Since.Add(-11 * time.Minute)
	}
	n.write(file)
	want.Free, want.Capacity, want.Prefixes[1].Phase = 15, 16, v1alpha1.PodPrefixDraining
	says("an idle prefix")
	if !n.file().IPv4.Prefixes[1].Draining {
		t.Error("the file does not have the mark")
	}

	// The node reboots: the file is gone, and the report has the mark.
	if err := os.RemoveAll(n.networks); err != nil {
		t.Fatal(err)
	}
	state.Status.Links[0].Message = "another" // makes the agent report
	says("a draining prefix after a reboot")
	if !n.file().IPv4.Prefixes[1].Draining {
		t.Error("the file lost the mark")
	}

	// A pod that got its address before the mark keeps the prefix from being drained.
	n.lease("10.0.4.40")
	want.Used, want.Capacity, want.Prefixes[1].Used = 2, 17, 1
	says("a pod that was faster")
	if err := os.Remove(filepath.Join(n.leases, "n3", "10.0.4.40.json")); err != nil {
		t.Fatal(err)
	}
	want.Used, want.Capacity, want.Prefixes[1].Used, want.Prefixes[1].Phase = 1, 16, 0, v1alpha1.PodPrefixDrained
	says("a drained prefix")

	// The controller no longer lists the interface. A pod keeps the network, and no further pod can attach.
	state.Status.Interfaces[0].Phase = v1alpha1.PhaseDetaching
	if told := n.report(state); len(told) != 1 || told[0].Used != 1 || told[0].Drained || !n.file().Draining {
		t.Errorf("reported %+v, and further pods get no address: %t; want one pod that keeps the network", told, n.file().Draining)
	}
	if err := os.Remove(filepath.Join(n.leases, "n3", "10.0.4.17.json")); err != nil {
		t.Fatal(err)
	}
	if told := n.report(state); told != nil {
		t.Errorf("reported without an interface: %+v", told)
	}
	if _, err := os.Stat(filepath.Join(n.networks, "n3.json")); err == nil {
		t.Error("the file outlives its interface")
	}
}

// An agent that ends after it wrote the file and before it reported loses nothing: the next one first reports the mark.
// The checkpoint has only reported marks, and without the mark a pod could get an address of the prefix after a boot.
func TestAPrefixIsDrainedOnlyAfterItsMarkWasReported(t *testing.T) {
	n := node{T: t, networks: filepath.Join(t.TempDir(), "networks"), leases: t.TempDir()}
	state := withPods()
	state.Status.PodNetworks = n.report(state)
	file := n.file()
	file.IPv4.Prefixes[1].Draining = true
	n.write(file)
	for _, want := range []v1alpha1.PodPrefixPhase{v1alpha1.PodPrefixDraining, v1alpha1.PodPrefixDrained} {
		state.Status.PodNetworks = n.report(state)
		if got := state.Status.PodNetworks[0].Prefixes[1].Phase; got != want {
			t.Errorf("the prefix is reported as %s, want %s", got, want)
		}
	}
}

// TestANetworkDrainsBeforeItsInterfaceGoes: the controller detaches an interface only after a report that no pod can
// have an address of it, and the agent lets no pod attach after that report.
func TestANetworkDrainsBeforeItsInterfaceGoes(t *testing.T) {
	n := node{T: t, networks: filepath.Join(t.TempDir(), "networks"), leases: t.TempDir()}
	state := withPods()
	says := func(step string, drained, open bool, reason string) {
		t.Helper()
		told := n.report(state)
		if len(told) != 1 || told[0].Drained != drained || told[0].Reason != reason {
			t.Fatalf("%s: reported %+v, want drained %t and %s", step, told, drained, reason)
		}
		if n.file().Draining == open {
			t.Errorf("%s: pods can get an address: %t, want %t", step, !open, open)
		}
		state.Status.PodNetworks = told
	}
	says("in use", false, true, v1alpha1.ReasonNetworkReady)
	state.Status.Interfaces[0].Pods.Draining = true
	n.lease("10.0.4.17")
	says("to be removed, with a pod that started a moment ago", false, false, v1alpha1.ReasonNetworkDraining)
	if err := os.Remove(filepath.Join(n.leases, "n3", "10.0.4.17.json")); err != nil {
		t.Fatal(err)
	}
	says("without the pod", true, false, v1alpha1.ReasonNetworkDraining)
	state.Status.Interfaces[0].Pods.Draining = false
	says("to stay after all", false, false, v1alpha1.ReasonNetworkPending)
	says("once the API server knows", false, true, v1alpha1.ReasonNetworkReady)
}

// A network without a link drains as well: without the report the controller would never detach its interface.
func TestANetworkWithoutItsLinkDrains(t *testing.T) {
	n := node{T: t, networks: filepath.Join(t.TempDir(), "networks"), leases: t.TempDir(), lost: true, instance: "i-0123456789abcdef0"}
	state := withPods()
	state.Spec.InstanceID = n.instance
	if told := n.report(state); len(told) != 1 || told[0].Ready || told[0].Drained || told[0].Reason == v1alpha1.ReasonNetworkDraining {
		t.Fatalf("reported %+v, want a network that is neither ready nor drained", told)
	}
	state.Status.Interfaces[0].Pods.Draining = true
	n.reportUntil(state, func(told []v1alpha1.PodNetworkState) bool {
		return len(told) == 1 && told[0].Drained && told[0].Reason == v1alpha1.ReasonNetworkDraining
	})
	if !n.file().Draining {
		t.Error("pods can get an address of a network that was reported as drained")
	}
}

// The same goes for an interface whose attachment EC2 never completed.
func TestANetworkWithoutAnAttachmentDrains(t *testing.T) {
	n := node{T: t, networks: filepath.Join(t.TempDir(), "networks"), leases: t.TempDir(), lost: true, instance: "i-0123456789abcdef0"}
	state := withPods()
	state.Spec.InstanceID, state.Status.Interfaces[0].Phase = n.instance, v1alpha1.PhaseAttaching
	state.Status.Interfaces[0].Pods.Draining = true
	n.reportUntil(state, func(told []v1alpha1.PodNetworkState) bool { return len(told) == 1 && told[0].Drained })
}

// A state that was written after its NodeENI was deleted does not have the range of the subnet. Without the report the
// controller would never detach the interface.
func TestANetworkWithoutARangeDrains(t *testing.T) {
	for _, attachment := range []v1alpha1.PodAttachment{v1alpha1.PodAttachmentIPVLAN, v1alpha1.PodAttachmentHostDevice} {
		t.Run(string(attachment), func(t *testing.T) {
			n := node{T: t, networks: filepath.Join(t.TempDir(), "networks"), leases: t.TempDir()}
			state := withPods()
			i := &state.Status.Interfaces[0]
			i.SubnetCIDR, i.Pods.Attachment, i.Pods.Draining = "", attachment, true
			n.lease("10.0.4.17")
			n.reportUntil(state, func(told []v1alpha1.PodNetworkState) bool {
				return len(told) == 1 && told[0].Used == 1 && !told[0].Drained && told[0].Reason == v1alpha1.ReasonNetworkDraining
			})
			if err := os.Remove(filepath.Join(n.leases, "n3", "10.0.4.17.json")); err != nil {
				t.Fatal(err)
			}
			n.reportUntil(state, func(told []v1alpha1.PodNetworkState) bool { return len(told) == 1 && told[0].Drained })
		})
	}
}

// After a boot the agent knows marks only from the last report, and the controller may be about to unassign the prefix.
// So every report has the marks.
func TestAReportOfANetworkWithoutItsLinkHasTheMarks(t *testing.T) {
	n := node{T: t, networks: filepath.Join(t.TempDir(), "networks"), leases: t.TempDir(), lost: true}
	state := withPods()
	state.Status.PodNetworks[0].Prefixes = []v1alpha1.PodPrefix{
		{CIDR: "10.0.4.16/28", Used: 7, Phase: v1alpha1.PodPrefixActive}, {CIDR: "10.0.4.32/28", Phase: v1alpha1.PodPrefixDrained},
	}
	want := []v1alpha1.PodPrefix{{CIDR: "10.0.4.32/28", Phase: v1alpha1.PodPrefixDraining}}
	n.reportUntil(state, func(told []v1alpha1.PodNetworkState) bool { return len(told) == 1 && cmp.Equal(told[0].Prefixes, want) })
}

// A report that omits the network of running pods, or reports it as drained, would let the controller detach their
// interface. So an agent that does not know the networks writes no report.
func TestAnAgentThatCannotTellTheNetworksReportsNothing(t *testing.T) {
	const instance = "i-0123456789abcdef0"
	for name, change := range map[string]func(node, *v1alpha1.NodeENIState){
		"the state is of another instance of that name": func(_ node, state *v1alpha1.NodeENIState) {
			state.Spec.InstanceID = "i-0fedcba9876543210"
			state.Status.Interfaces[0].Pods.Draining = true
		},
		"a file of a network cannot be read": func(n node, _ *v1alpha1.NodeENIState) {
			if err := os.MkdirAll(filepath.Join(n.networks, "n3.json"), 0o755); err != nil {
				n.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := node{T: t, networks: filepath.Join(t.TempDir(), "networks"), leases: t.TempDir(), lost: true, instance: instance}
			state := withPods()
			state.Spec.InstanceID = instance
			change(n, state)
			for _, told := range n.reports(state) {
				if len(told) == 0 || told[0].Drained {
					t.Errorf("reported %+v", told)
				}
			}
		})
	}
}

// The agent removes the file of a network that no state lists even if the file is invalid. The API server would refuse
// a report without an interface, and with it the report about links.
func TestAnUnreadableFileOfNoNetworkIsRemoved(t *testing.T) {
	n := node{T: t, networks: t.TempDir(), leases: t.TempDir()}
	file := filepath.Join(n.networks, "n3.json")
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.lease("10.0.4.17")
	state := withPods()
	state.Status.Interfaces[0].Phase = v1alpha1.PhaseDetaching
	if told := n.report(state); len(told) > 0 {
		t.Errorf("reported %+v", told)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the file stays")
	}
}

func (n node) write(network podnet.Network) {
	n.Helper()
	content, err := network.Encode()
	if err == nil {
		err = podlease.WriteFile(filepath.Join(n.networks, "n3.json"), content)
	}
	if err != nil {
		n.Fatal(err)
	}
}

// TestMarksOutliveTheAPIServer: an agent that starts without the API server has the marks from its checkpoint, since the
// controller may unassign a prefix that was reported as drained.
func TestMarksOutliveTheAPIServer(t *testing.T) {
	state := withPods()
	state.Status.PodNetworks = []v1alpha1.PodNetworkState{{Network: "n3", NodeENI: "n3", ENIID: "eni-1", Used: 7, Prefixes: []v1alpha1.PodPrefix{
		{CIDR: "10.0.4.16/28", Used: 7, Phase: v1alpha1.PodPrefixActive}, {CIDR: "10.0.4.32/28", Phase: v1alpha1.PodPrefixDrained},
	}}}
	want := []v1alpha1.PodNetworkState{{Network: "n3", NodeENI: "n3", ENIID: "eni-1", Prefixes: []v1alpha1.PodPrefix{
		{CIDR: "10.0.4.32/28", Phase: v1alpha1.PodPrefixDraining},
	}}}
	if diff := cmp.Diff(want, agent.Checkpoint(state).Status.PodNetworks); diff != "" {
		t.Errorf("the checkpoint has (-want +got):\n%s", diff)
	}
}
