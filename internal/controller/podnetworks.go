// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"net/netip"
	"slices"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/plan"
)

// PodNetworks returns the agent's reports about the pods that use interfaces of an instance, by interface ID. The agent
// reports only while the state is that of its instance.
func PodNetworks(state *v1alpha1.NodeENIState, instanceID string) map[string]plan.PodNetwork {
	networks := map[string]plan.PodNetwork{}
	for _, reported := range state.Status.PodNetworks {
		network := plan.PodNetwork{
			Drained: reported.Drained, Used: int(reported.Used), Free: int(reported.Free),
			PodsOmitted: int(reported.PodsOmitted), Prefixes: map[netip.Prefix]plan.PodPrefix{},
			Outdated: reported.Reason == v1alpha1.ReasonPodNetworksDisabled || state.Spec.InstanceID != instanceID,
		}
		for _, p := range reported.Prefixes {
			if cidr, err := netip.ParsePrefix(p.CIDR); err == nil {
				network.Prefixes[cidr] = plan.PodPrefix{
					Used: int(p.Used), Draining: p.Phase != v1alpha1.PodPrefixActive, Drained: p.Phase == v1alpha1.PodPrefixDrained,
				}
			}
		}
		for _, pod := range reported.Pods {
			network.Pods = append(network.Pods, pod.Namespace+"/"+pod.Name)
		}
		network.Pods = slices.Compact(network.Pods) // pods of one name differ in their UIDs
		networks[reported.ENIID] = network
	}
	return networks
}

// ListedNetworks returns the interfaces that the state lists as networks for pods, by ID.
func ListedNetworks(state *v1alpha1.NodeENIState) map[string]plan.ListedNetwork {
	listed := map[string]plan.ListedNetwork{}
	for _, i := range state.Status.Interfaces {
		if i.Pods != nil && i.ENIID != "" {
			listed[i.ENIID] = plan.ListedNetwork{Draining: i.Pods.Draining, Opened: i.Pods.Opened}
		}
	}
	return listed
}
