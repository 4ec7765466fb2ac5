// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package forecast_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/forecast"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// podsOn returns the input for an instance whose pods use eni-1 according to the report.
func podsOn(report plan.PodNetwork) forecast.Input {
	in := facts(owned("subnet-1"))
	in.Stored = map[string]plan.Stored{"eni-1": {Report: &report}}
	return in
}

// TestSimulateRemovesAnInterfaceOfPods checks what happens to pods before the interface that they use is removed.
func TestSimulateRemovesAnInterfaceOfPods(t *testing.T) {
	removed := []string{"detach eni-1: it is asked for", "delete eni-1: it is asked for"}
	for name, tc := range map[string]struct {
		report plan.PodNetwork
		evict  bool
		want   []string
		evicts []string
		reason plan.Reason
	}{
		"no pod has an address, and the drain completes": {report: plan.PodNetwork{Free: 16}, want: removed},
		"a pod has an address, and is not evicted": {
			report: plan.PodNetwork{Used: 1, Pods: []string{"upf/a"}}, reason: plan.InUseByPods,
		},
		"the report calls a network drained that pods use": {
			report: plan.PodNetwork{Used: 1, Drained: true, Pods: []string{"upf/a"}}, reason: plan.InUseByPods,
		},
		"two pods have addresses, and are evicted": {
			report: plan.PodNetwork{Used: 2, Pods: []string{"upf/a", "upf/b"}}, evict: true, want: removed,
			evicts: []string{"evict the pods upf/a, upf/b, which use eni-1: it is asked for"},
		},
		"a pod without a name cannot be evicted": {report: plan.PodNetwork{Used: 1}, evict: true, reason: plan.InUseByPods},
	} {
		t.Run(name, func(t *testing.T) {
			d := desired(render.Release)
			d.Claims[0].EvictPods, d.Claims[0].PodPrefixes.Pods = tc.evict, true
			outcome := forecast.Simulate(d, podsOn(tc.report), now)
			if diff := cmp.Diff(tc.want, texts(outcome.Actions)); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			var evicts []string
			for _, eviction := range outcome.Evictions {
				evicts = append(evicts, eviction.String())
			}
			if diff := cmp.Diff(tc.evicts, evicts); diff != "" {
				t.Errorf("evictions (-want +got):\n%s", diff)
			}
			var reason plan.Reason
			for _, m := range outcome.Members {
				reason = m.Why.Reason
			}
			if reason != tc.reason {
				t.Errorf("the interface ends with reason %q, want %q", reason, tc.reason)
			}
		})
	}
}

// TestSimulateGrowsWithPods checks that one call assigns the prefixes that pods need, and that the prefixes then
// count as free: the forecast ends.
func TestSimulateGrowsWithPods(t *testing.T) {
	d := desired(render.Ensure, desiredInterface("subnet-1", 0))
	d.Claims[0].PodPrefixes = plan.PrefixDemand{Pods: true, Max: 8, Spare: 20}
	outcome := forecast.Simulate(d, podsOn(plan.PodNetwork{Used: 16, Free: 0, Pods: []string{"upf/a"}}), now)
	if diff := cmp.Diff([]string{"set 2 more IPv4 prefixes of eni-1"}, texts(outcome.Actions)); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}

// TestSimulateUnassignsRequestedAddressesOnly checks which addresses beyond the declared count an interface loses.
func TestSimulateUnassignsRequestedAddressesOnly(t *testing.T) {
	addresses := []netip.Addr{
		netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("10.0.0.6"), netip.MustParseAddr("10.0.0.7"),
	}
	for name, tc := range map[string]struct {
		requested []netip.Addr
		want      []string
		left      []netip.Addr
		reason    plan.Reason
	}{
		"multieni requested all": {addresses, []string{"set 2 fewer IPv4 addresses of eni-1"}, addresses[:1], ""},
		"multieni requested two": {addresses[1:], []string{"set 1 fewer IPv4 address of eni-1"}, addresses[:2], ""},
		"no record of a request": {nil, nil, addresses, plan.AddressesKept},
	} {
		t.Run(name, func(t *testing.T) {
			i := owned("subnet-1")
			i.SecondaryIPv4 = addresses
			in := facts(i)
			in.Stored = map[string]plan.Stored{"eni-1": {Requested: eni.Addresses{SecondaryIPv4: tc.requested}}}
			one := changed(desiredInterface("subnet-1", 0), func(w *plan.DesiredInterface) { w.Spec.SecondaryIPv4 = 1 })
			outcome := forecast.Simulate(desired(render.Ensure, one), in, now)
			if diff := cmp.Diff(tc.want, texts(outcome.Actions)); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			m := outcome.Members[0]
			if diff := cmp.Diff(tc.left, m.Interface.SecondaryIPv4, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Errorf("addresses left (-want +got):\n%s", diff)
			}
			if m.Why.Reason != tc.reason {
				t.Errorf("the reason is %q, want %q", m.Why.Reason, tc.reason)
			}
		})
	}
}
