// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"k8s.io/utils/ptr"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
	"github.com/multieni/multieni/internal/core/selector"
)

// NewClaim returns what a NodeENI requests of any instance, without its mode and its desired interfaces.
func NewClaim(nodeENI *v1alpha1.NodeENI) render.Claim {
	return render.Claim{
		PodPrefixes: podPrefixes(nodeENI.Spec.Pods), EvictPods: evictsPods(nodeENI.Spec.Pods), NodeENI: nodeENI.Name,
		Owner:          identity.Owner(nodeENI.UID),
		FirstSlot:      eni.Slot{Card: int(nodeENI.Spec.NetworkCardIndex), Device: int(nodeENI.Spec.DeviceIndex)},
		ExactSlot:      nodeENI.Spec.DeviceIndexPolicy == v1alpha1.DeviceIndexExact,
		ReplaceAllowed: nodeENI.Spec.UpdatePolicy == v1alpha1.UpdateReplace,
	}
}

// ResolveClaim sets the desired interfaces of a NodeENI at a location from the matches of its selectors.
func ResolveClaim(claim *render.Claim, spec v1alpha1.NodeENISpec, found selector.Found, at selector.Location) {
	claim.Resolve(found, at, func(_ selector.Placement, groupIDs []string) eni.Spec {
		return interfaceSpec(spec, groupIDs)
	})
}

// podPrefixes returns the demand of pods for IPv4 prefixes.
func podPrefixes(pods *v1alpha1.NodeENIPods) plan.PrefixDemand {
	if pods == nil || pods.IPv4 == nil {
		return plan.PrefixDemand{Pods: pods != nil}
	}
	return plan.PrefixDemand{Pods: true, Max: int(max(pods.IPv4.Prefixes.Max, pods.IPv4.Prefixes.Min)),
		Spare: int(ptr.Deref(pods.IPv4.Spare, 0))}
}

func evictsPods(pods *v1alpha1.NodeENIPods) bool {
	return pods != nil && pods.OnRemoval == v1alpha1.PodsEvict
}

// AddressCounts returns the least numbers of addresses of an interface. The schema excludes other counts
// in addition to those of pods.
func AddressCounts(spec v1alpha1.NodeENISpec) eni.AddressCounts {
	counts := eni.AddressCounts{
		SecondaryIPv4: int(spec.SecondaryPrivateIPAddressCount),
		IPv4Prefixes:  int(spec.IPv4PrefixCount),
		IPv6:          int(spec.IPv6AddressCount),
		IPv6Prefixes:  int(spec.IPv6PrefixCount),
	}
	if spec.Pods != nil && spec.Pods.IPv4 != nil {
		counts.IPv4Prefixes = int(spec.Pods.IPv4.Prefixes.Min)
	}
	if spec.Pods != nil && spec.Pods.IPv6 != nil {
		counts.IPv6Prefixes = int(spec.Pods.IPv6.Prefixes)
	}
	return counts
}

func interfaceSpec(spec v1alpha1.NodeENISpec, groupIDs []string) eni.Spec {
	tracking, asPrimary := ConnectionTracking(spec.ConnectionTracking)
	return eni.Spec{
		Description:         spec.Description,
		Groups:              groupIDs,
		Tags:                v1alpha1.Strings(spec.Tags),
		SourceDestCheck:     ptr.Deref(spec.SourceDestCheck, true),
		DeleteOnTermination: ptr.Deref(spec.DeleteOnTermination, true),
		ConnectionTracking:  tracking,
		TrackAsPrimary:      asPrimary,
		ENAExpress:          eni.ENAExpress(spec.ENAExpress),
		LowestFree:          spec.IPv4Allocation == v1alpha1.IPv4AllocationLowestFree,
		AddressCounts:       AddressCounts(spec),
	}
}
