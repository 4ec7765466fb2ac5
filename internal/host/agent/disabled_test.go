// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/host/agent"
)

// TestAnAgentWithoutPodNetworksErasesNoReport runs an agent without a folder for networks on a node whose pods use an
// interface, as after an upgrade of the chart that lost pods.enabled.
func TestAnAgentWithoutPodNetworksErasesNoReport(t *testing.T) {
	t.Parallel()
	n := node{T: t}
	state := withPods()
	last := &state.Status.PodNetworks[0]
	last.Ready, last.Used, last.Capacity, last.Reason = true, 1, 31, v1alpha1.ReasonNetworkReady
	last.Pods = []v1alpha1.PodReference{{Namespace: "upf", Name: "upf-0"}}
	last.Prefixes = []v1alpha1.PodPrefix{{CIDR: "10.0.4.16/28", Used: 1, Phase: v1alpha1.PodPrefixActive}}
	want := *last.DeepCopy()
	want.Ready, want.Capacity, want.Reason = false, 0, v1alpha1.ReasonPodNetworksDisabled
	told := n.report(state)
	if len(told) != 1 || told[0].Message == "" {
		t.Fatalf("reported %+v, want the last report", told)
	}
	told[0].Message = ""
	if diff := cmp.Diff(want, told[0]); diff != "" {
		t.Errorf("the report (-want +got):\n%s", diff)
	}
}

// TestDisabledNetworks has an agent without pod networks report each interface for which the controller waits, and
// nothing that would let it detach one that pods use.
func TestDisabledNetworks(t *testing.T) {
	t.Parallel()
	type report struct {
		eni     string
		drained bool
	}
	for name, tc := range map[string]struct {
		change      func(*v1alpha1.NodeENIState)
		unconfirmed bool
		want        []report
	}{
		"a report":         {change: func(*v1alpha1.NodeENIState) {}, want: []report{{"eni-1", false}}},
		"a drained report": {change: func(s *v1alpha1.NodeENIState) { s.Status.PodNetworks[0].Drained = true }, want: []report{{"eni-1", true}}},
		"an open network without a report": {
			change: func(s *v1alpha1.NodeENIState) { s.Status.PodNetworks = nil }, want: []report{{"eni-1", false}},
		},
		"a network that no agent opened": {
			change: func(s *v1alpha1.NodeENIState) {
				s.Status.PodNetworks, s.Status.Interfaces[0].Pods.Opened = nil, false
			}, want: []report{{"eni-1", true}},
		},
		"a network whose record may be lost": {
			change: func(s *v1alpha1.NodeENIState) {
				s.Status.PodNetworks, s.Status.Interfaces[0].Pods.Opened = nil, false
				s.Spec.EarlierInterfaces = []string{"eni-1"}
			}, want: []report{{"eni-1", false}},
		},
		"an interface that the controller no longer lists": {
			change: func(s *v1alpha1.NodeENIState) { s.Status.Interfaces = nil },
		},
		"an interface that the controller does not list yet": {
			change: func(s *v1alpha1.NodeENIState) { s.Status.Interfaces = nil }, unconfirmed: true, want: []report{{"eni-1", false}},
		},
		"pods were removed from the NodeENI, and the network is drained": {
			change: func(s *v1alpha1.NodeENIState) {
				s.Status.PodNetworks[0].Drained, s.Status.Interfaces[0].Pods = true, nil
			},
		},
		"pods were removed from the NodeENI": {
			change: func(s *v1alpha1.NodeENIState) { s.Status.Interfaces[0].Pods = nil }, want: []report{{"eni-1", false}},
		},
		"another interface with the name of the network": {
			change: func(s *v1alpha1.NodeENIState) { s.Status.Interfaces[0].ENIID = "eni-2" }, want: []report{{"eni-2", false}},
		},
		"an interface without pods": {
			change: func(s *v1alpha1.NodeENIState) { s.Status.Interfaces[0].Pods, s.Status.PodNetworks = nil, nil },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := withPods()
			tc.change(state)
			var got []report
			for _, r := range agent.DisabledNetworks(state, !tc.unconfirmed) {
				if got = append(got, report{r.ENIID, r.Drained}); r.Ready || r.Capacity != 0 || r.Reason != v1alpha1.ReasonPodNetworksDisabled {
					t.Errorf("reported %+v", r)
				}
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(report{})); diff != "" {
				t.Errorf("reports (-want +got):\n%s", diff)
			}
		})
	}
}
