// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
)

// TestAddressesOfPodsAreAtTheirInterface has an address that pods on two nodes have, and that EC2 shows at the interface.
func TestAddressesOfPodsAreAtTheirInterface(t *testing.T) {
	c := readyCluster(t)
	c.change(func(i *v1alpha1.NetworkInterface) {
		i.Status.Addresses.SecondaryPrivateIPs = []string{"10.0.64.200", "10.0.64.7"}
	})
	c.put(&v1alpha1.FloatingAddress{
		ObjectMeta: metav1.ObjectMeta{Name: "subnet-0f59b4f14737be9ad-10.0.64.200"},
		Spec:       v1alpha1.FloatingAddressSpec{SubnetID: "subnet-0f59b4f14737be9ad", Address: "10.0.64.200"},
		Status: v1alpha1.FloatingAddressStatus{
			Sequence: 1,
			Holder:   &v1alpha1.AddressHolder{NodeName: "node-a1", ENIID: "eni-00000000000000001", Since: metav1.Now()},
			Conditions: []metav1.Condition{{
				Type: v1alpha1.ConditionContended, Status: metav1.ConditionTrue, Reason: "Contended", Message: "pods on two nodes have it", LastTransitionTime: metav1.Now(),
			}},
		},
	})
	wants(t, run(t, "", "node", "node-a1").out, "+1 of pods: 10.0.64.200", "+1 of others: 10.0.64.7")
	wants(t, run(t, "", "why", "node-a1").out, "Contended", "pods on two nodes have it", "Remove the address from all pods but one")
}
