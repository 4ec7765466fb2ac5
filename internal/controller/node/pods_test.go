// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
)

// served returns the first interface of the NodeENIState, with what the agent is asked to serve.
func (s *stage) served() v1alpha1.InterfaceState {
	s.Helper()
	var state v1alpha1.NodeENIState
	s.must(s.cache.Get(s.Context(), client.ObjectKey{Name: nodeName}, &state))
	return state.Status.Interfaces[0]
}

// TestPodsKeepTheirNetworkWhenTheSpecLosesIt removes spec.pods while a pod has an address: the agent is still asked to serve the
// network, and EC2 keeps the prefix, until the pod is gone.
func TestPodsKeepTheirNetworkWhenTheSpecLosesIt(t *testing.T) {
	onStage(t, func(s *stage) {
		pods := &v1alpha1.NodeENIPods{Attachment: v1alpha1.PodAttachmentIPVLAN, IPv4: &v1alpha1.PodIPv4{Prefixes: v1alpha1.PodIPv4Prefixes{Min: 1}}}
		s.both(func(c client.Client) { s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.Pods = pods }) })
		s.must(s.play(2 * time.Minute))
		if got := s.served(); len(got.IPv4Prefixes) != 1 || got.Pods == nil {
			t.Fatalf("the interface has prefixes %v and pods %v", got.IPv4Prefixes, got.Pods)
		}
		s.reportPods()
		s.both(func(c client.Client) { s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.Pods = nil }) })
		s.must(s.play(10 * time.Minute))
		if got := s.served(); len(got.IPv4Prefixes) != 1 || got.Pods == nil {
			t.Errorf("with a pod the interface has prefixes %v and pods %v", got.IPv4Prefixes, got.Pods)
		}
		s.state(func(state *v1alpha1.NodeENIState) { state.Status.PodNetworks = nil })
		s.must(s.play(10 * time.Minute))
		if got := s.served(); got.Pods != nil {
			t.Errorf("without a pod the interface has pods %v", got.Pods)
		}
	})
}
