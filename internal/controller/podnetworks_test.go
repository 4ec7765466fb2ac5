// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"testing"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
)

// TestReportsThatCannotChangeAreOutdated expects that the controller evicts no pods of a report that its agent cannot
// correct, and asks no user to move them.
func TestReportsThatCannotChangeAreOutdated(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, stateOf string
		outdated        bool
	}{
		"the agent serves the network":            {v1alpha1.ReasonNetworkReady, "i-1", false},
		"the agent runs without pod networks":     {v1alpha1.ReasonPodNetworksDisabled, "i-1", true},
		"another instance registered as the node": {v1alpha1.ReasonNetworkReady, "i-2", true},
	} {
		t.Run(name, func(t *testing.T) {
			state := &v1alpha1.NodeENIState{
				Spec:   v1alpha1.NodeENIStateSpec{InstanceID: tc.stateOf},
				Status: v1alpha1.NodeENIStateStatus{PodNetworks: []v1alpha1.PodNetworkState{{ENIID: "eni-1", Reason: tc.reason, Used: 1}}},
			}
			if got := controller.PodNetworks(state, "i-1")["eni-1"]; got.Outdated != tc.outdated {
				t.Errorf("the report is outdated: %t, want %t", got.Outdated, tc.outdated)
			}
		})
	}
}
