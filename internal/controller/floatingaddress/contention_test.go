// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package floatingaddress_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
)

// contend lets a pod of the second node have the address too.
func (w *world) contend(pod v1alpha1.AddressHolder) {
	w.Helper()
	object := &v1alpha1.FloatingAddress{}
	w.must(w.api.Get(w.Context(), client.ObjectKey{Name: v1alpha1.FloatingAddressName(subnet, vip)}, object))
	pod.NodeName, pod.ENIID, pod.Since = "node-b", eniB, metav1.NewTime(w.now)
	object.Status.Contender = &pod
	w.must(w.api.Status().Update(w.Context(), object))
}

// TestContention names the pods of both nodes: by the IP address that an agent observed, or by the name in a lease.
func TestContention(t *testing.T) {
	for name, tc := range map[string]struct {
		contender v1alpha1.AddressHolder
		want      string
	}{
		"a pod that brought the address up": {v1alpha1.AddressHolder{PodIP: "10.1.0.2"}, "the pod with IP address 10.1.0.2 on node node-b"},
		"a pod that asked for the address":  {v1alpha1.AddressHolder{Pod: "upf/upf-0"}, "pod upf/upf-0 on node node-b"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.hold(vip, "node-a", eniA)
			w.contend(tc.contender)
			w.reconcile(vip)
			c := meta.FindStatusCondition(w.says(vip, "Assigned", "").Status.Conditions, v1alpha1.ConditionContended)
			want := "the pod with IP address 10.1.0.1 on node node-a has address 10.0.4.200, and so has " + tc.want
			if c == nil || !strings.Contains(c.Message, want) {
				t.Errorf("the condition is %+v, want %q", c, want)
			}
		})
	}
}
