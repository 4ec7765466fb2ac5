// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/node"
)

// TestPodsOfARemovedInterface removes the label from a node whose interface a pod uses.
func TestPodsOfARemovedInterface(t *testing.T) {
	budget := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	budget.ErrStatus.Details.Causes = []metav1.StatusCause{{Message: "The disruption budget upf needs 1 healthy pods and has 1 currently."}}
	const uid = "uid-upf-0"
	for name, tc := range map[string]struct {
		onRemoval v1alpha1.PodsOnRemoval
		// on is the node that the pod of that name runs on now.
		on string
		// reported is the UID in the agent's report.
		reported string
		refusal  error
		// least and most bound the number of evictions that the controller requests in an hour.
		least, most int
		evicted     bool
		// reason is InUseByPods unless it is set, or EvictionRefused with a refusal.
		reason, message string
	}{
		"wait":                         {onRemoval: v1alpha1.PodsWait, on: nodeName, reported: uid, message: "upf/upf-0; delete or move the pods"},
		"evict":                        {onRemoval: v1alpha1.PodsEvict, on: nodeName, reported: uid, least: 1, most: 1, evicted: true, message: "upf/upf-0; multieni evicts them"},
		"evict, and it runs elsewhere": {onRemoval: v1alpha1.PodsEvict, on: "another", reported: uid, message: "upf/upf-0; multieni evicts them"},
		"evict, and a new pod has its name": {
			onRemoval: v1alpha1.PodsEvict, on: nodeName, reported: "uid-of-the-former-upf-0", message: "upf/upf-0; multieni evicts them",
		},
		"evict, and the report has no UID": {
			onRemoval: v1alpha1.PodsEvict, on: nodeName, reason: "EvictionRefused", message: "does not pass the UID of pod upf/upf-0",
		},
		"evict, and a budget": {
			onRemoval: v1alpha1.PodsEvict, on: nodeName, reported: uid, refusal: budget, least: 25, most: 40,
			message: "a PodDisruptionBudget refuses the eviction of pod upf/upf-0 (The disruption budget upf needs 1 healthy pods and has 1 currently)",
		},
		"evict without permission": {
			onRemoval: v1alpha1.PodsEvict, on: nodeName, reported: uid, refusal: apierrors.NewForbidden(corev1.Resource("pods"), "upf-0", nil), least: 25, most: 40,
			message: "set pods.eviction=true in the values of the chart",
		},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				pods := &v1alpha1.NodeENIPods{Attachment: v1alpha1.PodAttachmentIPVLAN, IPv4: &v1alpha1.PodIPv4{Prefixes: v1alpha1.PodIPv4Prefixes{Min: 1}}, OnRemoval: tc.onRemoval}
				pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "upf", Name: "upf-0", UID: uid}, Spec: corev1.PodSpec{NodeName: tc.on}}
				s.both(func(c client.Client) {
					s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.Pods = pods })
					s.must(c.Create(t.Context(), pod.DeepCopy()))
				})
				asked := s.countEvictions(tc.refusal)
				s.must(s.play(2 * time.Minute))
				s.reportNetwork(v1alpha1.PodNetworkState{Ready: true, Used: 1, Pods: []v1alpha1.PodReference{{Namespace: "upf", Name: "upf-0", UID: tc.reported}}})
				s.both(func(c client.Client) { s.node(c, func(n *corev1.Node) { n.Labels = nil }) })
				s.must(s.play(time.Hour))
				if len(s.attached()) != 1 {
					t.Fatalf("%d interfaces are attached, want 1: the agent still reports the pod", len(s.attached()))
				}
				if n := len(*asked); n < tc.least || n > tc.most {
					t.Errorf("%d evictions are asked for, want %d to %d", n, tc.least, tc.most)
				}
				gone := apierrors.IsNotFound(s.cache.Get(t.Context(), client.ObjectKeyFromObject(&pod), &corev1.Pod{}))
				if gone != tc.evicted {
					t.Errorf("the pod is gone: %t, want %t", gone, tc.evicted)
				}
				reason := cmp.Or(tc.reason, "InUseByPods")
				if tc.refusal != nil {
					reason = "EvictionRefused"
				}
				if got := s.served(); got.Reason != reason || !strings.Contains(got.Message, tc.message) {
					t.Errorf("%s: %s; want %s and %q", got.Reason, got.Message, reason, tc.message)
				}
				s.state(func(state *v1alpha1.NodeENIState) { state.Status.PodNetworks = nil })
				s.must(s.play(time.Hour))
				if len(s.attached()) != 1 {
					t.Fatalf("the interface is detached without a report that its network is drained")
				}
				s.reportNetwork(v1alpha1.PodNetworkState{Drained: true})
				s.must(s.play(10 * time.Minute))
				if len(s.attached()) != 0 {
					t.Errorf("without pods the interface stays attached")
				}
			})
		})
	}
}

