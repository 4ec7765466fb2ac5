// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/executor"
)

// TestANodeThatEndsLeadsToItsPreJoinInterfaces checks that a change of a Node also concerns the name in the tags of a
// pre-join interface. The interface is not attached, so no change in EC2 announces it after the end of its instance.
func TestANodeThatEndsLeadsToItsPreJoinInterfaces(t *testing.T) {
	onStage(t, func(s *stage) {
		m := identity.Member{
			Cluster: cluster, NodeENI: "multus", Node: instanceID, InstanceID: instanceID,
			Key: identity.Key{Owner: identity.NetworkOwner("multus")}, Generation: identity.GenerationAt(time.Now()),
		}
		_, err := s.cloud.CreateInterface(s.Context(), executor.CreateRequest{
			Token: m.Token(), SubnetID: data, Groups: []string{group}, Tags: m.Tags(time.Now(), nil),
		})
		s.must(err)
		s.must(s.play(time.Minute))
		was := &corev1.Node{}
		was.Name, was.Spec.ProviderID = "node-2", "aws:///"+zone+"/"+instanceID
		if got := s.reconciler.DuplicateNodes(s.Context(), was); !slices.Contains(got, instanceID) {
			t.Errorf("the end of the Node concerns %v, want also %s", got, instanceID)
		}
	})
}
