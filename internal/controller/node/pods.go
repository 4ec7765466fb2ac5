// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"k8s.io/utils/ptr"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/core/plan"
)

// interfacePods returns the part of a NodeENI's spec.pods that the agent needs; nil without it.
func interfacePods(pods *v1alpha1.NodeENIPods) *v1alpha1.InterfacePods {
	if pods == nil {
		return nil
	}
	told := &v1alpha1.InterfacePods{Attachment: pods.Attachment}
	if pods.IPv4 != nil {
		told.IPv4MaxPrefixes = pods.IPv4.Prefixes.Most()
		told.IPv4Prefixes, told.Spare = pods.IPv4.Prefixes.Min, ptr.Deref(pods.IPv4.Spare, 0)
	}
	if pods.IPv6 != nil {
		told.IPv6Prefixes = pods.IPv6.Prefixes
	}
	for _, route := range pods.Routes {
		told.Routes = append(told.Routes, route.To)
	}
	return told
}

// podsOf returns the part of spec.pods that the agent of the node needs. After spec.pods is gone, the last one stays while pods have
// addresses of the interface: the agent goes on reporting them, and nothing is taken from those pods.
func (s *snapshot) podsOf(pods *v1alpha1.NodeENIPods, was v1alpha1.InterfaceState) *v1alpha1.InterfacePods {
	if network, reported := s.podNetworks()[was.ENIID]; pods == nil && reported && network.Used > 0 {
		return was.Pods
	}
	return interfacePods(pods)
}

// podNetworks returns what the agent reports of the pods that use interfaces, by interface ID.
func (s *snapshot) podNetworks() map[string]plan.PodNetwork {
	if s.state == nil {
		return nil
	}
	return controller.PodNetworks(s.state)
}
