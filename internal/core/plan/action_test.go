// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
)

func TestTheTextOfAChangeOfAddressesNamesWhatChanges(t *testing.T) {
	prefixes := []netip.Prefix{netip.MustParsePrefix("10.0.0.16/28"), netip.MustParsePrefix("10.0.0.32/28")}
	for want, change := range map[string]fmt.Stringer{
		"1 more IPv4 prefix":                           plan.AssignAddresses{Family: plan.IPv4, Prefixes: 1},
		"2 more IPv4 prefixes":                         plan.AssignAddresses{Family: plan.IPv4, Prefixes: 2},
		"1 more IPv6 address":                          plan.AssignAddresses{Family: plan.IPv6, Addresses: 1},
		"3 more IPv6 addresses and 1 more IPv6 prefix": plan.AssignAddresses{Family: plan.IPv6, Addresses: 3, Prefixes: 1},
		"2 fewer IPv4 prefixes":                        plan.UnassignAddresses{Family: plan.IPv4, Surplus: eni.Addresses{IPv4Prefixes: prefixes}},
	} {
		if got := change.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
