// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strconv"
	"strings"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/selector"
)

// Declared is what is declared for one instance.
type Declared struct {
	// Cluster, Node and InstanceID become tags of every new interface.
	Cluster, Node, InstanceID string
	// NodeAbsent is set if the API server has no Node for the instance.
	NodeAbsent bool
	// Paused is set if a user paused the node. Claims have their own mode; this is for interfaces without a claim.
	Paused bool
	// Claims has one claim for each NodeENI that desires, or still has, interfaces here.
	Claims []Claim
	// InstanceTags and InPlaceUpdates are for the planner; see [plan.Desired].
	InstanceTags   []eni.InstanceTag
	InPlaceUpdates []plan.InPlaceUpdate
}

// Claim is what one NodeENI asks for on the instance.
type Claim struct {
	NodeENI string
	Owner   identity.Owner
	Mode    Mode
	// Selects is set if the labels of a present Node match.
	Selects bool
	// Why says in words why the claim is released or retained.
	Why string
	// Leaked is set on a released claim whose NodeENI does not exist any more. The planner removes its interfaces only
	// if they are old enough to be leaks. It retains attached ones for Grace after MissingSince, the time of the first
	// absence of the NodeENI.
	Leaked       bool
	MissingSince time.Time
	Grace        time.Duration
	// Interfaces are the desired interfaces in the order of the NodeENI's subnets. Those of a paused claim serve only to
	// report drift.
	Interfaces []plan.DesiredInterface
	// FirstSlot is the requested slot of the first interface.
	FirstSlot eni.Slot
	// Unresolvable has, for each interface that could not be resolved, the reason: for example no subnet in the zone.
	Unresolvable []plan.Problem
	// SecurityGroupProblem is the reason why the security groups are unknown. While it is set, the planner creates no
	// interface and changes no groups.
	SecurityGroupProblem *plan.Problem
	// AllResolved is set if every selector of the NodeENI was resolved. Only then does the planner remove surplus
	// interfaces: a failed or partial answer is no reason to remove one.
	AllResolved bool
	// ExactSlot accepts only the requested slot.
	ExactSlot bool
	// PodPrefixes is the demand of pods for IPv4 prefixes.
	PodPrefixes plan.PrefixDemand
	// EvictPods is set if multieni evicts the pods that use an interface before its removal. Otherwise the removal waits
	// for them.
	EvictPods bool
	// ReplaceAllowed allows the replacement of a live interface for a change that cannot be made in place.
	ReplaceAllowed bool
}

// Resolve sets the desired interfaces of a claim at a location from the matches of its selectors. The function spec
// returns the interface of a placement with the given security groups.
func (c *Claim) Resolve(
	found selector.Found, at selector.Location, spec func(p selector.Placement, groupIDs []string) eni.Spec,
) {
	placements, _ := found.Subnets.ForZone(at.Zone, at.VPCID)
	c.AllResolved = len(found.Subnets.Unknown) == 0
	c.Unresolvable = found.Subnets.Problems()
	if lacking := found.Subnets.NoSubnetProblem(at.Zone, at.VPCID); lacking != nil {
		c.Unresolvable = append(c.Unresolvable, *lacking)
	}
	groupIDs, problems := found.Groups.ForVPC(at.VPCID)
	if len(problems) > 0 {
		c.SecurityGroupProblem, groupIDs = &problems[0], nil
	}
	for _, p := range placements {
		desired := plan.DesiredInterface{
			Ordinal: p.Ordinal,
			Subnets: subnetIDs(p.Candidates),
			Slot:    eni.Slot{Card: c.FirstSlot.Card, Device: c.FirstSlot.Device + p.Ordinal},
			Spec:    spec(p, groupIDs),
		}
		device := strconv.Itoa(desired.Slot.Device)
		desired.Spec.Description = strings.ReplaceAll(desired.Spec.Description, DeviceIndex, device)
		c.Interfaces = append(c.Interfaces, desired)
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
