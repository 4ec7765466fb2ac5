// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"

	"github.com/multieni/multieni/internal/core/plan"
)

// TestSupersedes has an instance without room for another interface, and a subnet that has no room either. Only a read of
// the instance shows the first, so that a plan without one would alternate between the two.
func TestSupersedes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		now, earlier plan.Reason
		read, want   bool
	}{
		"the subnet is full, without a read":       {plan.SubnetFull, plan.InstanceFull, false, false},
		"it has no block, without a read":          {plan.NoFreePrefix, plan.InstanceFull, false, false},
		"the subnet is full, by a read":            {plan.SubnetFull, plan.InstanceFull, true, true},
		"another reason, without a read":           {plan.SlotTaken, plan.InstanceFull, false, true},
		"the subnet is full, and nothing before":   {plan.SubnetFull, "", false, true},
		"the interface is attached, after a while": {"", plan.InstanceFull, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.now.Supersedes(tc.earlier, tc.read); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
