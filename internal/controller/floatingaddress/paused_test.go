// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package floatingaddress_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/identity"
)

// TestAPausedNodeKeepsItsAddresses pauses the node, its NodeENI, and the instance under the name of another Node.
func TestAPausedNodeKeepsItsAddresses(t *testing.T) {
	for name, object := range map[string]client.Object{
		"the node": &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a", Annotations: map[string]string{v1alpha1.PausedAnnotation: ""}}},
		"its instance": &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-z", Annotations: map[string]string{v1alpha1.PausedAnnotation: ""}},
			Spec: corev1.NodeSpec{ProviderID: "aws:///us-east-1a/i-0000000000000000a"}},
		"its NodeENI": &v1alpha1.NodeENI{ObjectMeta: metav1.ObjectMeta{Name: "n3", Annotations: map[string]string{v1alpha1.PausedAnnotation: ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			_ = w.api.Delete(t.Context(), object.DeepCopyObject().(client.Object))
			w.must(w.api.Create(t.Context(), object))
			w.hold(vip, "node-a", eniA)
			w.reconcile(vip)
			w.made()
			w.says(vip, "Paused", "paused")
		})
	}
}

// TestAPauseProtectsAReleasedAddressOfALaunchInterface pauses a node or its NodeENI while an address without a holder is
// on an interface from a launch template, whose tags name neither.
func TestAPauseProtectsAReleasedAddressOfALaunchInterface(t *testing.T) {
	paused := map[string]string{v1alpha1.PausedAnnotation: ""}
	for name, object := range map[string]client.Object{
		"the node": &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a", Annotations: paused},
			Spec: corev1.NodeSpec{ProviderID: "aws:///us-east-1a/i-0000000000000000a"}},
		"the NodeENI": &v1alpha1.NodeENI{ObjectMeta: metav1.ObjectMeta{Name: "n3", Annotations: paused}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.interfaces[eniA].Tags = map[string]string{identity.TagCluster: cluster, identity.TagNodeTemplate: "workers"}
			w.restart()
			w.hold(vip, "node-a", eniA)
			w.reconcile(vip)
			w.made("assign a [10.0.4.200]")
			w.hold(vip, "", "")
			w.reconcile(vip)
			_ = w.api.Delete(t.Context(), object.DeepCopyObject().(client.Object))
			w.must(w.api.Create(t.Context(), object))
			w.now = w.now.Add(time.Hour)
			for range 3 {
				w.reconcile(vip)
			}
			if slices.ContainsFunc(w.calls, func(call string) bool { return strings.HasPrefix(call, "unassign") }) {
				t.Errorf("the calls are %q", w.calls)
			}
		})
	}
}
