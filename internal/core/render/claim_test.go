// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/render"
	"github.com/multieni/multieni/internal/core/selector"
)

// TestADescriptionNamesTheDeviceIndex checks that each interface of a list has its requested index in its description.
func TestADescriptionNamesTheDeviceIndex(t *testing.T) {
	found := selector.Found{
		Subnets: selector.MatchSubnets(selector.SubnetTerms{IDs: []string{"s1", "s2"}}, []eni.Subnet{
			{ID: "s1", Zone: "z-a", VPCID: "vpc-1"}, {ID: "s2", Zone: "z-a", VPCID: "vpc-1"},
		}),
		Groups: selector.MatchGroups(selector.GroupTerms{}, nil),
	}
	claim := render.Claim{FirstSlot: eni.Slot{Device: 2}}
	claim.Resolve(found, selector.Location{Zone: "z-a", VPCID: "vpc-1"}, func(selector.Placement, []string) eni.Spec {
		return eni.Spec{Description: "VRF{deviceIndex} of {cnf}"}
	})
	var got []string
	for _, w := range claim.Interfaces {
		got = append(got, w.Spec.Description)
	}
	if diff := cmp.Diff([]string{"VRF2 of {cnf}", "VRF3 of {cnf}"}, got); diff != "" {
		t.Error(diff)
	}
}
