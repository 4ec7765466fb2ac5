// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package selector_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/selector"
)

// The fleet of the tables: two zones, a spare subnet of the same name in the first, and a second VPC.
var (
	a1    = subnet("subnet-a1", "data-a", "vpc-1", "z-a", 10)
	a2    = subnet("subnet-a2", "data-a", "vpc-1", "z-a", 99)
	b1    = subnet("subnet-b1", "data-b", "vpc-1", "z-b", 10)
	other = subnet("subnet-o1", "data-a", "vpc-2", "z-a", 50)
	fleet = []eni.Subnet{a1, a2, b1, other}
)

var prefixes = cmpopts.EquateComparable(netip.Prefix{})

func subnet(id, name, vpcID, zone string, free int) eni.Subnet {
	return eni.Subnet{
		ID: id, Name: name, VPCID: vpcID, Zone: zone, FreeIPv4: free,
		Tags: map[string]string{"Name": name, "tier": "data"},
	}
}

// placed returns the IDs of the candidates of each placement.
func placed(t *testing.T, placements []selector.Placement) [][]string {
	t.Helper()
	var ids [][]string
	for n, p := range placements {
		if p.Ordinal != n {
			t.Errorf("placement %d has ordinal %d", n, p.Ordinal)
		}
		ids = append(ids, subnetIDs(p.Candidates))
	}
	return ids
}

func subnetIDs(subnets []eni.Subnet) []string {
	var ids []string
	for _, s := range subnets {
		ids = append(ids, s.ID)
	}
	return ids
}

