// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// SchemeGroupVersion is the API group and version of every kind in this package.
var SchemeGroupVersion = schema.GroupVersion{Group: "networking.k8s.aws", Version: "v1alpha1"}

// AddToScheme registers the kinds of this package, so that typed clients can read and write them.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&NodeENI{}, &NodeENIList{},
		&NetworkInterface{}, &NetworkInterfaceList{},
		&AWSNodeTemplate{}, &AWSNodeTemplateList{},
		&SubnetReservation{}, &SubnetReservationList{},
		&FloatingAddress{}, &FloatingAddressList{},
	)
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
