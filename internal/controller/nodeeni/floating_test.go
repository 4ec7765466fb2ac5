// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni_test

import (
	"strings"
	"testing"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
)

// TestAnAddressOfAPodNeverMakesANodeENINotReady has an address that says what a user must do. PodNetworkReady says it
// too, and the NodeENI and the network stay ready.
func TestAnAddressOfAPodNeverMakesANodeENINotReady(t *testing.T) {
	for name, tc := range map[string]struct {
		condition metav1.Condition
		eniID     string
		says      bool
	}{
		"pods on two nodes have it":  {metav1.Condition{Type: v1alpha1.ConditionContended, Status: metav1.ConditionTrue, Reason: "Contended", Message: "two pods"}, "eni-n1", true},
		"EC2 refuses it":             {metav1.Condition{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: "AddressRefused", Message: "EC2 refuses"}, "eni-n1", true},
		"it is on the way":           {metav1.Condition{Type: v1alpha1.ConditionReconciling, Status: metav1.ConditionTrue, Reason: "Assigning", Message: "on the way"}, "eni-n1", false},
		"it is on another interface": {metav1.Condition{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: "AddressRefused", Message: "EC2 refuses"}, "eni-9", false},
	} {
		t.Run(name, func(t *testing.T) {
			n := declared()
			withPods(n)
			reported := attached(n, "n1", reporting(nil), func(o *v1alpha1.NetworkInterface) { o.Spec.Pods.Floating = []string{"10.0.4.192/26"} })
			address := &v1alpha1.FloatingAddress{
				ObjectMeta: metav1.ObjectMeta{Name: "subnet-00000000000000001-10.0.4.200"},
				Status: v1alpha1.FloatingAddressStatus{
					Holder: &v1alpha1.AddressHolder{NodeName: "n1", ENIID: tc.eniID}, Conditions: []metav1.Condition{tc.condition},
				},
			}
			s := setStage(t, &cloud{}, n, selected("n1"), reported, address)
			s.attachments.Set("data", generated)
			if err := s.reconcile(); err != nil {
				t.Fatal(err)
			}
			c := apimeta.FindStatusCondition(s.read().Status.Conditions, v1alpha1.ConditionPodNetworkReady)
			if c == nil || c.Status != metav1.ConditionTrue || strings.Contains(c.Message, "node n1: "+tc.condition.Message) != tc.says {
				t.Errorf("the condition is %+v", c)
			}
			if ready := apimeta.FindStatusCondition(s.read().Status.Conditions, v1alpha1.ConditionReady); ready == nil || ready.Status != metav1.ConditionTrue {
				t.Errorf("the NodeENI is %+v", ready)
			}
		})
	}
}
