// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
)

// TestFollowingClaims has an agent claim addresses that must not move: EC2 alone would refuse some of them.
func TestFollowingClaims(t *testing.T) {
	attached := v1alpha1.InterfaceState{
		ENIID: "eni-1", Phase: v1alpha1.PhaseAttached, SubnetCIDR: "10.0.4.0/24", Pods: &v1alpha1.InterfacePods{Floating: []string{"10.0.4.0/23", "10.0.9.0/24"}},
	}
	for name, tc := range map[string]struct {
		address string
		change  func(*v1alpha1.InterfaceState)
		follows bool
	}{
		"within the ranges and the subnet":      {"10.0.4.200", nil, true},
		"outside the subnet, within a range":    {"10.0.5.200", nil, false},
		"of another subnet, within its range":   {"10.0.9.200", nil, false},
		"outside the ranges":                    {"10.0.4.200", func(i *v1alpha1.InterfaceState) { i.Pods.Floating = []string{"10.0.4.0/26"} }, false},
		"the router of the subnet":              {"10.0.4.1", nil, false},
		"the last address of the subnet":        {"10.0.4.255", nil, false},
		"the first that EC2 does not reserve":   {"10.0.4.4", nil, true},
		"on an interface that is detached":      {"10.0.4.200", func(i *v1alpha1.InterfaceState) { i.Phase = v1alpha1.PhaseDetaching }, false},
		"on one that the state does not list":   {"10.0.4.200", func(i *v1alpha1.InterfaceState) { i.ENIID = "eni-2" }, false},
		"on one without pods":                   {"10.0.4.200", func(i *v1alpha1.InterfaceState) { i.Pods = nil }, false},
		"on one whose subnet is not known":      {"10.0.4.200", func(i *v1alpha1.InterfaceState) { i.SubnetCIDR = "" }, false},
		"no address at all, written by someone": {"10.0.4", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			i := *attached.DeepCopy()
			if tc.change != nil {
				tc.change(&i)
			}
			state := &v1alpha1.NodeENIState{Status: v1alpha1.NodeENIStateStatus{
				Interfaces:  []v1alpha1.InterfaceState{i},
				PodNetworks: []v1alpha1.PodNetworkState{{ENIID: "eni-1", Claims: []v1alpha1.PodAddressClaim{{Address: tc.address, Sequence: 1}}}},
			}}
			var got, want []string
			for _, claim := range controller.FollowingClaims(state) {
				got = append(got, claim.Address.String())
			}
			if tc.follows {
				want = []string{tc.address}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("claims that may move addresses (-want +got):\n%s", diff)
			}
		})
	}
}
