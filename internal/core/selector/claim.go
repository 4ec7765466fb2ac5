// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"strconv"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
)

// Location is where an instance is; the VPC is empty while it is not known.
type Location struct{ Zone, VPCID string }

// Found has the matches of the selectors of one declaration.
type Found struct {
	Subnets SubnetMatch
	Groups  GroupMatch
}

// DesiredInterfaces sets the desired interfaces of a claim at a location. The function spec returns the interface of a
// placement with the given security groups.
func (f Found) DesiredInterfaces(claim *plan.Claim, at Location, spec func(p Placement, groupIDs []string) eni.Spec) {
	placements, _ := f.Subnets.ForZone(at.Zone, at.VPCID)
	claim.AllResolved = len(f.Subnets.Unknown) == 0
	claim.Unresolvable = f.Subnets.Problems()
	if lacking := f.Subnets.NoSubnetProblem(at.Zone, at.VPCID); lacking != nil {
		claim.Unresolvable = append(claim.Unresolvable, *lacking)
	}
	groupIDs, problems := f.Groups.ForVPC(at.VPCID)
	if len(problems) > 0 {
		claim.SecurityGroupProblem, groupIDs = &problems[0], nil
	}
	for _, p := range placements {
		desired := plan.DesiredInterface{
			Ordinal: p.Ordinal,
			Subnets: subnetIDs(p.Candidates),
			Slot:    eni.Slot{Card: claim.FirstSlot.Card, Device: claim.FirstSlot.Device + p.Ordinal},
			Spec:    spec(p, groupIDs),
		}
		desired.Spec.Description = strings.ReplaceAll(desired.Spec.Description, DeviceIndex, strconv.Itoa(desired.Slot.Device))
		claim.Interfaces = append(claim.Interfaces, desired)
	}
}

// DeviceIndex is the placeholder in a description that each interface replaces with its requested device index.
const DeviceIndex = "{deviceIndex}"

func subnetIDs(subnets []eni.Subnet) []string {
	ids := make([]string, len(subnets))
	for n, s := range subnets {
		ids[n] = s.ID
	}
	return ids
}
