// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"strings"
	"testing"

	"github.com/multieni/multieni/internal/core/plan"
)

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
