// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"k8s.io/apimachinery/pkg/labels"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/selector"
)

// Selector returns the node selector. An empty selector, which the API rejects, selects nothing.
func Selector(spec v1alpha1.NodeENISpec) labels.Selector {
	if len(spec.NodeSelector) == 0 {
		return labels.Nothing()
	}
	return labels.SelectorFromSet(v1alpha1.Strings(spec.NodeSelector))
}

// SubnetTerms returns how the spec chooses subnets.
func SubnetTerms(spec v1alpha1.NodeENISpec) selector.SubnetTerms {
	return selector.SubnetTerms{
		IDs:   withSingle(spec.SubnetID, spec.SubnetIDs),
		Names: withSingle(spec.SubnetName, spec.SubnetNames),
		Tags:  v1alpha1.Strings(spec.SubnetSelector),
	}
}

// ResolvedSubnet returns a subnet as the status of a NodeENI lists it. It includes the IPv6 range only with
// spec.pods.ipv6.
func ResolvedSubnet(s eni.Subnet, spec v1alpha1.NodeENISpec) v1alpha1.ResolvedSubnet {
	resolved := v1alpha1.ResolvedSubnet{ID: s.ID, Zone: s.Zone}
	if s.CIDR.IsValid() {
		resolved.CIDR = s.CIDR.String()
	}
	if spec.Pods != nil && spec.Pods.IPv6 != nil && s.IPv6CIDR.IsValid() {
		resolved.IPv6CIDR = s.IPv6CIDR.String()
	}
	return resolved
}

// GroupTerms returns how the spec chooses security groups.
func GroupTerms(spec v1alpha1.NodeENISpec) selector.GroupTerms {
	return selector.GroupTerms{
		IDs:   spec.SecurityGroupIDs,
		Names: spec.SecurityGroupNames,
		Tags:  v1alpha1.Strings(spec.SecurityGroupSelector),
	}
}

func withSingle(single string, list []string) []string {
	if single != "" {
		return []string{single}
	}
	return list
}
