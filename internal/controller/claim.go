// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"k8s.io/utils/ptr"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/eni"
	"github.com/multieni/multieni/plan"
	"github.com/multieni/multieni/selection"
)

// Place is where an instance is; the VPC is empty while it is not known.
type Place struct{ Zone, VPCID string }

// NewClaim returns what a NodeENI asks of any instance, without its standing and its wishes.
func NewClaim(nodeENI *v1alpha1.NodeENI) plan.Claim {
	return plan.Claim{
		NodeENI: nodeENI.Name, NodeENIUID: string(nodeENI.UID),
		Base:    eni.Slot{Card: int(nodeENI.Spec.NetworkCardIndex), Device: int(nodeENI.Spec.DeviceIndex)},
		Exact:   nodeENI.Spec.DeviceIndexPolicy == v1alpha1.DeviceIndexExact,
		Replace: nodeENI.Spec.UpdatePolicy == v1alpha1.UpdateReplace,
	}
}

// FillClaim works out what a NodeENI wishes for at a place, from what its selectors stand for.
func FillClaim(claim *plan.Claim, spec v1alpha1.NodeENISpec, subnets selection.SubnetMatch, groups selection.GroupMatch, at Place) {
	placements, _ := subnets.Place(at.Zone, at.VPCID)
	claim.Resolved = len(subnets.Unknown) == 0
	claim.Lacking = subnets.Problems()
	if lacking := subnets.Lacking(at.Zone, at.VPCID); lacking != nil {
		claim.Lacking = append(claim.Lacking, *lacking)
	}
	groupIDs, problems := groups.In(at.VPCID)
	if len(problems) > 0 {
		claim.NoGroups, groupIDs = &problems[0], nil
	}
	for _, p := range placements {
		claim.Wishes = append(claim.Wishes, plan.Wish{
			Ordinal: p.Ordinal,
			Subnets: subnetIDs(p.Candidates),
			Slot:    eni.Slot{Card: claim.Base.Card, Device: claim.Base.Device + p.Ordinal},
			Spec:    interfaceSpec(spec, groupIDs),
		})
	}
}

func interfaceSpec(spec v1alpha1.NodeENISpec, groupIDs []string) eni.Spec {
	return eni.Spec{
		Description:         spec.Description,
		Groups:              groupIDs,
		Tags:                v1alpha1.Strings(spec.Tags),
		SourceDestCheck:     ptr.Deref(spec.SourceDestCheck, true),
		DeleteOnTermination: ptr.Deref(spec.DeleteOnTermination, true),
		AddressCounts: eni.AddressCounts{
			SecondaryIPv4: int(spec.SecondaryPrivateIPAddressCount),
			IPv4Prefixes:  int(spec.IPv4PrefixCount),
			IPv6:          int(spec.IPv6AddressCount),
			IPv6Prefixes:  int(spec.IPv6PrefixCount),
		},
	}
}

func subnetIDs(subnets []eni.Subnet) []string {
	ids := make([]string, len(subnets))
	for n, s := range subnets {
		ids[n] = s.ID
	}
	return ids
}
