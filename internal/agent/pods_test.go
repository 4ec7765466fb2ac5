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
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/agent"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/podlease"
)

const device = "0000:00:06.0"

// withPods is the state of a node with one attached interface of NodeENI n3, which has two prefixes and keeps one.
func withPods() *v1alpha1.NodeENIState {
	return &v1alpha1.NodeENIState{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "NodeENIState"},
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", ResourceVersion: "1"},
		Status: v1alpha1.NodeENIStateStatus{
			ObservedGeneration: 1,
			Interfaces: []v1alpha1.InterfaceState{{
				Member: v1alpha1.Member{NodeENI: "n3", NodeENIUID: "uid"}, Phase: v1alpha1.PhaseAttached, ENIID: "eni-1", MACAddress: mac,
				PrivateIP: "10.0.4.5", SubnetCIDR: "10.0.4.0/24", IPv4Prefixes: []string{"10.0.4.16/28", "10.0.4.32/28"},
				Pods: &v1alpha1.InterfacePods{Attachment: v1alpha1.PodAttachmentIPVLAN, IPv4Prefixes: 1, IPv4MaxPrefixes: 4, Spare: 8, Routes: []string{"10.60.0.0/16"}},
			}},
			Links: []v1alpha1.LinkState{{MACAddress: mac, NodeENI: "n3", ENIID: "eni-1", PCIAddress: device}},
		},
	}
}

// node is the folders of a node, and what its agent reported.
type node struct {
	*testing.T
	networks, leases string
}

// report runs an agent until its first report, and returns the pod networks in it.
func (n node) report(state *v1alpha1.NodeENIState) []v1alpha1.PodNetworkState {
	n.Helper()
	reports := make(chan []v1alpha1.PodNetworkState, 100)
	server := serveNode(n.T, state, func(_ http.ResponseWriter, r *http.Request) bool {
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
	a := agent.New(agent.Options{
		Node: "node-1", API: api, Host: host, Resync: time.Minute, DefaultMTU: 9001, NetworksDir: n.networks, LeasesDir: n.leases, Log: slog.New(slog.DiscardHandler),
	})
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	var told []v1alpha1.PodNetworkState
	select {
	case told = <-reports:
	case <-ctx.Done():
		n.Error("the agent has reported nothing")
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
		Version: podnet.Version, Address: netip.MustParseAddr(address), Since: time.Now(),
		Holder: podnet.Holder{ContainerID: address, Interface: "net1", PodNamespace: "upf", Pod: "upf-0"},
	})
	if err != nil {
		n.Fatal(err)
	}
}

// TestTheAgentServesAPodNetwork follows a prefix from its assignment until the controller may return it to EC2.
func TestTheAgentServesAPodNetwork(t *testing.T) {
	n := node{t, filepath.Join(t.TempDir(), "networks"), t.TempDir()}
	n.lease("10.0.4.17")
	state := withPods()
	want := v1alpha1.PodNetworkState{
		Network: "n3", NodeENI: "n3", ENIID: "eni-1", Ready: true, Reason: v1alpha1.ReasonNetworkReady, Message: "the file of the network is written",
		Used: 1, Free: 31, Pods: []v1alpha1.PodReference{{Namespace: "upf", Name: "upf-0"}},
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
	says("a new network")
	file := n.file()
	if file.Link != "net-n3" || file.ENI != "eni-1" || file.MTU != 9001 || file.IPv4.Gateway.String() != "10.0.4.1" || len(file.Routes) != 1 {
		t.Errorf("the file has %+v", file)
	}

	// Ten minutes later no pod used the second prefix.
	for p := range file.IPv4.Prefixes {
		file.IPv4.Prefixes[p].Since = file.IPv4.Prefixes[p].Since.Add(-11 * time.Minute)
	}
	n.write(file)
	want.Free, want.Prefixes[1].Phase = 15, v1alpha1.PodPrefixDraining
	says("an idle prefix")
	if !n.file().IPv4.Prefixes[1].Draining {
		t.Error("the file does not have the mark")
	}

	// The node reboots: the file is gone, and the report has the mark.
	if err := os.RemoveAll(n.networks); err != nil {
		t.Fatal(err)
	}
	state.Status.Links[0].Message = "another" // so that there is a report
	says("a draining prefix after a reboot")
	if !n.file().IPv4.Prefixes[1].Draining {
		t.Error("the file lost the mark")
	}

	// A pod that got its address before the mark keeps the prefix from being drained.
	n.lease("10.0.4.40")
	want.Used, want.Prefixes[1].Used = 2, 1
	says("a pod that was faster")
	if err := os.Remove(filepath.Join(n.leases, "n3", "10.0.4.40.json")); err != nil {
		t.Fatal(err)
	}
	want.Used, want.Prefixes[1].Used, want.Prefixes[1].Phase = 1, 0, v1alpha1.PodPrefixDrained
	says("a drained prefix")

	// The interface goes, and the file with it.
	state.Status.Interfaces[0].Phase = v1alpha1.PhaseDetaching
	if told := n.report(state); told != nil {
		t.Errorf("reported without an interface: %+v", told)
	}
	if _, err := os.Stat(filepath.Join(n.networks, "n3.json")); err == nil {
		t.Error("the file outlives its interface")
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
