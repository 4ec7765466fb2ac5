// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
)

// SubnetTerms select subnets in exactly one of three forms. Each ID and each name is a separate term and means one
// interface per node; the tags together are one term.
type SubnetTerms struct {
	// IDs and Names apply in the listed order; a name is the value of the Name tag.
	IDs, Names []string
	// Tags must all be on a subnet, with exactly these values.
	Tags map[string]string
}

// SubnetMatch is the result of matching subnet terms with the subnets of EC2, in any zone and VPC.
type SubnetMatch struct {
	// Unknown are the terms that no subnet matches, as the user wrote them, in the listed order.
	Unknown []string

	matched []matchedTerm
	// tags are those of the terms, which are then one term.
	tags map[string]string
}

// matchedTerm is a term with the subnets that match it, at least one.
type matchedTerm struct {
	term    string
	subnets []eni.Subnet
}

// MatchSubnets matches the terms with the subnets. The order of the subnets does not matter.
func MatchSubnets(terms SubnetTerms, subnets []eni.Subnet) SubnetMatch {
	m := SubnetMatch{tags: terms.Tags}
	for _, t := range terms.split() {
		matching := filter(subnets, t.matches)
		if len(matching) == 0 {
			m.Unknown = append(m.Unknown, t.text)
			continue
		}
		m.matched = append(m.matched, matchedTerm{term: t.text, subnets: matching})
	}
	return m
}

// Subnets returns every subnet that a term matches, once, sorted by ID.
func (m SubnetMatch) Subnets() []eni.Subnet {
	var all []eni.Subnet
	for _, t := range m.matched {
		all = append(all, t.subnets...)
	}
	return distinct(all)
}

// Problems returns a problem for each unknown term.
func (m SubnetMatch) Problems() []plan.Problem {
	var problems []plan.Problem
	for _, term := range m.Unknown {
		problems = append(problems, plan.Problem{
			Reason: plan.SubnetNotFound,
			Message: Explained(fmt.Sprintf("EC2 knows no subnet with %s; create it, or select another, and check that the "+
				"controller works in the region and account of the subnet", term), m.tags),
		})
	}
	return problems
}

// Placement is one interface that a node of a zone gets.
type Placement struct {
	// Ordinal counts the placements of the zone from 0 in the listed order.
	Ordinal int
	// Term is its selector term, as the user wrote it.
	Term string
	// Candidates are the allowed subnets, at least one, the one with the most free IPv4 addresses first.
	Candidates []eni.Subnet
}

// Skipped is a matching subnet that is not usable at a location.
type Skipped struct {
	Subnet eni.Subnet
	Reason PassReason
}

// PassReason says why a subnet was skipped.
type PassReason string

// The reasons for skipping a subnet. A subnet in another zone of another VPC counts as OtherZone.
const (
	OtherZone PassReason = "OtherZone"
	OtherVPC  PassReason = "OtherVPC"
)

// ForZone returns the interfaces that a node in the zone gets, and the matching subnets that were skipped for it. An
// empty vpcID means that the node's VPC is not known yet; subnets of any VPC then count. A subnet that two terms name
// is placed only once.
func (m SubnetMatch) ForZone(zone, vpcID string) (placements []Placement, passed []Skipped) {
	placed := map[string]bool{}
	for _, t := range m.matched {
		here := filter(t.subnets, func(s eni.Subnet) bool { return passReason(s, zone, vpcID) == "" })
		twice := slices.ContainsFunc(here, func(s eni.Subnet) bool { return placed[s.ID] })
		if len(here) == 0 || twice {
			continue
		}
		for _, s := range here {
			placed[s.ID] = true
		}
		slices.SortFunc(here, byFreeAddresses)
		placements = append(placements, Placement{Ordinal: len(placements), Term: t.term, Candidates: here})
	}
	for _, s := range m.Subnets() {
		if reason := passReason(s, zone, vpcID); reason != "" {
			passed = append(passed, Skipped{Subnet: s, Reason: reason})
		}
	}
	return placements, passed
}

// NoSubnetProblem returns the problem of a location at which no matching subnet is usable. It returns nil if at least
// one is usable, and if nothing matches at any location: [SubnetMatch.Problems] reports that.
func (m SubnetMatch) NoSubnetProblem(zone, vpcID string) *plan.Problem {
	placements, passed := m.ForZone(zone, vpcID)
	if len(placements) > 0 || len(passed) == 0 {
		return nil
	}
	var places []string
	// Name the VPC only if it decides. It is not always known, and the message must not change when it becomes known.
	where := zone
	for _, p := range passed {
		place := p.Subnet.Zone
		if p.Reason == OtherVPC {
			place, where = p.Subnet.VPCID, zone+" of VPC "+vpcID
		}
		places = append(places, fmt.Sprintf("%s (%s)", p.Subnet.ID, place))
	}
	return &plan.Problem{
		Reason: plan.NoSubnetInZone,
		Message: fmt.Sprintf("none of the NodeENI's subnets is in the node's zone %s: they are %s; add a subnet of "+
			"that zone to the NodeENI, "+
			"or narrow its nodeSelector", where, abridged(places)),
	}
}

func passReason(s eni.Subnet, zone, vpcID string) PassReason {
	switch {
	case s.Zone != zone:
		return OtherZone
	case vpcID != "" && s.VPCID != vpcID:
		return OtherVPC
	default:
		return ""
	}
}

// byFreeAddresses orders the subnet with the most free addresses first.
func byFreeAddresses(a, b eni.Subnet) int {
	return cmp.Or(cmp.Compare(b.FreeIPv4, a.FreeIPv4), strings.Compare(a.ID, b.ID))
}

// distinct sorts subnets by ID and drops duplicates.
func distinct(subnets []eni.Subnet) []eni.Subnet {
	slices.SortFunc(subnets, func(a, b eni.Subnet) int { return strings.Compare(a.ID, b.ID) })
	return slices.CompactFunc(subnets, func(a, b eni.Subnet) bool { return a.ID == b.ID })
}

// subnetTerm is one term by itself.
type subnetTerm struct {
	text    string
	matches func(eni.Subnet) bool
}

// split returns the terms one by one. A term that is listed twice counts once.
func (t SubnetTerms) split() []subnetTerm {
	var terms []subnetTerm
	for _, id := range distinctTerms(t.IDs) {
		terms = append(terms, subnetTerm{"ID " + id, func(s eni.Subnet) bool { return s.ID == id }})
	}
	for _, name := range distinctTerms(t.Names) {
		terms = append(terms, subnetTerm{"name " + strconv.Quote(name), func(s eni.Subnet) bool { return s.Name == name }})
	}
	if len(t.Tags) > 0 {
		terms = append(terms, subnetTerm{"tags " + tagText(t.Tags), func(s eni.Subnet) bool {
			return hasTags(s.Tags, t.Tags)
		}})
	}
	return terms
}
