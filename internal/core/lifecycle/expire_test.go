// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/lifecycle"
	"github.com/multieni/multieni/internal/core/plan"
)

// withOptional is a configuration with two required networks, n3 and n6, and two optional ones.
func withOptional() lifecycle.Config {
	yes, no := true, false
	return lifecycle.Config{Networks: []lifecycle.Network{
		{Name: "n3", Required: &yes}, {Name: "n6", Required: &yes}, {Name: "n9", Required: &no}, {Name: "n10", Required: &no},
	}}
}

// networkState is the state of a desired interface of a network.
func networkState(network string, phase plan.Phase, reason plan.Reason) plan.State {
	return plan.State{
		Key: identity.Interface{NodeENI: network}, Goal: plan.Serve, Phase: phase,
		Problem: plan.Problem{Reason: reason, Message: fmt.Sprintf("%s of %s", reason, network)},
	}
}

// TestResultWithoutInterfacesSaysWhy compares results that do not depend on an interface, but on the instance or a call.
func TestResultWithoutInterfacesSaysWhy(t *testing.T) {
	served := func(id string, status eni.Status) eni.Interface { return eni.Interface{ID: id, Status: status} }
	calls := []plan.Call{plan.Delete{InterfaceID: "eni-1", Why: "x"}, plan.Delete{InterfaceID: "eni-2", Why: "x"}}
	lost := "in the time there was: "
	for name, tc := range map[string]struct {
		state         eni.InstanceState
		desired       lifecycle.Desired
		plan          plan.Plan
		want, expired lifecycle.Result
	}{
		"an instance that shuts down": {
			state: eni.InstanceShuttingDown, plan: plan.Plan{Calls: calls},
			want:    lifecycle.Result{Outcome: lifecycle.Gone, Why: "the instance is shutting-down"},
			expired: lifecycle.Result{Outcome: lifecycle.Gone, Why: "the instance is shutting-down"},
		},
		"an instance that EC2 does not know": {
			state: eni.InstanceMissing, plan: plan.Plan{Calls: calls},
			want: lifecycle.Result{Outcome: lifecycle.Waiting, Why: "EC2 does not know the instance yet"},
			expired: lifecycle.Result{
				Outcome: lifecycle.Failed, Why: lost + "EC2 does not know the instance yet", Reason: lifecycle.TimedOut,
			},
		},
		"two calls": {
			state: eni.InstanceRunning,
			plan: plan.Plan{Calls: calls, Interfaces: []plan.State{
				networkState("n9", plan.Attaching, plan.InProgress),
			}},
			want:    lifecycle.Result{Outcome: lifecycle.Waiting, Why: "delete eni-1: x"},
			expired: lifecycle.Result{Outcome: lifecycle.Failed, Why: lost + "delete eni-1: x", Reason: lifecycle.TimedOut},
		},
		"the first of two interfaces of NodeENIs": {
			state:   eni.InstanceRunning,
			desired: lifecycle.Desired{Served: []eni.Interface{served("eni-1", eni.Available), served("eni-2", eni.Pending)}},
			want:    lifecycle.Result{Outcome: lifecycle.Waiting, Why: "eni-1, which serves a NodeENI as well, is available"},
			expired: lifecycle.Result{
				Outcome: lifecycle.Failed, Why: lost + "eni-1, which serves a NodeENI as well, is available",
				Reason: lifecycle.TimedOut,
			},
		},
		"an interface of a NodeENI after a failure": {
			state: eni.InstancePending, desired: lifecycle.Desired{Served: []eni.Interface{served("eni-1", eni.Available)}},
			plan:    plan.Plan{Interfaces: []plan.State{networkState("n3", plan.Blocked, plan.SlotTaken)}},
			want:    lifecycle.Result{Outcome: lifecycle.Failed, Why: "network n3: SlotTaken of n3", Reason: "SlotTaken"},
			expired: lifecycle.Result{Outcome: lifecycle.Failed, Why: "network n3: SlotTaken of n3", Reason: "SlotTaken"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := withOptional().Evaluate(tc.state, tc.desired, tc.plan)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.expired, withOptional().Expire(got, tc.plan)); diff != "" {
				t.Errorf("expired (-want +got):\n%s", diff)
			}
		})
	}
}

