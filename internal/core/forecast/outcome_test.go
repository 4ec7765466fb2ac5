// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package forecast_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/forecast"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// TestAnOutcomeOfSomeNodeENIsLeavesOutTheOthers has one call, eviction and interface of each of two NodeENIs.
func TestAnOutcomeOfSomeNodeENIsLeavesOutTheOthers(t *testing.T) {
	of := func(nodeENIs ...string) (o forecast.Outcome) {
		for _, name := range nodeENIs {
			key := identity.Interface{NodeENI: name}
			o.Calls = append(o.Calls, plan.Delete{Key: key})
			o.Evictions = append(o.Evictions, forecast.Eviction{Key: key})
			o.Interfaces = append(o.Interfaces, forecast.Interface{State: plan.State{Key: key}})
		}
		return o
	}
	whole := of("data", "multus")
	if diff := cmp.Diff(of("multus"), whole.Of([]string{"multus", "n3"}), exact); diff != "" {
		t.Errorf("outcome of multus (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(of("data", "multus"), whole, exact); diff != "" {
		t.Errorf("the whole outcome changed (-want +got):\n%s", diff)
	}
}
