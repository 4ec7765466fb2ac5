// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

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
			all = append(all, report.SimulatedNode{Outcome: forecast.Outcome{Actions: []plan.Action{plan.Create{
				Member: identity.Member{NodeENI: name}, SubnetID: "subnet-1", Spec: eni.Spec{AddressCounts: counts},
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
