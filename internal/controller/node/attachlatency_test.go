// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/node"
)

// TestHowLongANodeWaits simulates three minutes in which the node is reconciled every five seconds.
func TestHowLongANodeWaits(t *testing.T) {
	cases := map[string]struct {
		meanwhile func(*stage)
		want      []time.Duration
	}{
		"from the first plan to the one that finds it attached": {func(*stage) {}, []time.Duration{5 * time.Second}},
		"attached is attached, however often it is looked at":   {func(s *stage) { s.must(s.play(2 * time.Minute)) }, []time.Duration{5 * time.Second}},
		"what another controller attached was not waited for": {func(s *stage) {
			s.must(s.play(time.Minute))
			s.waited = nil
			s.reconciler = node.New(s.reconciler.Options)
		}, nil},
		"time that a person needed does not count": {func(s *stage) {
			subnets := func(ids ...string) {
				s.both(func(c client.Client) { s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.SubnetIDs = ids }) })
			}
			subnets("subnet-0dead")
			s.must(s.play(2 * time.Minute))
			subnets(data)
		}, []time.Duration{5 * time.Second}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				tc.meanwhile(s)
				s.must(s.play(time.Minute))
				for n := range s.waited {
					s.waited[n] = s.waited[n].Truncate(time.Second) // EC2's answers take time
				}
				if diff := cmp.Diff(tc.want, s.waited); diff != "" {
					t.Errorf("waited (-want +got):\n%s", diff)
				}
			})
		})
	}
}
