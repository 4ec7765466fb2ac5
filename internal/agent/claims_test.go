// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/agent"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/podaddress"
)

// seen is the observation of a test: a pod with an address, or none.
type seen struct {
	address    string
	incomplete bool
	events     chan struct{}
}

func (s *seen) Events() <-chan struct{} { return s.events }

// Namespaces returns the namespace of a pod that has the link of the interface.
func (s *seen) Namespaces() ([]podaddress.Namespace, bool) {
	link := podaddress.Link{Index: 3, MAC: mac}
	if s.address != "" {
		link.Addresses = []netip.Addr{netip.MustParseAddr(s.address)}
	}
	eth0 := podaddress.Link{Index: 2, MAC: "0a:00:00:00:00:01", Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.1")}}
	return []podaddress.Namespace{{ID: 1, Links: []podaddress.Link{eth0, link}}}, !s.incomplete
}

// withFloating is the state of a node with floating ranges.
func withFloating(attachment v1alpha1.PodAttachment, claims ...v1alpha1.PodAddressClaim) *v1alpha1.NodeENIState {
	state := withPods()
	i := &state.Status.Interfaces[0]
	i.IPv4Prefixes = nil
	i.Pods = &v1alpha1.InterfacePods{Attachment: attachment, Floating: []string{"10.0.4.192/26"}, Opened: true}
	state.Status.PodNetworks[0].Claims = claims
	return state
}

func newNode(t *testing.T, addresses *seen) node {
	t.Helper()
	n := node{T: t, networks: filepath.Join(t.TempDir(), "networks"), leases: t.TempDir()}
	if addresses != nil {
		n.addresses = addresses
	}
	return n
}

// claim is an earlier claim on an address.
func claim(address string) v1alpha1.PodAddressClaim {
	return v1alpha1.PodAddressClaim{Address: address, Sequence: 7, Since: metav1.NewMicroTime(time.UnixMicro(7_000_000))}
}

func TestTheAgentReportsAddressesOfPods(t *testing.T) {
	told := newNode(t, &seen{address: "10.0.4.200"}).report(withFloating(v1alpha1.PodAttachmentObserved))
	if len(told) != 1 || !told[0].Ready || told[0].Used != 1 || len(told[0].Claims) != 1 {
		t.Fatalf("reported %+v", told)
	}
	if c := told[0].Claims[0]; c.Address != "10.0.4.200" || c.Sequence == 0 || c.Since.IsZero() || c.ReleasedAt != nil || c.PodIP != "10.1.0.1" {
		t.Errorf("the claim is %+v", c)
	}
}

// TestClaimsAcrossARestart starts an agent with the last report of its predecessor.
func TestClaimsAcrossARestart(t *testing.T) {
	for name, tc := range map[string]struct {
		addresses *seen
		want      func(v1alpha1.PodAddressClaim) bool
	}{
		"the pod still has the address": {&seen{address: "10.0.4.200"}, func(c v1alpha1.PodAddressClaim) bool { return c.Sequence == 7 && c.ReleasedAt == nil }},
		"the pod has it no more":        {&seen{}, func(c v1alpha1.PodAddressClaim) bool { return c.Sequence == 7 && c.ReleasedAt != nil }},
		"not all pods are known yet":    {&seen{incomplete: true}, func(c v1alpha1.PodAddressClaim) bool { return c.Sequence == 7 && c.ReleasedAt == nil }},
		"the agent may not observe":     {nil, func(c v1alpha1.PodAddressClaim) bool { return c.Sequence == 7 && c.ReleasedAt == nil }},
	} {
		t.Run(name, func(t *testing.T) {
			told := newNode(t, tc.addresses).report(withFloating(v1alpha1.PodAttachmentObserved, claim("10.0.4.200")))
			if len(told) != 1 || len(told[0].Claims) != 1 || !tc.want(told[0].Claims[0]) {
				t.Errorf("reported %+v", told)
			}
		})
	}
}

// The agent reports a network that the state of the node no longer lists while a pod has an address of it.
func TestANetworkStaysReportedWhileAPodHasAnAddress(t *testing.T) {
	addresses := &seen{address: "10.0.4.200"}
	n := newNode(t, addresses)
	n.report(withFloating(v1alpha1.PodAttachmentObserved))
	gone := withFloating(v1alpha1.PodAttachmentObserved, claim("10.0.4.200"))
	gone.Status.Interfaces[0].Pods = nil
	told := n.report(gone)
	if len(told) != 1 || told[0].Drained || len(told[0].Claims) != 1 || told[0].Claims[0].ReleasedAt != nil {
		t.Errorf("reported %+v", told)
	}
}

func TestANetworkIsNotDrainedWhileAPodHasAnAddress(t *testing.T) {
	claimed := []v1alpha1.PodAddressClaim{claim("10.0.4.200")}
	for name, tc := range map[string]struct {
		addresses *seen
		attached  v1alpha1.PodAttachment
		claims    []v1alpha1.PodAddressClaim
		drained   bool
	}{
		"a pod brought up an address":          {&seen{address: "10.0.4.200"}, v1alpha1.PodAttachmentObserved, claimed, false},
		"also on an interface of its own":      {&seen{address: "10.0.4.200"}, v1alpha1.PodAttachmentHostDevice, claimed, false},
		"no pod has an address":                {&seen{}, v1alpha1.PodAttachmentObserved, claimed, true},
		"an address that the agent cannot see": {&seen{incomplete: true}, v1alpha1.PodAttachmentObserved, claimed, false},
		"a pod may have one since before":      {&seen{incomplete: true}, v1alpha1.PodAttachmentObserved, nil, false},
		"so may one with an interface":         {&seen{incomplete: true}, v1alpha1.PodAttachmentHostDevice, nil, false},
		"the agent may not observe":            {nil, v1alpha1.PodAttachmentObserved, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			state := withFloating(tc.attached, tc.claims...)
			state.Status.Interfaces[0].Pods.Draining = true
			told := newNode(t, tc.addresses).report(state)
			if len(told) != 1 || told[0].Drained != tc.drained || told[0].Reason != v1alpha1.ReasonNetworkDraining {
				t.Errorf("reported %+v, want drained %t", told, tc.drained)
			}
		})
	}
}

