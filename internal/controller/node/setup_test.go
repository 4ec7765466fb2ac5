// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/node"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// TestWhoIsConcerned asks which nodes a change reaches.
func TestWhoIsConcerned(t *testing.T) {
	w := newWorld(t, declared("n", "one"), nodeNamed("node-1", instance), nodeNamed("node-2", "i-00000000000000002"))
	w.reconcile("node-1")
	w.must(w.api.Update(t.Context(), unlabeled(w)))
	if diff := cmp.Diff([]string{"node-1", "node-2"}, w.reconciler.Concerned(t.Context(), declared("n", "one"))); diff != "" {
		t.Errorf("nodes that it selects, and those with objects of it (-want +got):\n%s", diff)
	}
	o := w.objects()[0]
	requests := w.reconciler.NodesOfObject(t.Context(), &o)
	if len(requests) != 1 || requests[0].Name != "node-1" {
		t.Errorf("an object concerns %v, want node-1", requests)
	}
}

// TestADeletedNodeENIConcernsTheNetworkOfItsName has an interface of a network without an object, on a node that the
// NodeENI of the name does not select. While that NodeENI was being deleted, it might have declared the interface.
func TestADeletedNodeENIConcernsTheNetworkOfItsName(t *testing.T) {
	w := newWorld(t, nodeNamed("node-1", instance))
	key := identity.Interface{Cluster: cluster, UID: identity.NetworkUID("n", 0, start), Name: name("n", 0), NodeENI: "n", Node: "node-1", InstanceID: instance}
	w.interfaces = []eni.Interface{{
		ID: "eni-1", SubnetID: "subnet-1", VPCID: "vpc-1", Status: eni.InUse, Tags: key.Tags(start, nil),
		Attachment: &eni.Attachment{ID: "at-1", InstanceID: instance, Slot: eni.Slot{Device: 3}, Status: eni.AttachmentAttached},
	}}
	w.must(w.observer.ResyncOnce(t.Context()))
	deleted := selectingAll("n")
	if diff := cmp.Diff([]string{"node-1"}, w.reconciler.Concerned(t.Context(), deleted)); diff != "" {
		t.Errorf("before it has an object (-want +got):\n%s", diff)
	}
	w.reconcile("node-1")
	if names := w.reconciler.Concerned(t.Context(), selectingAll("other")); len(w.names()) != 1 || len(names) > 0 {
		t.Errorf("objects %v, and another NodeENI concerns %v", w.names(), names)
	}
}

// TestAChangeOfANodeStartsAReconciliation changes a Node as the controller's cache has it.
func TestAChangeOfANodeStartsAReconciliation(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*corev1.Node)
		passes bool
	}{
		{"a kubelet reports that it lives", func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeReady, LastHeartbeatTime: metav1.NewTime(start)})
		}, false},
		{"another program adds an annotation", func(n *corev1.Node) { n.Annotations["example.com/zone"] = "a" }, false},
		{"a person removes the names of its objects", func(n *corev1.Node) { n.Annotations[v1alpha1.NetworkInterfacesAnnotation] = "" }, true},
		{"a person removes the condition", func(n *corev1.Node) { n.Status.Conditions = nil }, true},
		{"a person removes a taint", func(n *corev1.Node) { n.Spec.Taints = nil }, true},
	} {
		was := nodeNamed("node-1", instance)
		was.Annotations = map[string]string{v1alpha1.NetworkInterfacesAnnotation: "n-0"}
		was.Spec.Taints = []corev1.Taint{{Key: "example.com/startup", Effect: corev1.TaintEffectNoSchedule}}
		was.Status.Conditions = []corev1.NodeCondition{{Type: v1alpha1.NodeConditionInterfacesReady, Status: corev1.ConditionTrue}}
		now := was.DeepCopy()
		tc.change(now)
		if got := node.Changed().Update(event.UpdateEvent{ObjectOld: cached(t, was), ObjectNew: cached(t, now)}); got != tc.passes {
			t.Errorf("%s: starts a reconciliation: %t, want %t", tc.name, got, tc.passes)
		}
	}
}

// cached returns a Node as the controller's cache stores it.
func cached(t *testing.T, n *corev1.Node) *corev1.Node {
	t.Helper()
	slim, err := controller.TrimNode(n)
	if err != nil {
		t.Fatal(err)
	}
	return slim.(*corev1.Node)
}
