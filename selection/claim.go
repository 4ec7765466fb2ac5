// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"strconv"
	"strings"

	"github.com/multieni/multieni/eni"
	"github.com/multieni/multieni/plan"
)

// Place is where an instance is; the VPC is empty while it is not known.
type Place struct{ Zone, VPCID string }

// Found is what the selectors of one declaration stand for.
type Found struct {
	Subnets SubnetMatch
	Groups  GroupMatch
}

// Fill works out what a claim wishes for at a place. The spec function says what the interface of a placement shall be, given
// the IDs of its security groups.
func (f Found) Fill(claim *plan.Claim, at Place, spec func(p Placement, groupIDs []string) eni.Spec) {
	placements, _ := f.Subnets.Place(at.Zone, at.VPCID)
	claim.Resolved = len(f.Subnets.Unknown) == 0
	claim.Lacking = f.Subnets.Problems()
	if lacking := f.Subnets.Lacking(at.Zone, at.VPCID); lacking != nil {
		claim.Lacking = append(claim.Lacking, *lacking)
	}
	groupIDs, problems := f.Groups.In(at.VPCID)
	if len(problems) > 0 {
		claim.NoGroups, groupIDs = &problems[0], nil
	}
	for _, p := range placements {
		wish := plan.Wish{
			Ordinal: p.Ordinal,
			Subnets: subnetIDs(p.Candidates),
			Slot:    eni.Slot{Card: claim.Base.Card, Device: claim.Base.Device + p.Ordinal},
			Spec:    spec(p, groupIDs),
		}
		wish.Spec.Description = strings.ReplaceAll(wish.Spec.Description, DeviceIndex, strconv.Itoa(wish.Slot.Device))
		claim.Wishes = append(claim.Wishes, wish)
	}
}

// DeviceIndex is the word of a description in whose place each interface has the device index that is asked for it.
const DeviceIndex = "{deviceIndex}"

func subnetIDs(subnets []eni.Subnet) []string {
	ids := make([]string, len(subnets))
	for n, s := range subnets {
		ids[n] = s.ID
	}
	return ids
}