// TestEvictionsKeepMaxUnavailable removes the label from three nodes with a pod each, while a budget refuses evictions.
// At most maxUnavailable nodes evict, and the others say that they wait.
func TestEvictionsKeepMaxUnavailable(t *testing.T) {
	for name, tc := range map[string]struct {
		maxUnavailable int32
		// evicting is how many nodes ask for evictions.
		evicting int
	}{
		"one node":   {maxUnavailable: 1, evicting: 1},
		"two nodes":  {maxUnavailable: 2, evicting: 2},
		"every node": {maxUnavailable: 9, evicting: 3},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				names := []string{nodeName, "node-2", "node-3"}
				s.join(names[1])
				s.join(names[2])
				s.both(func(c client.Client) {
					s.nodeENI(c, func(n *v1alpha1.NodeENI) {
						n.Spec.MaxUnavailable, n.Spec.Pods = tc.maxUnavailable, &v1alpha1.NodeENIPods{
							Attachment: v1alpha1.PodAttachmentIPVLAN, OnRemoval: v1alpha1.PodsEvict,
							IPv4: &v1alpha1.PodIPv4{Prefixes: v1alpha1.PodIPv4Prefixes{Min: 1}},
						}
					})
				})
				asked := s.countEvictions(apierrors.NewTooManyRequests("the budget allows none", 0))
				s.playAll(2*time.Minute, names, func() {})
				for _, of := range names {
					pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "upf", Name: of, UID: types.UID("uid-upf-" + of)},
						Spec: corev1.PodSpec{NodeName: of}}
					s.both(func(c client.Client) { s.must(c.Create(t.Context(), pod.DeepCopy())) })
					s.reportNetworkOf(of, v1alpha1.PodNetworkState{Ready: true, Used: 1,
						Pods: []v1alpha1.PodReference{{Namespace: "upf", Name: of, UID: string(pod.UID)}}})
				}
				for _, of := range names {
					s.change(of, func(n *corev1.Node) { n.Labels = nil })
				}
				s.playAll(10*time.Minute, names, func() {})
				slices.Sort(*asked)
				if evicting := slices.Compact(*asked); len(evicting) != tc.evicting {
					t.Errorf("the pods of %v are to be evicted, want those of %d nodes", evicting, tc.evicting)
				}
				waiting := 0
				for _, of := range names {
					if got := s.status(of).Interfaces[0]; strings.Contains(got.Message, "maxUnavailable") {
						waiting++
					}
				}
				if waiting != len(names)-tc.evicting {
					t.Errorf("%d nodes say that they wait, want %d", waiting, len(names)-tc.evicting)
				}
			})
		})
	}
}

// countEvictions returns the list that receives the pods of later requests for evictions. With a refusal the API server
// evicts no pod; otherwise the pod is deleted and does not return.
func (s *stage) countEvictions(refusal error) *[]string {
	asked := new([]string)
	s.with(func(o *node.Options) {
		o.Client = interceptor.NewClient(s.cache.(client.WithWatch), interceptor.Funcs{
			SubResourceCreate: func(ctx context.Context, c client.Client, sub string, pod, eviction client.Object, opts ...client.SubResourceCreateOption) error {
				*asked = append(*asked, pod.GetName())
				if uid := eviction.(*policyv1.Eviction).DeleteOptions.Preconditions.UID; sub != "eviction" || *uid != pod.GetUID() {
					s.Errorf("%s of the pod with the UID %s asks for %v", sub, pod.GetUID(), uid)
				}
				if refusal != nil {
					return refusal
				}
				s.must(s.api.Delete(ctx, pod))
				return c.SubResource(sub).Create(ctx, pod, eviction, opts...)
			},
		})
	})
	return asked
}
