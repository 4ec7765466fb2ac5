// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/fleet"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// waits is a plan in which interfaces wait for pods. The first one is eni-1.
func waits(evictions ...plan.Eviction) plan.Plan {
	p := plan.Plan{Evictions: evictions}
	for _, e := range evictions {
		p.Members = append(p.Members, plan.Member{
			Member: e.Member, Interface: &eni.Interface{ID: e.InterfaceID},
			Why: plan.Problem{Reason: plan.InUseByPods, Message: "in use by pods"},
		})
	}
	return p
}

// of is the eviction of one pod from an interface of an owner.
func of(owner identity.Owner, interfaceID string) plan.Eviction {
	return plan.Eviction{
		Member: identity.Member{Key: identity.Key{Owner: owner}}, InterfaceID: interfaceID, Pods: []string{"upf/" + interfaceID},
	}
}

// TestEvict evicts the pods of an interface that is removed.
func TestEvict(t *testing.T) {
	attempt := func(ago time.Duration, refusals int) fleet.Attempt {
		a := fleet.Attempt{}
		for range refusals {
			a = a.Next("a PodDisruptionBudget refuses it", time.Time{})
		}
		a.At = now.Add(-ago)
		return a
	}
	for name, tc := range map[string]struct {
		permission fleet.Permission
		nameless   bool
		last       fleet.Attempt
		pods       []string
		message    string
		// next is the time to the next attempt; 0 if none is planned.
		next time.Duration
	}{
		"the first attempt": {permission: granted, pods: []string{"upf/eni-1"}, message: "multieni evicts them (pods.onRemoval: Evict)"},
		"as many nodes as may evict pods already": {
			permission: fleet.Permission{Denied: "no more than 1 node at a time"}, message: "after those of other interfaces: no more than 1 node",
		},
		"the last attempt was 9 seconds ago":  {permission: granted, last: attempt(9*time.Second, 0), next: time.Second, message: "multieni evicts them"},
		"the last attempt was 10 seconds ago": {permission: granted, last: attempt(10*time.Second, 0), pods: []string{"upf/eni-1"}, message: "multieni evicts them"},
		"a budget refused once": {
			permission: granted, last: attempt(time.Second, 1), next: 9 * time.Second, message: "at least every 2 minutes: a PodDisruptionBudget refuses it",
		},
		"a budget refused three times": {permission: granted, last: attempt(30*time.Second, 3), next: 10 * time.Second, message: "a PodDisruptionBudget refuses it"},
		"a budget refused often":       {permission: granted, last: attempt(time.Minute, 50), next: time.Minute, message: "a PodDisruptionBudget refuses it"},
		"a budget refused often, and it is tried": {
			permission: granted, last: attempt(2*time.Minute, 50), pods: []string{"upf/eni-1"}, message: "a PodDisruptionBudget refuses it",
		},
		"an address without the name of its pod is": {permission: granted, nameless: true, message: "multieni evicts them"},
	} {
		t.Run(name, func(t *testing.T) {
			e := of("a", "eni-1")
			if tc.nameless {
				e.Pods = nil
			}
			attempts := map[string]fleet.Attempt{}
			if !tc.last.At.IsZero() {
				attempts["eni-1"] = tc.last
			}
			given := waits(e)
			p := fleet.Evict(given, tc.permission, attempts, true, now)
			var pods []string
			for _, eviction := range p.Evictions {
				pods = append(pods, eviction.Pods...)
			}
			if diff := cmp.Diff(tc.pods, pods); diff != "" {
				t.Errorf("evicted pods (-want +got):\n%s", diff)
			}
			reason := plan.InUseByPods
			if tc.last.Refusals > 0 {
				reason = plan.EvictionRefused
			}
			if why := p.Members[0].Why; why.Reason != reason || !strings.Contains(why.Message, tc.message) {
				t.Errorf("got %+v, want %s and %q", why, reason, tc.message)
			}
			if got := p.RequeueAt; tc.next > 0 && !got.Equal(now.Add(tc.next)) || tc.next == 0 && !got.IsZero() {
				t.Errorf("the next plan is at %s, want it after %s", got, tc.next)
			}
			if given.Members[0].Why.Message != "in use by pods" {
				t.Error("the plan that was given changed")
			}
		})
	}
}

// TestOneNodeENIEvictsAtATime has interfaces of two NodeENIs that are removed, and one that is replaced.
func TestOneNodeENIEvictsAtATime(t *testing.T) {
	replaced := of("r", "eni-1")
	replaced.Replaces = true
	p := waits(replaced, of("a", "eni-2"), of("b", "eni-3"), of("a", "eni-4"))
	if got := fleet.EvictCandidate(p); got != "a" {
		t.Errorf("the candidate is %q, want a", got)
	}
	for name, tc := range map[string]struct {
		permission fleet.Permission
		want       []string
	}{
		"with a permission":    {granted, []string{"eni-1", "eni-2", "eni-4"}},
		"without a permission": {fleet.Permission{}, []string{"eni-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, e := range fleet.Evict(p, tc.permission, nil, true, now).Evictions {
				got = append(got, e.InterfaceID)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnEvictionFollowsAFreshRead checks that a plan without a read of the instance evicts no pod.
func TestAnEvictionFollowsAFreshRead(t *testing.T) {
	if p := fleet.Evict(waits(of("a", "eni-1")), granted, nil, false, now); len(p.Evictions) > 0 || !p.NeedsDescribe {
		t.Errorf("evictions %v, a read is needed: %t; want none and a read", p.Evictions, p.NeedsDescribe)
	}
}
