// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"net/http"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/fault"
)

// TestAnEditThatIsTakenBackLeavesNoReason moves an interface to another subnet, makes EC2 refuse the detach, and
// reverts the edit.
func TestAnEditThatIsTakenBackLeavesNoReason(t *testing.T) {
	onStage(t, func(s *stage) {
		s.must(s.play(time.Minute))
		edit := func(subnet string) {
			s.both(func(c client.Client) {
				s.nodeENI(c, func(n *v1alpha1.NodeENI) {
					n.Generation++
					n.Spec.UpdatePolicy, n.Spec.SubnetIDs = v1alpha1.UpdateReplace, []string{subnet}
				})
			})
		}
		_, err := s.ec2.AddFault(fault.Fault{Kind: fault.Error, Action: "DetachNetworkInterface", Code: "UnauthorizedOperation", Status: http.StatusForbidden})
		s.must(err)
		edit(hosts)
		_ = s.play(time.Minute)
		if got := s.served(); got.Reason == "" {
			t.Fatalf("the refused detach has no reason: %+v", got)
		}
		edit(data)
		_ = s.play(10 * time.Second)
		if got := s.served(); got.Phase != v1alpha1.PhaseAttached || got.Reason != "" {
			t.Errorf("%s, %s: %s", got.Phase, got.Reason, got.Message)
		}
	})
}
