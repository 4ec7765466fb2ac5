// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// An interface without a slot belongs to one NodeENI. It does not delay the rollouts of other NodeENIs on other
// instances.
func TestInRollout(t *testing.T) {
	w := newMinimalEC2(limits(2))
	a, full := claim("a", desiredInterface(0, 1, "s1")), claim("b", desiredInterface(0, 2, "s2"))
	settled, ledger := w.drive(desired(a), nil)
	if rest := settled.InRollout(); len(rest) > 0 {
		t.Errorf("all is attached, and %v are in a rollout", rest)
	}
	stuck := compute(desired(a, full), w.observe(ledger), w.now)
	if got := stuck.InRollout(); !slices.Equal(got, []identity.Owner{full.Owner}) {
		t.Errorf("%v are in a rollout, want %s alone", got, full.Owner)
	}
	a.ReplaceAllowed, a.Interfaces[0].Subnets = true, []string{"s3"}
	if exchanged := compute(desired(a), w.observe(ledger), w.now); !slices.Contains(exchanged.InRollout(), a.Owner) {
		t.Errorf("%v are in a rollout, want %s", exchanged.InRollout(), a.Owner)
	}
}

// A member without a subnet in the zone delays no replacement, so no message says that one waits for it.
func TestAReplacementWaitsForMembersThatCanExist(t *testing.T) {
	w := newMinimalEC2(limits(2))
	a, noSubnet, full := claim("a", desiredInterface(0, 1, "s1")), claim("b"), claim("c", desiredInterface(0, 2, "s2"))
	noSubnet.Unresolvable = []plan.Problem{{Reason: plan.NoSubnetInZone}}
	_, ledger := w.drive(desired(a), nil)
	a.ReplaceAllowed, a.Interfaces[0].Subnets = true, []string{"s3"}
	p := compute(desired(a, noSubnet, full), w.observe(ledger), w.now)
	if why := p.Members[0].Why; why.Reason != plan.Replacing || !strings.Contains(why.Message, "interface 0 of NodeENI c is attached") {
		t.Errorf("%+v, want that it waits for interface 0 of NodeENI c", why)
	}
}
