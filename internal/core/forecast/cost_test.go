// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package forecast_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/forecast"
	"github.com/multieni/multieni/internal/core/plan"
)

func TestEachActionIsOneOperationOfEC2(t *testing.T) {
	cases := map[string]struct {
		action plan.Call
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
		"a check switched off": {plan.Change{To: plan.SourceDestCheck(false)}, "ModifyNetworkInterfaceAttribute"},
		"a description":        {plan.Change{To: plan.Description("storage")}, "ModifyNetworkInterfaceAttribute"},
		"fewer IPv6 addresses": {plan.Change{To: plan.UnassignAddresses{Family: plan.IPv6}}, "UnassignIpv6Addresses"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := forecast.Operation(tc.action); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
			if calls := forecast.Calls([]plan.Call{tc.action, tc.action}); len(calls) != 1 || calls[tc.want] != 2 {
				t.Errorf("two of them are %v", calls)
			}
		})
	}
}

// TestMinDurationOfOperationsWithoutALimit checks rates that limit nothing, and operations of equal duration.
func TestMinDurationOfOperationsWithoutALimit(t *testing.T) {
	type calls map[string]int
	type rates map[string]forecast.Rate
	one := forecast.Rate{PerSecond: 1}
	for name, tc := range map[string]struct {
		calls calls
		rates rates
		want  time.Duration
		of    string
	}{
		"no calls":                   {nil, rates{"Create": one}, 0, ""},
		"a rate of zero is none":     {calls{"Create": 9}, rates{"Create": {Burst: 2}}, 0, ""},
		"a negative rate is none":    {calls{"Create": 9}, rates{"Create": {PerSecond: -1}}, 0, ""},
		"fewer calls than the burst": {calls{"Create": 1}, rates{"Create": {Burst: 2, PerSecond: 1}}, 0, ""},
		"the first of equals by name": {
			calls{"B": 3, "A": 3, "C": 3}, rates{"A": one, "B": one, "C": one}, 3 * time.Second, "A",
		},
		"the slowest is not the first": {calls{"A": 3, "B": 4}, rates{"A": one, "B": one}, 4 * time.Second, "B"},
		"fewer calls at a lower rate": {
			calls{"A": 30, "B": 4}, rates{"A": {PerSecond: 20}, "B": one}, 4 * time.Second, "B",
		},
		"times add up to less than a second": {calls{"A": 1}, rates{"A": {PerSecond: 4}}, 250 * time.Millisecond, "A"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // the order of a map differs from time to time
				if least, of := forecast.MinDuration(tc.calls, tc.rates); least != tc.want || of != tc.of {
					t.Fatalf("%s by %q, want %s by %q", least, of, tc.want, tc.of)
				}
			}
		})
	}
}

// TestCallsAddUp checks that the calls of many instances are the sum of those of each.
func TestCallsAddUp(t *testing.T) {
	actions := []plan.Call{
		plan.Create{}, plan.Attach{}, plan.Change{To: plan.DeleteOnTermination{}}, plan.Create{}, plan.Attach{},
		plan.Change{To: plan.Groups{"sg-1"}}, plan.Detach{Force: true},
	}
	want := map[string]int{
		"CreateNetworkInterface": 2, "AttachNetworkInterface": 2, "ModifyNetworkInterfaceAttribute": 2,
		"DetachNetworkInterface": 1,
	}
	if diff := cmp.Diff(want, forecast.Calls(actions)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if none := forecast.Calls(nil); len(none) != 0 {
		t.Errorf("no actions make %v", none)
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
	in := input(declares(nil, "subnet-1", "subnet-2"))
	first := forecast.Calls(forecast.Simulate(in, now).Calls)
	later := forecast.Calls(forecast.Simulate(in, now.Add(1000*time.Hour)).Calls)
	if len(first) == 0 || len(first) != len(later) {
		t.Fatalf("%v now, %v later", first, later)
	}
	for operation, n := range first {
		if later[operation] != n {
			t.Errorf("%s: %d now, %d later", operation, n, later[operation])
		}
	}
}
