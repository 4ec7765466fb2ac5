// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
)

// podNetwork is the spec.pods of a network with one prefix.
func podNetwork() *v1alpha1.NodeENIPods {
	return &v1alpha1.NodeENIPods{Attachment: v1alpha1.PodAttachmentIPVLAN, IPv4: &v1alpha1.PodIPv4{Prefixes: v1alpha1.PodIPv4Prefixes{Min: 1}}}
}

// TestAnOldReportEndsNoNetwork removes spec.pods while the last report of the agent still says that the network is drained.
// The agent first learns that the network is to drain, so it does not open the network again.
func TestAnOldReportEndsNoNetwork(t *testing.T) {
	onStage(t, func(s *stage) {
		s.both(func(c client.Client) { s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.Pods = podNetwork() }) })
		s.must(s.play(2 * time.Minute))
		s.reportNetwork(v1alpha1.PodNetworkState{Drained: true})
		s.both(func(c client.Client) { s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.Pods = nil }) })
		var told []string
		for range 60 {
			s.must(s.play(time.Second))
			switch got := s.served().Pods; {
			case got == nil:
				told = append(told, "no network")
			case got.Draining:
				told = append(told, "draining")
			default:
				told = append(told, "open to pods")
			}
		}
		if told = slices.Compact(told); !slices.Contains(told, "draining") || told[len(told)-1] != "no network" {
			t.Errorf("the agent reads %q, want that the network drains before it ends", told)
		}
	})
}
