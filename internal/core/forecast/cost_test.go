// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package forecast_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/forecast"
	"github.com/multieni/multieni/internal/core/plan"
)

func TestEachActionIsOneOperationOfEC2(t *testing.T) {
	cases := map[string]struct {
		action plan.Action
		want   string
	}{
		"create":               {plan.Create{}, "CreateNetworkInterface"},
		"attach":               {plan.Attach{}, "AttachNetworkInterface"},
		"detach":               {plan.Detach{}, "DetachNetworkInterface"},
		"delete":               {plan.Delete{}, "DeleteNetworkInterface"},
		"tags":                 {plan.Change{To: plan.Tags{}}, "CreateTags"},
		"groups":               {plan.Change{To: plan.Groups{"sg-1"}}, "ModifyNetworkInterfaceAttribute"},
		"delete on end":        {plan.Change{To: plan.DeleteOnTermination{Enabled: true}}, "ModifyNetworkInterfaceAttribute"},
		"more IPv4 addresses":  {plan.Change{To: plan.AssignAddresses{Family: plan.IPv4, Addresses: 1}}, "AssignPrivateIpAddresses"},
		"more IPv6 prefixes":   {plan.Change{To: plan.AssignAddresses{Family: plan.IPv6, Prefixes: 1}}, "AssignIpv6Addresses"},
		"fewer IPv4 addresses": {plan.Change{To: plan.UnassignAddresses{Family: plan.IPv4}}, "UnassignPrivateIpAddresses"},
		"fewer IPv6 addresses": {plan.Change{To: plan.UnassignAddresses{Family: plan.IPv6}}, "UnassignIpv6Addresses"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := forecast.Operation(tc.action); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
			if calls := forecast.Calls([]plan.Action{tc.action, tc.action}); len(calls) != 1 || calls[tc.want] != 2 {
				t.Errorf("two of them are %v", calls)
			}
		})
	}
}

func TestMoreCallsNeverTakeLessTime(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rates, calls, more := map[string]forecast.Rate{}, map[string]int{}, map[string]int{}
		for _, operation := range []string{"Attach", "Create", "Delete"} {
			rates[operation] = forecast.Rate{Burst: rapid.IntRange(0, 50).Draw(rt, "burst"), PerSecond: rapid.Float64Range(0.1, 20).Draw(rt, "rate")}
			calls[operation] = rapid.IntRange(0, 1000).Draw(rt, "calls")
			more[operation] = calls[operation] + rapid.IntRange(0, 1000).Draw(rt, "more")
		}
		least, slowest := forecast.MinDuration(calls, rates)
		longer, _ := forecast.MinDuration(more, rates)
		if longer < least {
			rt.Fatalf("%v takes %s, and %v takes %s", calls, least, more, longer)
		}
		if (least == 0) != (slowest == "") {
			rt.Fatalf("%s because of %q", least, slowest)
		}
		if alone, _ := forecast.MinDuration(map[string]int{slowest: calls[slowest]}, rates); alone != least {
			rt.Fatalf("%s takes %s alone and %s among others", slowest, alone, least)
		}
	})
}

func TestAForecastDoesNotDependOnTheTimeOfDay(t *testing.T) {
	d := desired(plan.Ensure, wish("subnet-1", 0), wish("subnet-2", 1))
	first := forecast.Calls(forecast.Simulate(d, facts(), now).Actions)
	later := forecast.Calls(forecast.Simulate(d, facts(), now.Add(1000*time.Hour)).Actions)
	if len(first) == 0 || len(first) != len(later) {
		t.Fatalf("%v now, %v later", first, later)
	}
	for operation, n := range first {
		if later[operation] != n {
			t.Errorf("%s: %d now, %d later", operation, n, later[operation])
		}
	}
}
