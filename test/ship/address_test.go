// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ship_test

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
)

// bringUp has an agent create the object of an address.
func (s *site) bringUp() {
	s.Helper()
	const subnet, ip = "subnet-0f59b4f14737be9ad", "10.0.64.200"
	address := &v1alpha1.FloatingAddress{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.FloatingAddressName(subnet, ip), Finalizers: []string{v1alpha1.Finalizer}},
		Spec:       v1alpha1.FloatingAddressSpec{SubnetID: subnet, Address: ip},
	}
	if err := s.kube.Create(s.Context(), address); err != nil {
		s.Fatal(err)
	}
}
