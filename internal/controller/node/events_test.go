// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/fault"
)

func objectMeta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

// TestWhatPeopleHear says which events a change brings about, and that the same state of things brings none.
func TestWhatPeopleHear(t *testing.T) {
	cases := map[string]struct {
		change func(*stage)
		within time.Duration
		want   []string
	}{
		"nothing changes": {change: func(*stage) {}},
		"the label is taken off": {change: func(s *stage) {
			s.both(func(c client.Client) { s.node(c, func(n *corev1.Node) { n.Labels = nil }) })
		}, want: []string{"Detaching", "Removed"}},
		"the subnet is exchanged": {change: func(s *stage) {
			s.both(func(c client.Client) {
				s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.SubnetIDs = []string{hosts} })
			})
		}, want: []string{v1alpha1.ReasonDrifted}},
		"a second subnet is not to be found": {change: func(s *stage) {
			s.both(func(c client.Client) {
				s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.SubnetIDs = []string{data, "subnet-0dead"} })
			})
		}, want: []string{"SubnetNotFound"}},
		"a detach does not end": {change: func(s *stage) {
			_, err := s.ec2.AddFault(fault.Fault{Kind: fault.StuckDetaching})
			s.must(err)
			s.both(func(c client.Client) { s.node(c, func(n *corev1.Node) { n.Labels = nil }) })
		}, within: 20 * time.Minute, want: []string{"Detaching", "ForceDetach", "Removed"}},
		"the node turns out to be no EC2 instance": {change: func(s *stage) {
			s.both(func(c client.Client) { s.node(c, func(n *corev1.Node) { n.Spec.ProviderID = "kind://node-1" }) })
		}, want: []string{"NotAnEC2Instance"}},
		"the node has no providerID for a while": {change: func(s *stage) {
			s.both(func(c client.Client) { s.node(c, func(n *corev1.Node) { n.Spec.ProviderID = "" }) })
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.must(s.play(time.Minute))
				if diff := cmp.Diff([]string{"Attached"}, s.told()); diff != "" {
					t.Fatal(diff)
				}
				tc.change(s)
				s.must(s.play(max(tc.within, 2*time.Minute)))
				if diff := cmp.Diff(tc.want, s.told()); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				s.must(s.play(time.Minute))
				if again := s.told(); name != "the node turns out to be no EC2 instance" && len(again) > 0 {
					t.Errorf("told once more: %v", again)
				}
			})
		})
	}
}
