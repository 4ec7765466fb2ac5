// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/selector"
)

// DeviceIndex is the placeholder in a description that each interface replaces with its requested device index.
const DeviceIndex = "{deviceIndex}"

// Placed is what a NodeENI declares at one location.
type Placed struct {
	// Interfaces are the declared interfaces in the order of the subnets, at most [MaxObjects].
	Interfaces []Wanted
	// Problems are the reasons why further interfaces cannot be created: an unknown subnet, or none in the zone.
	Problems []plan.Problem
	// GroupProblem is the reason why the security groups are unknown; nil if they are known.
	GroupProblem *plan.Problem
	// Complete is set if every selector of subnets was resolved. A partial answer is no reason to remove an interface.
	Complete bool
	// Omitted is the number of interfaces beyond the maximum.
	Omitted int
}

// Wanted is one declared interface at a location.
type Wanted struct {
	// Ordinal is its number among those of the NodeENI at the location.
	Ordinal int
	// Candidates are the allowed subnets, the one with the most free IPv4 addresses first.
	Candidates []eni.Subnet
	Slot       eni.Slot
	// Template has the groups of the location and the description of the slot.
	Template Template
}

// Allows reports whether the interface may be in a subnet.
func (w Wanted) Allows(subnetID string) bool {
	return slices.ContainsFunc(w.Candidates, func(s eni.Subnet) bool { return s.ID == subnetID })
}

// At returns what a NodeENI with resolved selectors declares at a location.
func (n NodeENI) At(at selector.Location) Placed {
	placements, _ := n.Found.Subnets.ForZone(at.Zone, at.VPCID)
	placed := Placed{Problems: n.Found.Subnets.Problems(), Complete: len(n.Found.Subnets.Unknown) == 0}
	if lacking := n.Found.Subnets.NoSubnetProblem(at.Zone, at.VPCID); lacking != nil {
		placed.Problems = append(placed.Problems, *lacking)
	}
	groupIDs, problems := n.Found.Groups.ForVPC(at.VPCID)
	if len(problems) > 0 {
		placed.GroupProblem, groupIDs = &problems[0], nil
		placed.GroupProblem.Message = clip(placed.GroupProblem.Message)
	}
	for i := range placed.Problems {
		placed.Problems[i].Message = clip(placed.Problems[i].Message)
	}
	placed.Omitted = max(0, len(placements)-MaxObjects)
	for _, p := range placements[:min(len(placements), MaxObjects)] {
		w := Wanted{
			Ordinal: p.Ordinal, Candidates: p.Candidates, Template: n.Template,
			Slot: eni.Slot{Card: n.FirstSlot.Card, Device: n.FirstSlot.Device + p.Ordinal},
		}
		w.Template.EC2.Groups = groupIDs
		w.Template.EC2.Description = describe(n.Template.EC2.Description, w.Slot)
		placed.Interfaces = append(placed.Interfaces, w)
	}
	return placed
}

// maxMessage is the most bytes of the message of a problem that an object can have.
const maxMessage = 1024

func clip(message string) string {
	return strings.ToValidUTF8(message[:min(len(message), maxMessage)], "")
}

func describe(description string, slot eni.Slot) string {
	return strings.ReplaceAll(description, DeviceIndex, strconv.Itoa(slot.Device))
}

// Revision returns a hash of what the objects of a zone are rendered from: the declaration, and the matches of the
// selectors. It is the same for every order of the matches and for every number of free addresses.
func (n NodeENI) Revision(zone string) string {
	if n.Found == nil {
		return ""
	}
	placements, _ := n.Found.Subnets.ForZone(zone, "")
	from := struct {
		Template         Template
		First            eni.Slot
		Exact            bool
		Subnets          [][]string
		Unknown          []string
		Groups, Floating map[string][]string
	}{
		Template: n.Template, First: n.FirstSlot, Exact: n.ExactSlot, Unknown: n.Found.Subnets.Unknown,
		Groups: map[string][]string{}, Floating: map[string][]string{},
	}
	for _, p := range placements {
		var ids []string
		for _, s := range p.Candidates {
			ids = append(ids, s.ID)
			from.Groups[s.VPCID] = n.groupsIn(s.VPCID)
			from.Floating[s.ID] = n.FloatingOf[s.ID]
		}
		slices.Sort(ids)
		from.Subnets = append(from.Subnets, ids)
	}
	text, err := json.Marshal(from)
	if err != nil {
		panic(err) // strings, numbers and durations are always JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// groupsIn returns the groups of a VPC, or the problem of the first term without one.
func (n NodeENI) groupsIn(vpcID string) []string {
	ids, problems := n.Found.Groups.ForVPC(vpcID)
	for _, p := range problems {
		ids = append(ids, string(p.Reason)+" "+p.Message)
	}
	return ids
}

// floating returns the ranges in which addresses on an interface in a subnet follow pods: the declared ones within the
// subnet, or those that [NodeENI.FloatingOf] has for it. Of a declared range around the subnet it returns the subnet. A
// node creates an object for each address in these ranges, and the controller deletes objects of addresses outside the
// subnet: they would create and delete one without end.
func (n NodeENI) floating(subnet Subnet) []string {
	within, err := netip.ParsePrefix(subnet.CIDR)
	if err != nil {
		return nil
	}
	if declared := n.Template.Pods.Floating; len(declared) > 0 {
		return clipped(declared, within)
	}
	return n.FloatingOf[subnet.ID]
}

// clipped returns the parts of ranges that are within a range.
func clipped(ranges []string, within netip.Prefix) (parts []string) {
	for _, text := range ranges {
		switch r, err := netip.ParsePrefix(text); {
		case err != nil || !r.Overlaps(within):
			continue
		case r.Bits() < within.Bits():
			text = within.String()
		}
		if !slices.Contains(parts, text) {
			parts = append(parts, text)
		}
	}
	return parts
}
