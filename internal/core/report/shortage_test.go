// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/forecast"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/report"
)

// TestAddShortages plans two interfaces of NodeENI b and one of NodeENI a in a subnet.
func TestAddShortages(t *testing.T) {
	creates := func(counts eni.AddressCounts) (all []report.SimulatedNode) {
		for _, name := range []string{"b", "a", "b"} {
			all = append(all, report.SimulatedNode{Outcome: forecast.Outcome{Calls: []plan.Call{plan.Create{
				Key: identity.Interface{NodeENI: name}, SubnetID: "subnet-1", Spec: eni.Spec{AddressCounts: counts},
			}}}})
		}
		return all
	}
	reserved := []report.SubnetReservation{{Type: "prefix", Free: 48}}
	for name, tc := range map[string]struct {
		subnet report.Subnet
		counts eni.AddressCounts
		want   string
	}{
		"enough addresses": {subnet: report.Subnet{Free: 3}},
		"one address too few": {
			subnet: report.Subnet{Free: 2},
			want:   "a, b needs 3 addresses there, and 2 are free",
		},
		"secondary addresses count": {
			subnet: report.Subnet{Free: 8}, counts: eni.AddressCounts{SecondaryIPv4: 2},
			want: "a, b needs 9 addresses there, and 8 are free",
		},
		"prefixes of a reservation": {
			subnet: report.Subnet{Free: 3, FreePrefixes: 3, Reservations: reserved}, counts: eni.AddressCounts{IPv4Prefixes: 1},
		},
		"no whole /28": {
			subnet: report.Subnet{Free: 100, FreePrefixes: 2}, counts: eni.AddressCounts{IPv4Prefixes: 1},
			want: "a, b needs 3 addresses and 3 /28s there, and 100 addresses and 2 /28s are free",
		},
		"prefixes take the addresses": {
			subnet: report.Subnet{Free: 50, FreePrefixes: 3}, counts: eni.AddressCounts{IPv4Prefixes: 1},
			want: "a, b needs 3 addresses and 3 /28s there, and 50 addresses and 3 /28s are free",
		},
		"a subnet without IPv4": {subnet: report.Subnet{IPv6Only: true}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.subnet.ID, tc.subnet.Zone = "subnet-1", "us-east-1a"
			planned := creates(tc.counts)
			if diff := cmp.Diff([]string{"subnet-1"}, report.PlannedSubnets(planned)); diff != "" {
				t.Error(diff)
			}
			var v report.PlanDiff
			v.AddShortages(planned, []report.Subnet{tc.subnet, {ID: "subnet-2"}})
			got := ""
			for _, s := range v.Shortages {
				got += s.String()
			}
			want := ""
			if tc.want != "" {
				want = "subnet-1 (us-east-1a) is too small: " + tc.want +
					"; the rest of the interfaces is created in another subnet of the zone, if there is one, and is blocked otherwise"
			}
			if got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

// creating is the outcome of a plan that creates an interface of a NodeENI in each of the subnets.
func creating(nodeENI string, subnets ...string) report.SimulatedNode {
	var node report.SimulatedNode
	for _, id := range subnets {
		node.Outcome.Calls = append(node.Outcome.Calls,
			plan.Create{Key: identity.Interface{NodeENI: nodeENI}, SubnetID: id},
			plan.Change{Key: identity.Interface{NodeENI: nodeENI}, InterfaceID: "eni-1", To: plan.SourceDestCheck(true)})
	}
	return node
}

func TestPlannedSubnetsAreThoseOfCreations(t *testing.T) {
	for name, tc := range map[string]struct {
		planned []report.SimulatedNode
		want    []string
	}{
		"no node":         {nil, nil},
		"nothing is made": {[]report.SimulatedNode{onNode("a", attachAt(0, "eni-1", 1), deleteOf("eni-2", "x"))}, nil},
		"each once, sorted": {
			[]report.SimulatedNode{creating("b", "s-2", "s-1", "s-2"), creating("a", "s-3", "s-1")},
			[]string{"s-1", "s-2", "s-3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, report.PlannedSubnets(tc.planned)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A shortage has the needs of its own subnet only, in the order of the subnets.
func TestAddShortagesCountsEachSubnetOnItsOwn(t *testing.T) {
	planned := []report.SimulatedNode{
		creating("sig", "s-1", "s-2", "s-3"), creating("multus", "s-3", "s-1"), creating("sig", "s-1"),
		creating("multus", "s-9"),
	}
	v := report.PlanDiff{Shortages: []report.Shortage{{SubnetID: "earlier"}}}
	v.AddShortages(planned, []report.Subnet{
		{ID: "s-3", Zone: "us-east-1c", Free: 1, FreePrefixes: 5}, {ID: "s-2", Zone: "us-east-1b", Free: 1},
		{ID: "s-1", Zone: "us-east-1a"}, {ID: "s-0"},
	})
	want := []report.Shortage{
		{SubnetID: "earlier"},
		{
			SubnetID: "s-3", Zone: "us-east-1c", NodeENIs: []string{"multus", "sig"},
			Addresses: 2, FreeAddresses: 1, FreePrefixes: 5,
		},
		{SubnetID: "s-1", Zone: "us-east-1a", NodeENIs: []string{"multus", "sig"}, Addresses: 3},
	}
	if diff := cmp.Diff(want, v.Shortages); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A prefix takes 16 addresses of the subnet, or of any of its reservations.
func TestAddShortagesFindsRoomForPrefixesInReservationsToo(t *testing.T) {
	node := onNode("a", plan.Create{SubnetID: "s-1", Spec: eni.Spec{AddressCounts: eni.AddressCounts{
		SecondaryIPv4: 3, IPv4Prefixes: 2,
	}}})
	for name, tc := range map[string]struct {
		free     int
		reserved []int
		want     bool
	}{
		"the last address suffices":         {free: 36},
		"one address too few":               {free: 35, want: true},
		"reservations have the rest":        {free: 4, reserved: []int{16, 16}},
		"reservations have one too few":     {free: 4, reserved: []int{16, 15}, want: true},
		"reservations serve prefixes alone": {free: 3, reserved: []int{64}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := report.Subnet{ID: "s-1", Free: tc.free, FreePrefixes: 2}
			for _, free := range tc.reserved {
				s.Reservations = append(s.Reservations, report.SubnetReservation{Free: free})
			}
			var v report.PlanDiff
			v.AddShortages([]report.SimulatedNode{node}, []report.Subnet{s})
			if short := len(v.Shortages) > 0; short != tc.want {
				t.Errorf("short is %t, want %t: %+v", short, tc.want, v.Shortages)
			}
		})
	}
}

func TestAShortageNamesWhatIsNeededAndFree(t *testing.T) {
	const rest = "; the rest of the interfaces is created in another subnet of the zone, if there is one, and is " +
		"blocked otherwise"
	for name, tc := range map[string]struct {
		of   report.Shortage
		want string
	}{
		"one of each": {
			report.Shortage{Addresses: 1, FreeAddresses: 1, Prefixes: 1, FreePrefixes: 1},
			"s-1 (us-east-1a) is too small: sig needs 1 address and 1 /28 there, and 1 address and 1 /28 are free",
		},
		"none is free": {
			report.Shortage{Addresses: 2, Prefixes: 3},
			"s-1 (us-east-1a) is too small: sig needs 2 addresses and 3 /28s there, and 0 addresses and 0 /28s are free",
		},
		"free prefixes are of no interest without a need": {
			report.Shortage{Addresses: 9, FreeAddresses: 7, FreePrefixes: 3},
			"s-1 (us-east-1a) is too small: sig needs 9 addresses there, and 7 are free",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.of.SubnetID, tc.of.Zone, tc.of.NodeENIs = "s-1", "us-east-1a", []string{"sig"}
			if diff := cmp.Diff(tc.want+rest, tc.of.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// More free addresses never make a shortage, and every subnet that is short is one of those with creations.
func TestMoreRoomMakesNoShortage(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ids := []string{"s-1", "s-2", "s-3"}
		var planned []report.SimulatedNode
		for range rapid.IntRange(0, 4).Draw(rt, "nodes") {
			planned = append(planned, creating("data", rapid.SliceOfN(rapid.SampledFrom(ids), 0, 4).Draw(rt, "subnets")...))
		}
		var subnets, larger []report.Subnet
		for _, id := range ids {
			s := report.Subnet{ID: id, Free: rapid.IntRange(0, 6).Draw(rt, "free")}
			subnets = append(subnets, s)
			s.Free += rapid.IntRange(0, 3).Draw(rt, "more")
			larger = append(larger, s)
		}
		short := func(subnets []report.Subnet) (all []string) {
			var v report.PlanDiff
			v.AddShortages(planned, subnets)
			for _, s := range v.Shortages {
				all = append(all, s.SubnetID)
			}
			return all
		}
		before := short(subnets)
		for _, id := range short(larger) {
			if !slices.Contains(before, id) {
				rt.Fatalf("%s is short only with more room", id)
			}
		}
		for _, id := range before {
			if !slices.Contains(report.PlannedSubnets(planned), id) {
				rt.Fatalf("%s is short, and nothing is created there", id)
			}
		}
	})
}
