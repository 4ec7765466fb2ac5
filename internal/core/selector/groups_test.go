// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package selector_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/selector"
)

func group(id, name, vpcID string, tags ...string) eni.SecurityGroup {
	g := eni.SecurityGroup{ID: id, Name: name, VPCID: vpcID, Tags: map[string]string{"team": "net"}}
	if len(tags) > 0 {
		g.Tags["Name"] = tags[0]
	}
	return g
}

func TestGroupsInVPC(t *testing.T) {
	groups := []eni.SecurityGroup{
		group("sg-3", "web", "vpc-1"),
		group("sg-1", "db", "vpc-1", "web"),
		group("sg-2", "cache", "vpc-1", "twin"),
		group("sg-4", "queue", "vpc-1", "twin"),
		group("sg-5", "web", "vpc-2"),
	}
	cases := map[string]struct {
		terms    selector.GroupTerms
		vpc      string
		want     []string
		problems []plan.Reason
	}{
		"IDs come out sorted":              {terms: selector.GroupTerms{IDs: []string{"sg-3", "sg-1", "sg-3"}}, vpc: "vpc-1", want: []string{"sg-1", "sg-3"}},
		"the group name wins over the tag": {terms: selector.GroupTerms{Names: []string{"web"}}, vpc: "vpc-1", want: []string{"sg-3"}},
		"the Name tag serves when no group is called so": {
			terms: selector.GroupTerms{Names: []string{"web"}}, vpc: "vpc-2", want: []string{"sg-5"},
		},
		"two names for one group are one group": {terms: selector.GroupTerms{Names: []string{"cache", "cache"}}, vpc: "vpc-1", want: []string{"sg-2"}},
		"two groups share a Name tag": {
			terms: selector.GroupTerms{Names: []string{"twin", "db"}}, vpc: "vpc-1", want: []string{"sg-1"},
			problems: []plan.Reason{plan.SecurityGroupAmbiguous},
		},
		"an unknown name": {
			terms: selector.GroupTerms{Names: []string{"nope"}}, vpc: "vpc-1", problems: []plan.Reason{plan.SecurityGroupNotFound},
		},
		"an ID of another VPC": {
			terms: selector.GroupTerms{IDs: []string{"sg-5"}}, vpc: "vpc-1", problems: []plan.Reason{plan.SecurityGroupNotFound},
		},
		"tags choose all groups of the VPC": {
			terms: selector.GroupTerms{Tags: map[string]string{"team": "net"}}, vpc: "vpc-1", want: []string{"sg-1", "sg-2", "sg-3", "sg-4"},
		},
		"tags that choose nothing": {
			terms: selector.GroupTerms{Tags: map[string]string{"team": "x"}}, vpc: "vpc-1", problems: []plan.Reason{plan.SecurityGroupNotFound},
		},
		"one name in two VPCs is fine while the VPC is unknown": {
			terms: selector.GroupTerms{Names: []string{"web"}}, want: []string{"sg-3", "sg-5"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ids, problems := selector.MatchGroups(tc.terms, groups).ForVPC(tc.vpc)
			if diff := cmp.Diff(tc.want, ids); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.problems, reasons(problems)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMoreGroupsThanAnInterfaceTakes(t *testing.T) {
	for count, want := range map[int][]plan.Reason{selector.MaxGroups: nil, selector.MaxGroups + 1: {plan.LimitReached}} {
		var groups []eni.SecurityGroup
		for n := range count {
			groups = append(groups, group(fmt.Sprintf("sg-%02d", n), fmt.Sprint(n), "vpc-1"))
		}
		_, problems := selector.MatchGroups(selector.GroupTerms{Tags: map[string]string{"team": "net"}}, groups).ForVPC("vpc-1")
		if diff := cmp.Diff(want, reasons(problems)); diff != "" {
			t.Errorf("%d groups (-want +got):\n%s", count, diff)
		}
	}
}

func TestGroupsAreSortedOnceAndIndependentOfOrder(t *testing.T) {
	word := rapid.SampledFrom([]string{"red", "green", "blue"})
	rapid.Check(t, func(t *rapid.T) {
		var groups []eni.SecurityGroup
		for n := range rapid.IntRange(0, 10).Draw(t, "count") {
			vpc := rapid.SampledFrom([]string{"vpc-1", "vpc-2"}).Draw(t, "vpc")
			groups = append(groups, group(fmt.Sprintf("sg-%d", n), word.Draw(t, "name"), vpc, word.Draw(t, "tag")))
		}
		terms := selector.GroupTerms{Names: rapid.SliceOfN(word, 1, 3).Draw(t, "names")}
		ids, problems := selector.MatchGroups(terms, groups).ForVPC("vpc-1")
		again, problemsAgain := selector.MatchGroups(terms, shuffle(t, groups)).ForVPC("vpc-1")
		if diff := cmp.Diff(ids, again) + cmp.Diff(problems, problemsAgain); diff != "" {
			t.Fatalf("after shuffling (-before +after):\n%s", diff)
		}
		if !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != len(ids) {
			t.Fatalf("not sorted or not distinct: %v", ids)
		}
	})
}

func reasons(problems []plan.Problem) []plan.Reason {
	var all []plan.Reason
	for _, p := range problems {
		all = append(all, p.Reason)
	}
	return all
}
