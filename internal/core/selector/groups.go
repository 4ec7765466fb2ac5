// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
)

// MaxGroups is the maximum number of security groups of an interface: 5 by default, 16 if the quota is raised (Amazon
// VPC user guide, "Amazon VPC quotas").
const MaxGroups = 16

// GroupTerms select security groups in exactly one of three forms. An interface gets every selected group.
type GroupTerms struct {
	// A name is the group's name or, only if no group has that name, the value of the Name tag.
	IDs, Names []string
	// Tags must all be on a group, with exactly these values.
	Tags map[string]string
}

// GroupMatch has group terms and the security groups of EC2, in any VPC.
type GroupMatch struct {
	terms  GroupTerms
	groups []eni.SecurityGroup
}

// MatchGroups matches the terms with the groups. The order of the groups does not matter.
func MatchGroups(terms GroupTerms, groups []eni.SecurityGroup) GroupMatch {
	return GroupMatch{terms: terms, groups: groups}
}

// ForVPC returns the IDs of the selected groups of the VPC, sorted and without duplicates, and the problems of the
// terms there. An empty vpcID means all VPCs: a group is then unknown only if no VPC has it, and ambiguous only if one
// VPC has it twice.
func (m GroupMatch) ForVPC(vpcID string) (ids []string, problems []plan.Problem) {
	here := filter(m.groups, func(g eni.SecurityGroup) bool { return vpcID == "" || g.VPCID == vpcID })
	var chosen []eni.SecurityGroup
	for _, t := range m.terms.split() {
		matching := t.matching(here)
		problem := t.problem(matching, vpcID)
		if problem != nil {
			if !t.single {
				problem.Message = Explained(problem.Message, m.terms.Tags)
			}
			problems = append(problems, *problem)
			continue
		}
		chosen = append(chosen, matching...)
	}
	chosen = distinctGroups(chosen)
	if problem := tooMany(chosen); problem != nil {
		return nil, append(problems, *problem)
	}
	return groupIDs(chosen), problems
}

// Groups returns the groups that EC2 has for the terms, and possibly others.
func (m GroupMatch) Groups() []eni.SecurityGroup { return m.groups }

// VPCs returns the VPCs of the groups, sorted.
func (m GroupMatch) VPCs() []string {
	var ids []string
	for _, g := range m.groups {
		ids = append(ids, g.VPCID)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// groupTerm is one term by itself.
type groupTerm struct {
	text string
	// single is set if the term must match one group in a VPC.
	single bool
	// matches are tried in order until one matches a group.
	matches []func(eni.SecurityGroup) bool
}

// split returns the terms one by one.
func (t GroupTerms) split() []groupTerm {
	var terms []groupTerm
	for _, id := range distinctTerms(t.IDs) {
		terms = append(terms, groupTerm{"ID " + id, true, []func(eni.SecurityGroup) bool{
			func(g eni.SecurityGroup) bool { return g.ID == id },
		}})
	}
	for _, name := range distinctTerms(t.Names) {
		terms = append(terms, groupTerm{"name " + strconv.Quote(name), true, []func(eni.SecurityGroup) bool{
			func(g eni.SecurityGroup) bool { return g.Name == name },
			func(g eni.SecurityGroup) bool { return g.Tags["Name"] == name },
		}})
	}
	if len(t.Tags) > 0 {
		terms = append(terms, groupTerm{"tags " + tagText(t.Tags), false, []func(eni.SecurityGroup) bool{
			func(g eni.SecurityGroup) bool { return hasTags(g.Tags, t.Tags) },
		}})
	}
	return terms
}

// matching returns the groups that the term matches, separately for each VPC.
func (t groupTerm) matching(groups []eni.SecurityGroup) []eni.SecurityGroup {
	var found []eni.SecurityGroup
	for _, vpc := range byVPC(groups) {
		for _, matches := range t.matches {
			if some := filter(vpc, matches); len(some) > 0 {
				found = append(found, some...)
				break
			}
		}
	}
	return distinctGroups(found)
}

func (t groupTerm) problem(matching []eni.SecurityGroup, vpcID string) *plan.Problem {
	if len(matching) == 0 {
		place := "the region and account of the controller"
		if vpcID != "" {
			place = "VPC " + vpcID + ", where the node is"
		}
		return &plan.Problem{
			Reason: plan.SecurityGroupNotFound,
			Message: fmt.Sprintf("there is no security group with %s in %s; create it there, or select another",
				t.text, place),
		}
	}
	if !t.single {
		return nil
	}
	for _, vpc := range byVPC(matching) {
		if len(vpc) > 1 {
			return &plan.Problem{
				Reason: plan.SecurityGroupAmbiguous,
				Message: fmt.Sprintf("%d security groups of VPC %s have the %s: %s; use securityGroupIDs in the "+
					"NodeENI to say which one is meant",
					len(vpc), vpc[0].VPCID, t.text, abridged(groupIDs(vpc))),
			}
		}
	}
	return nil
}

func tooMany(groups []eni.SecurityGroup) *plan.Problem {
	for _, vpc := range byVPC(groups) {
		if len(vpc) > MaxGroups {
			return &plan.Problem{
				Reason: plan.LimitReached,
				Message: fmt.Sprintf("the NodeENI chooses %d security groups of VPC %s, and an interface takes %d at "+
					"most: %s; choose fewer",
					len(vpc), vpc[0].VPCID, MaxGroups, abridged(groupIDs(vpc))),
			}
		}
	}
	return nil
}

// byVPC splits groups by VPC, in the order of the VPC IDs; within a VPC they are sorted by ID.
func byVPC(groups []eni.SecurityGroup) [][]eni.SecurityGroup {
	sorted := distinctGroups(groups)
	slices.SortStableFunc(sorted, func(a, b eni.SecurityGroup) int { return strings.Compare(a.VPCID, b.VPCID) })
	var vpcs [][]eni.SecurityGroup
	for n, g := range sorted {
		if n == 0 || sorted[n-1].VPCID != g.VPCID {
			vpcs = append(vpcs, nil)
		}
		vpcs[len(vpcs)-1] = append(vpcs[len(vpcs)-1], g)
	}
	return vpcs
}

// distinctGroups returns the groups sorted by ID, each once.
func distinctGroups(groups []eni.SecurityGroup) []eni.SecurityGroup {
	sorted := slices.SortedFunc(slices.Values(groups), func(a, b eni.SecurityGroup) int {
		return strings.Compare(a.ID, b.ID)
	})
	return slices.CompactFunc(sorted, func(a, b eni.SecurityGroup) bool { return a.ID == b.ID })
}

func groupIDs(groups []eni.SecurityGroup) []string {
	var ids []string
	for _, g := range groups {
		ids = append(ids, g.ID)
	}
	return ids
}