func TestPlace(t *testing.T) {
	cases := map[string]struct {
		terms     selector.SubnetTerms
		zone, vpc string
		want      [][]string
		passed    map[string]selector.PassReason
	}{
		"one subnet in its zone": {
			terms: selector.SubnetTerms{IDs: []string{"subnet-a1"}}, zone: "z-a", vpc: "vpc-1",
			want: [][]string{{"subnet-a1"}},
		},
		"ordinals follow the listed order within the zone": {
			terms: selector.SubnetTerms{IDs: []string{"subnet-a2", "subnet-b1", "subnet-a1"}}, zone: "z-a", vpc: "vpc-1",
			want:   [][]string{{"subnet-a2"}, {"subnet-a1"}},
			passed: map[string]selector.PassReason{"subnet-b1": selector.OtherZone},
		},
		"a subnet of another VPC is passed over": {
			terms: selector.SubnetTerms{IDs: []string{"subnet-o1", "subnet-a1"}}, zone: "z-a", vpc: "vpc-1",
			want:   [][]string{{"subnet-a1"}},
			passed: map[string]selector.PassReason{"subnet-o1": selector.OtherVPC},
		},
		"an unknown VPC excludes nothing": {
			terms: selector.SubnetTerms{IDs: []string{"subnet-o1", "subnet-a1"}}, zone: "z-a",
			want: [][]string{{"subnet-o1"}, {"subnet-a1"}},
		},
		"subnets that share a name are candidates for one interface, the roomiest first": {
			terms: selector.SubnetTerms{Names: []string{"data-a"}}, zone: "z-a", vpc: "vpc-1",
			want:   [][]string{{"subnet-a2", "subnet-a1"}},
			passed: map[string]selector.PassReason{"subnet-o1": selector.OtherVPC},
		},
		"tags are one interface": {
			terms: selector.SubnetTerms{Tags: map[string]string{"tier": "data"}}, zone: "z-a", vpc: "vpc-1",
			want:   [][]string{{"subnet-a2", "subnet-a1"}},
			passed: map[string]selector.PassReason{"subnet-b1": selector.OtherZone, "subnet-o1": selector.OtherVPC},
		},
		"a subnet named by its ID and by its name counts once": {
			terms: selector.SubnetTerms{IDs: []string{"subnet-a2", "subnet-b1"}, Names: []string{"data-a"}}, zone: "z-a", vpc: "vpc-1",
			want:   [][]string{{"subnet-a2"}},
			passed: map[string]selector.PassReason{"subnet-b1": selector.OtherZone, "subnet-o1": selector.OtherVPC},
		},
		"a term listed twice counts once": {
			terms: selector.SubnetTerms{IDs: []string{"subnet-a1", "subnet-a1"}}, zone: "z-a", vpc: "vpc-1",
			want: [][]string{{"subnet-a1"}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			placements, passed := selector.MatchSubnets(tc.terms, fleet).ForZone(tc.zone, tc.vpc)
			if diff := cmp.Diff(tc.want, placed(t, placements)); diff != "" {
				t.Errorf("placements (-want +got):\n%s", diff)
			}
			got := map[string]selector.PassReason{}
			for _, p := range passed {
				got[p.Subnet.ID] = p.Reason
			}
			if tc.passed == nil {
				tc.passed = map[string]selector.PassReason{}
			}
			if diff := cmp.Diff(tc.passed, got); diff != "" {
				t.Errorf("passed over (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnknownSubnets(t *testing.T) {
	cases := map[string]struct {
		terms selector.SubnetTerms
		want  int
	}{
		"all known":          {selector.SubnetTerms{IDs: []string{"subnet-a1"}}, 0},
		"an ID is unknown":   {selector.SubnetTerms{IDs: []string{"subnet-a1", "subnet-x"}}, 1},
		"both names unknown": {selector.SubnetTerms{Names: []string{"x", "y"}}, 2},
		"a tag differs":      {selector.SubnetTerms{Tags: map[string]string{"tier": "data", "zone": "x"}}, 1},
		"an empty tag value is not an absent tag": {
			selector.SubnetTerms{Tags: map[string]string{"absent": ""}}, 1,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := selector.MatchSubnets(tc.terms, fleet)
			problems := m.Problems()
			if len(m.Unknown) != tc.want || len(problems) != tc.want {
				t.Fatalf("unknown %q, problems %v; want %d of each", m.Unknown, problems, tc.want)
			}
			for _, p := range problems {
				if p.Reason != plan.SubnetNotFound {
					t.Errorf("reason %s", p.Reason)
				}
			}
		})
	}
}

func TestLacking(t *testing.T) {
	m := selector.MatchSubnets(selector.SubnetTerms{IDs: []string{"subnet-b1", "subnet-o1"}}, fleet)
	cases := map[string]struct {
		match     selector.SubnetMatch
		zone, vpc string
		want      plan.Reason
	}{
		"a subnet is here":             {m, "z-b", "vpc-1", ""},
		"all are in other zones":       {m, "z-c", "vpc-1", plan.NoSubnetInZone},
		"the only one is in other VPC": {m, "z-a", "vpc-1", plan.NoSubnetInZone},
		"nothing is known anywhere":    {selector.MatchSubnets(selector.SubnetTerms{IDs: []string{"subnet-x"}}, fleet), "z-a", "vpc-1", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got plan.Reason
			if p := tc.match.NoSubnetProblem(tc.zone, tc.vpc); p != nil {
				got = p.Reason
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// The VPC of a node is not always known. The message must not depend on that, unless the VPC decides.
func TestOtherZonesAreToldAlikeInAnyVPC(t *testing.T) {
	m := selector.MatchSubnets(selector.SubnetTerms{IDs: []string{"subnet-b1", "subnet-o1"}}, fleet)
	if diff := cmp.Diff(m.NoSubnetProblem("z-c", ""), m.NoSubnetProblem("z-c", "vpc-1")); diff != "" {
		t.Error(diff)
	}
	if p := m.NoSubnetProblem("z-a", "vpc-1"); !strings.Contains(p.Message, "z-a of VPC vpc-1") {
		t.Errorf("the VPC decides, and is not told: %s", p.Message)
	}
}

// drawSubnets draws subnets with distinct IDs over few zones, VPCs and names, so that they collide.
func drawSubnets(t *rapid.T) []eni.Subnet {
	count := rapid.IntRange(0, 12).Draw(t, "count")
	var subnets []eni.Subnet
	for n := range count {
		subnets = append(subnets, subnet(
			fmt.Sprintf("subnet-%02d", n),
			rapid.SampledFrom([]string{"red", "green", "blue"}).Draw(t, "name"),
			rapid.SampledFrom([]string{"vpc-1", "vpc-2"}).Draw(t, "vpc"),
			rapid.SampledFrom([]string{"z-a", "z-b", "z-c"}).Draw(t, "zone"),
			rapid.IntRange(0, 3).Draw(t, "free"),
		))
	}
	return subnets
}

func drawSubnetTerms(t *rapid.T) selector.SubnetTerms {
	switch rapid.IntRange(0, 2).Draw(t, "form") {
	case 0:
		id := rapid.Custom(func(t *rapid.T) string { return fmt.Sprintf("subnet-%02d", rapid.IntRange(0, 14).Draw(t, "id")) })
		return selector.SubnetTerms{IDs: rapid.SliceOfNDistinct(id, 1, 6, rapid.ID).Draw(t, "IDs")}
	case 1:
		name := rapid.SampledFrom([]string{"red", "green", "blue", "grey"})
		return selector.SubnetTerms{Names: rapid.SliceOfNDistinct(name, 1, 4, rapid.ID).Draw(t, "names")}
	default:
		return selector.SubnetTerms{Tags: map[string]string{"tier": "data", "Name": rapid.SampledFrom([]string{"red", "grey"}).Draw(t, "tag")}}
	}
}

func TestEveryMatchedSubnetIsPlacedInExactlyOneZone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := selector.MatchSubnets(drawSubnetTerms(t), drawSubnets(t))
		var used []string
		for _, zone := range []string{"z-a", "z-b", "z-c"} {
			placements, passed := m.ForZone(zone, "")
			var here []string
			for _, p := range placements {
				here = append(here, subnetIDs(p.Candidates)...)
			}
			if len(here)+len(passed) != len(m.Subnets()) {
				t.Fatalf("zone %s: %d placed and %d passed over of %d", zone, len(here), len(passed), len(m.Subnets()))
			}
			used = append(used, here...)
		}
		slices.Sort(used)
		if diff := cmp.Diff(subnetIDs(m.Subnets()), used); diff != "" {
			t.Fatalf("placed over all zones (-want +got):\n%s", diff)
		}
	})
}

func TestOrderOfSubnetsDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		terms, subnets := drawSubnetTerms(t), drawSubnets(t)
		shuffled := shuffle(t, subnets)
		for _, zone := range []string{"z-a", "z-b"} {
			want, wantPassed := selector.MatchSubnets(terms, subnets).ForZone(zone, "vpc-1")
			got, gotPassed := selector.MatchSubnets(terms, shuffled).ForZone(zone, "vpc-1")
			if diff := cmp.Diff(want, got, prefixes) + cmp.Diff(wantPassed, gotPassed, prefixes); diff != "" {
				t.Fatalf("after shuffling (-before +after):\n%s", diff)
			}
		}
	})
}

func TestCandidatesAreOfThePlaceAndRoomiestFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		placements, _ := selector.MatchSubnets(drawSubnetTerms(t), drawSubnets(t)).ForZone("z-a", "vpc-1")
		for n, p := range placements {
			if p.Ordinal != n || len(p.Candidates) == 0 {
				t.Fatalf("placement %d: %+v", n, p)
			}
			for i, s := range p.Candidates {
				if s.Zone != "z-a" || s.VPCID != "vpc-1" {
					t.Fatalf("%s is elsewhere", s.ID)
				}
				if i > 0 && p.Candidates[i-1].FreeIPv4 < s.FreeIPv4 {
					t.Fatalf("%s has more room than the one before it", s.ID)
				}
			}
		}
	})
}

func shuffle[T any](t *rapid.T, list []T) []T {
	list = slices.Clone(list)
	source := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	source.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}
