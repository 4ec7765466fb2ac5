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
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/identity"
)

// TestANodeWithTheStartupTaintListsItsNetworks lets a lifecycle hook create an interface after the node joined,
// without a further list of EC2. The agent learns of the link and of the network's settings.
func TestANodeWithTheStartupTaintListsItsNetworks(t *testing.T) {
	for name, tc := range map[string]struct {
		taint string
		age   time.Duration
		waits bool
	}{
		"a young node":             {v1alpha1.NotReadyTaint, 0, true},
		"a node of an hour":        {v1alpha1.NotReadyTaint, time.Hour, false},
		"a node that takes pods":   {"", 0, false},
		"a node that others taint": {"node.cilium.io/agent-not-ready", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.both(func(c client.Client) {
					s.node(c, func(n *corev1.Node) {
						n.Labels, n.CreationTimestamp = nil, metav1.NewTime(time.Now().Add(-tc.age))
						if tc.taint != "" {
							n.Spec.Taints = []corev1.Taint{{Key: tc.taint, Effect: corev1.TaintEffectNoSchedule}}
						}
					})
				})
				s.must(s.observer.ResyncOnce(s.Context()))
				request := reconcile.Request{NamespacedName: client.ObjectKey{Name: nodeName}}
				result, err := s.reconciler.Reconcile(s.Context(), request)
				s.must(err)
				if soon := result.RequeueAfter > 0 && result.RequeueAfter <= 10*time.Second; soon != tc.waits {
					t.Errorf("the node is looked at again after %s", result.RequeueAfter)
				}
				s.prepare()
				id := s.attached()[0]
				s.must(s.cloud.PutTags(s.Context(), id, identity.LinkTags(8500, map[hostnet.Setting]int{hostnet.RPFilter: 0})))
				time.Sleep(time.Minute)
				s.reconcile(nodeName)
				if !tc.waits {
					if calls := s.ec2.Calls().Actions["DescribeInstances"].Count; calls != 0 {
						t.Errorf("the instance was looked at %d times", calls)
					}
					return
				}
				want := v1alpha1.InterfaceState{
					ENIID: id, MACAddress: s.networkInterface(id).MACAddress, MTU: 8500, Sysctls: map[string]v1alpha1.SysctlValue{"ipv4.rp_filter": 0},
				}
				if diff := cmp.Diff(want, s.settings()); diff != "" {
					t.Errorf("the agent is told (-want +got):\n%s", diff)
				}
			})
		})
	}
}
