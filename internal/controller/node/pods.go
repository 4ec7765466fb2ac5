// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"slices"
	"time"

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

// podsOf returns the part of spec.pods that the agent of the node needs. After spec.pods is gone, the last one stays
// until the agent has drained the network: it goes on reporting the pods, and nothing is taken from them.
func (s *snapshot) podsOf(pods *v1alpha1.NodeENIPods, was v1alpha1.InterfaceState) *v1alpha1.InterfacePods {
	if pods != nil || was.Pods == nil {
		return interfacePods(pods)
	}
	if was.Pods.Draining && s.podNetworks()[was.ENIID].Drained {
		return nil
	}
	return drained(was.Pods)
}

// drained returns what the agent needs to drain a network.
func drained(pods *v1alpha1.InterfacePods) *v1alpha1.InterfacePods {
	pods = pods.DeepCopy()
	pods.Draining = true
	return pods
}

// podNetworks returns what the agent reports of the pods that use interfaces, by interface ID.
func (s *snapshot) podNetworks() map[string]plan.PodNetwork {
	if s.state == nil {
		return nil
	}
	return controller.PodNetworks(s.state)
}

// reportsSince is when the record of the agent's reports began: reports are in the state of the node alone.
func (s *snapshot) reportsSince() time.Time {
	if s.state == nil {
		return time.Time{}
	}
	return s.state.CreationTimestamp.Time
}

// hasOpenNetworks reports whether the agent reports an interface on which pods have addresses or can get some. A list
// that omits the interface must not end the state of the node, which alone may say that the interface is a network for
// pods.
func (s *snapshot) hasOpenNetworks() bool {
	return s.state != nil && slices.ContainsFunc(s.state.Status.PodNetworks, func(n v1alpha1.PodNetworkState) bool {
		return !n.Drained
	})
}

// podsDraining returns the interfaces that are networks for pods, by ID, and whether they are to drain.
func (s *snapshot) podsDraining() map[string]bool {
	if s.state == nil {
		return nil
	}
	return controller.PodsDraining(s.state)
}