func TestAnAgentThatMayNotObserveSaysSo(t *testing.T) {
	for attachment, ready := range map[v1alpha1.PodAttachment]bool{v1alpha1.PodAttachmentObserved: false, v1alpha1.PodAttachmentHostDevice: true} {
		told := newNode(t, nil).report(withFloating(attachment))
		if len(told) != 1 || told[0].Ready != ready || !strings.Contains(told[0].Message, "pods.observeAddresses") {
			t.Errorf("%s: reported %+v", attachment, told)
		}
	}
}

// TestOtherPodsCauseNoPass sends the events of pods that start and stop without an address of ours: there are many on a node.
func TestOtherPodsCauseNoPass(t *testing.T) {
	addresses := &seen{address: "10.0.4.200", events: make(chan struct{})}
	n := newNode(t, addresses)
	reported := make(chan struct{}, 100)
	server := serveNode(t, withFloating(v1alpha1.PodAttachmentObserved), func(http.ResponseWriter, *http.Request) bool {
		reported <- struct{}{}
		return false
	})
	api, err := agent.Connect(&rest.Config{Host: server.URL}, "node-1")
	if err != nil {
		t.Fatal(err)
	}
	host := &passes{paper: &paper{events: make(chan struct{}), facts: hostnet.Facts{Away: []string{device}}}, many: make(chan struct{})}
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	a := agent.New(agent.Options{
		Node: "node-1", API: api, Host: host, Resync: time.Minute, DefaultMTU: 9001, NetworksDir: n.networks, LeasesDir: n.leases,
		PodAddresses: addresses, Log: slog.New(slog.DiscardHandler),
	})
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	const events = 20
	for range events {
		select {
		case addresses.events <- struct{}{}:
		case <-ctx.Done():
			t.Fatal("the agent receives no events")
		}
	}
	if looks := host.looks.Load(); looks >= events/2 {
		t.Errorf("%d events led to %d passes", events, looks)
	}
	<-reported // the address was seen
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
