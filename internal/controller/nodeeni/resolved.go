// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni

import (
	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
)

// resolvedSubnets lists the subnets or, while they cannot be read, the previous list.
func resolvedSubnets(nodeENI *v1alpha1.NodeENI, f facts) []v1alpha1.ResolvedSubnet {
	if f.subnetsErr != nil {
		return nodeENI.Status.Subnets
	}
	var all []v1alpha1.ResolvedSubnet
	for _, s := range f.subnets.Subnets() {
		all = append(all, controller.ResolvedSubnet(s, nodeENI.Spec))
	}
	return all[:min(len(all), maxSubnets)]
}

func resolvedGroups(nodeENI *v1alpha1.NodeENI, f facts) []string {
	if f.groupsErr != nil {
		return nodeENI.Status.SecurityGroups
	}
	ids, _ := f.groups.ForVPC("")
	return ids[:min(len(ids), maxGroups)]
}
