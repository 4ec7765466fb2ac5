// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/internal/core/plan"
)

// TestAPauseHidesNothing checks that the status of a paused node or NodeENI still shows what is attached, and its
// drift.
func TestAPauseHidesNothing(t *testing.T) {
	pause := map[string]string{v1alpha1.PausedAnnotation: ""}
	cases := map[string]func(*stage){
		"the node":    func(s *stage) { s.node(s.cache, func(n *corev1.Node) { n.Annotations = pause }) },
		"the NodeENI": func(s *stage) { s.nodeENI(s.cache, func(n *v1alpha1.NodeENI) { n.Annotations = pause }) },
	}
	for name, paused := range cases {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.must(s.play(time.Minute))
				paused(s)
				s.nodeENI(s.cache, func(n *v1alpha1.NodeENI) { n.Spec.SubnetIDs = []string{hosts} })
				s.must(s.play(time.Minute))

				var state v1alpha1.NodeENIState
				s.must(s.cache.Get(s.Context(), client.ObjectKey{Name: nodeName}, &state))
				st := state.Status
				if len(st.Interfaces) != 1 || st.Attached != 1 || st.Desired != 1 || len(st.Interfaces[0].Drift) != 1 {
					t.Errorf("%d of %d attached: %+v", st.Attached, st.Desired, st.Interfaces)
				}
			})
		})
	}
}

// TestTryingAgainInVainIsNoNews has an interface that waits for an address in a full subnet, and for a taken slot:
// neither a read of EC2 nor a repeated call changes the status.
func TestTryingAgainInVainIsNoNews(t *testing.T) {
	onStage(t, func(s *stage) {
		_, err := s.ec2.AddFault(fault.Fault{Kind: fault.SubnetFull, Resource: data})
		s.must(err)
		s.nodeENI(s.cache, func(n *v1alpha1.NodeENI) { n.Spec.DeviceIndex = 0 }) // where the primary one is
		s.must(s.play(5 * time.Minute))
		before := s.stateVersion()
		s.must(s.play(time.Hour))
		if after := s.stateVersion(); after != before {
			t.Errorf("the status was written: version %s, then %s", before, after)
		}
	})
}

// TestTheReportOfAnAgentIsLeftAlone has an agent on the node that reported all that agents report.
func TestTheReportOfAnAgentIsLeftAlone(t *testing.T) {
	onStage(t, func(s *stage) {
		s.must(s.play(time.Minute))
		var reported, later v1alpha1.NodeENIState
		s.must(s.cache.Get(s.Context(), client.ObjectKey{Name: nodeName}, &reported))
		i := reported.Status.Interfaces[0]
		reported.Status.Links = []v1alpha1.LinkState{{
			MACAddress: i.MACAddress, NodeENI: i.NodeENI, ENIID: i.ENIID, State: v1alpha1.LinkReady, Reason: "LinkReady",
		}}
		reported.Status.CNI = &v1alpha1.CNIState{Ready: true}
		s.must(s.cache.Status().Update(s.Context(), &reported))
		s.must(s.play(time.Hour))
		s.must(s.cache.Get(s.Context(), client.ObjectKey{Name: nodeName}, &later))
		if diff := cmp.Diff(reported, later); diff != "" {
			t.Errorf("(-reported +later):\n%s", diff)
		}
	})
}

func (s *stage) stateVersion() string {
	s.Helper()
	var state v1alpha1.NodeENIState
	s.must(s.cache.Get(s.Context(), client.ObjectKey{Name: nodeName}, &state))
	if reason := state.Status.Interfaces[0].Reason; reason != string(plan.SubnetFull) {
		s.Errorf("the reason is %s", reason)
	}
	return state.ResourceVersion
}
