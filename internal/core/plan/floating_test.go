// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
)

// TestFloatingAddressesAreNeitherFloorNorSurplus plans for an interface with addresses that follow pods. The record says that
// multieni requested all of them.
func TestFloatingAddressesAreNeitherFloorNorSurplus(t *testing.T) {
	ranges := plan.Floating{Ranges: []netip.Prefix{netip.MustParsePrefix("10.0.4.192/26")}}
	for name, tc := range map[string]struct {
		have     []byte
		count    int
		floating plan.Floating
		assigned int
		surplus  []byte
	}{
		"they do not count towards the floor": {[]byte{200}, 2, ranges, 2, nil},
		"they are no surplus":                 {[]byte{5, 200, 201}, 1, ranges, 0, nil},
		"others are":                          {[]byte{5, 6, 200}, 1, ranges, 0, []byte{6}},
		"assigned before the ranges changed":  {[]byte{20}, 1, plan.Floating{Addresses: addresses(20)}, 1, nil},
		"none is declared":                    {[]byte{5, 200}, 1, plan.Floating{}, 0, []byte{200}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newMinimalEC2(limits(4))
			d := desired(claim("n3", desiredInterface(0, 1, "s1")))
			last, ledger := w.drive(d, nil)
			i := *last.Members[0].Interface
			i.SecondaryIPv4 = addresses(tc.have...)
			w.interfaces[i.ID], w.requested[i.ID] = i, eni.Addresses{SecondaryIPv4: i.SecondaryIPv4}
			d.Claims[0].Interfaces[0].Spec.SecondaryIPv4 = tc.count
			o := w.observe(ledger)
			store(&o, i.ID, func(s *plan.Stored) { s.Floating = tc.floating })
			assigned, surplus := 0, []netip.Addr(nil)
			for _, action := range compute(d, o, w.now).Actions {
				switch to := action.(plan.Change).To.(type) {
				case plan.AssignAddresses:
					assigned += to.Addresses
				case plan.UnassignAddresses:
					surplus = append(surplus, to.Surplus.SecondaryIPv4...)
				}
			}
			if assigned != tc.assigned || !slices.Equal(surplus, addresses(tc.surplus...)) {
				t.Errorf("%d are assigned and %v unassigned, want %d and %v", assigned, surplus, tc.assigned, tc.surplus)
			}
		})
	}
}