// TestExpireListsEveryOptionalNetwork checks the networks that an instance lacks after the time to wait: those that are
// not available, and those that only needed more time.
func TestExpireListsEveryOptionalNetwork(t *testing.T) {
	leaving := networkState("n3", plan.Detaching, plan.Removing)
	leaving.Goal = plan.Keep
	never := networkState("n9", plan.Blocked, plan.InstanceFull)
	late := networkState("n10", plan.Attaching, plan.InProgress)
	p := plan.Plan{Interfaces: []plan.State{
		never, networkState("n3", plan.Attached, ""), late, networkState("n6", plan.Attached, ""), late, leaving,
	}}
	got := withOptional().Evaluate(eni.InstanceRunning, lifecycle.Desired{}, p)
	waiting := lifecycle.Result{Outcome: lifecycle.Waiting, Why: "network n10: InProgress of n10", Missing: []string{"n9"}}
	if diff := cmp.Diff(waiting, got); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	ready := lifecycle.Result{Outcome: lifecycle.Ready, Missing: []string{"n9", "n10"}}
	if diff := cmp.Diff(ready, withOptional().Expire(got, p)); diff != "" {
		t.Errorf("expired (-want +got):\n%s", diff)
	}
}

// TestReasonsThatWaitingDoesNotResolve gives a required network each reason of the planner: with some, the instance
// fails at once, and with the others it waits.
func TestReasonsThatWaitingDoesNotResolve(t *testing.T) {
	permanent := []plan.Reason{
		plan.SubnetNotFound, plan.NoSubnetInZone, plan.SecurityGroupNotFound, plan.SecurityGroupAmbiguous, plan.SlotTaken,
		plan.NoSuchNetworkCard, plan.NoSuchDeviceIndex, plan.InstanceFull, plan.AddressLimit, plan.Unauthorized,
		plan.RefusedByEC2,
	}
	others := []plan.Reason{
		plan.SubnetFull, plan.NoFreePrefix, plan.LimitReached, plan.Throttled, plan.Retrying, plan.InProgress,
		plan.NotVisible, "",
	}
	for _, reason := range slices.Concat(permanent, others) {
		p := plan.Plan{Interfaces: []plan.State{networkState("n3", plan.Blocked, reason)}}
		want := lifecycle.Waiting
		if slices.Contains(permanent, reason) {
			want = lifecycle.Failed
		}
		if got := withOptional().Evaluate(eni.InstanceRunning, lifecycle.Desired{}, p); got.Outcome != want {
			t.Errorf("%s: the instance is %s, want %s", reason, got.Outcome, want)
		}
	}
}

// TestTheOutcomeDoesNotDependOnTheOrder shuffles the members of a plan: the outcome and the missing networks stay the
// same, an expired result never waits, and an instance that lacks a required network is not ready.
func TestTheOutcomeDoesNotDependOnTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var members []plan.State
		lacks := false
		for range rapid.IntRange(1, 5).Draw(t, "members") {
			m := networkState(rapid.SampledFrom([]string{"n3", "n6", "n9", "n10"}).Draw(t, "network"),
				rapid.SampledFrom([]plan.Phase{plan.Attached, plan.Attaching, plan.Blocked}).Draw(t, "phase"),
				rapid.SampledFrom([]plan.Reason{"", plan.InProgress, plan.SubnetFull, plan.InstanceFull}).Draw(t, "reason"))
			lacks = lacks || m.Phase != plan.Attached && (m.Key.NodeENI == "n3" || m.Key.NodeENI == "n6")
			members = append(members, m)
		}
		c, p := withOptional(), plan.Plan{Interfaces: members}
		shuffled := plan.Plan{Interfaces: rapid.Permutation(members).Draw(t, "shuffled")}
		first, second := c.Evaluate(eni.InstanceRunning, lifecycle.Desired{}, p),
			c.Evaluate(eni.InstanceRunning, lifecycle.Desired{}, shuffled)
		same := cmp.Options{
			cmpopts.IgnoreFields(lifecycle.Result{}, "Why", "Reason"), cmpopts.SortSlices(strings.Compare),
		}
		if diff := cmp.Diff(first, second, same); diff != "" {
			t.Fatalf("result (-in order +shuffled):\n%s", diff)
		}
		expired := c.Expire(first, p)
		if diff := cmp.Diff(expired, c.Expire(second, shuffled), same); diff != "" {
			t.Fatalf("expired (-in order +shuffled):\n%s", diff)
		}
		if expired.Outcome == lifecycle.Waiting || lacks && expired.Outcome != lifecycle.Failed {
			t.Fatalf("the expired result is %+v of %+v", expired, members)
		}
		if diff := cmp.Diff(expired, c.Expire(expired, p)); diff != "" {
			t.Fatalf("expired again (-first +second):\n%s", diff)
		}
	})
}
