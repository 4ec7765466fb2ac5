// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/lifecycle"
	"github.com/multieni/multieni/internal/core/plan"
)

func TestJudge(t *testing.T) {
	yes, no := true, false
	config := lifecycle.Config{Networks: []lifecycle.Network{{Name: "required", Required: &yes}, {Name: "optional", Required: &no}}}
	member := func(network string, phase plan.Phase, why plan.Reason) plan.State {
		return plan.State{Key: identity.Interface{NodeENI: network}, Goal: plan.Serve, Phase: phase, Problem: plan.Problem{Reason: why, Message: string(why)}}
	}
	attached := member("required", plan.Attached, "")
	for name, tc := range map[string]struct {
		state   eni.InstanceState
		plan    plan.Plan
		want    lifecycle.Outcome
		expired lifecycle.Outcome
		lacking []string
	}{
		"all attached":           {plan: plan.Plan{Interfaces: []plan.State{attached}}, want: lifecycle.Ready, expired: lifecycle.Ready},
		"attached, to be mended": {plan: plan.Plan{Interfaces: []plan.State{member("required", plan.Attached, plan.Retrying)}}, want: lifecycle.Waiting, expired: lifecycle.Failed},
		"calls to be made":       {plan: plan.Plan{Interfaces: []plan.State{attached}, Calls: []plan.Call{plan.Delete{}}}, want: lifecycle.Waiting, expired: lifecycle.Failed},
		"under way":              {plan: plan.Plan{Interfaces: []plan.State{member("required", plan.Attaching, plan.InProgress)}}, want: lifecycle.Waiting, expired: lifecycle.Failed},
		"a full subnet":          {plan: plan.Plan{Interfaces: []plan.State{member("required", plan.Blocked, plan.SubnetFull)}}, want: lifecycle.Waiting, expired: lifecycle.Failed},
		"no subnet":              {plan: plan.Plan{Interfaces: []plan.State{attached, member("required", plan.Blocked, plan.NoSubnetInZone)}}, want: lifecycle.Failed, expired: lifecycle.Failed},
		"no optional subnet": {plan: plan.Plan{Interfaces: []plan.State{attached, member("optional", plan.Blocked, plan.NoSubnetInZone)}},
			want: lifecycle.Ready, expired: lifecycle.Ready, lacking: []string{"optional"}},
		"a full optional subnet": {plan: plan.Plan{Interfaces: []plan.State{attached, member("optional", plan.Blocked, plan.SubnetFull)}},
			want: lifecycle.Waiting, expired: lifecycle.Ready, lacking: []string{"optional"}},
		"an instance that ends": {state: eni.InstanceShuttingDown, want: lifecycle.Gone, expired: lifecycle.Gone},
		"an unknown instance":   {state: eni.InstanceMissing, want: lifecycle.Waiting, expired: lifecycle.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.state == "" {
				tc.state = eni.InstanceRunning
			}
			v := config.Evaluate(tc.state, lifecycle.Desired{}, tc.plan)
			if v.Outcome != tc.want {
				t.Errorf("judged %+v", v)
			}
			if (v.Reason != "") != (v.Outcome == lifecycle.Failed) {
				t.Errorf("the reason is %q when judged %s", v.Reason, v.Outcome)
			}
			if v = config.Expire(v, tc.plan); v.Outcome != tc.expired || !slices.Equal(v.Missing, tc.lacking) {
				t.Errorf("expired %+v", v)
			}
			if (v.Reason != "") != (v.Outcome == lifecycle.Failed) {
				t.Errorf("the reason is %q when expired %s", v.Reason, v.Outcome)
			}
		})
	}
}

// The message of a hook's result names the network. A failure has the cause: the time or the network.
func TestResultNamesTheCause(t *testing.T) {
	yes, no := true, false
	config := lifecycle.Config{Networks: []lifecycle.Network{{Name: "n3", Required: &yes}, {Name: "n6", Required: &yes}, {Name: "n9", Required: &no}}}
	member := func(network string, phase plan.Phase, reason plan.Reason, message string) plan.State {
		return plan.State{Key: identity.Interface{NodeENI: network}, Goal: plan.Serve, Phase: phase, Problem: plan.Problem{Reason: reason, Message: message}}
	}
	leaving := member("n3", plan.Blocked, plan.SlotTaken, "slot 1 is taken")
	leaving.Goal = plan.Keep
	for name, tc := range map[string]struct {
		members       []plan.State
		want, expired lifecycle.Result
	}{
		"no words for a member": {
			[]plan.State{member("n3", plan.Attaching, "", "")},
			lifecycle.Result{Outcome: lifecycle.Waiting, Why: "network n3 is Attaching"},
			lifecycle.Result{Outcome: lifecycle.Failed, Why: "in the time there was: network n3 is Attaching", Reason: lifecycle.TimedOut},
		},
		"in progress": {
			[]plan.State{member("n3", plan.Attaching, plan.InProgress, "EC2 is attaching eni-1")},
			lifecycle.Result{Outcome: lifecycle.Waiting, Why: "network n3: EC2 is attaching eni-1"},
			lifecycle.Result{Outcome: lifecycle.Failed, Why: "in the time there was: network n3: EC2 is attaching eni-1", Reason: lifecycle.TimedOut},
		},
		"a full subnet": {
			[]plan.State{member("n3", plan.Blocked, plan.SubnetFull, "subnet-a1 is full")},
			lifecycle.Result{Outcome: lifecycle.Waiting, Why: "network n3: subnet-a1 is full"},
			lifecycle.Result{Outcome: lifecycle.Failed, Why: "in the time there was: network n3: subnet-a1 is full", Reason: string(plan.SubnetFull)},
		},
		"failure after a wait": {
			[]plan.State{member("n3", plan.Blocked, plan.SubnetFull, "subnet-a1 is full"), member("n6", plan.Blocked, plan.SlotTaken, "slot 2 is taken")},
			lifecycle.Result{Outcome: lifecycle.Failed, Why: "network n6: slot 2 is taken", Reason: string(plan.SlotTaken)},
			lifecycle.Result{Outcome: lifecycle.Failed, Why: "network n6: slot 2 is taken", Reason: string(plan.SlotTaken)},
		},
		"the first of two failures": {
			[]plan.State{member("n3", plan.Blocked, plan.Unauthorized, "no permission"), member("n6", plan.Blocked, plan.SlotTaken, "slot 2 is taken")},
			lifecycle.Result{Outcome: lifecycle.Failed, Why: "network n3: no permission", Reason: string(plan.Unauthorized)},
			lifecycle.Result{Outcome: lifecycle.Failed, Why: "network n3: no permission", Reason: string(plan.Unauthorized)},
		},
		"an optional network is missing twice": {
			[]plan.State{member("n9", plan.Blocked, plan.InstanceFull, "full"), member("n9", plan.Blocked, plan.InstanceFull, "full"), member("n3", plan.Attached, "", "")},
			lifecycle.Result{Outcome: lifecycle.Ready, Missing: []string{"n9"}}, lifecycle.Result{Outcome: lifecycle.Ready, Missing: []string{"n9"}},
		},
		"a member that leaves": {
			[]plan.State{leaving}, lifecycle.Result{Outcome: lifecycle.Ready}, lifecycle.Result{Outcome: lifecycle.Ready},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := plan.Plan{Interfaces: tc.members}
			got := config.Evaluate(eni.InstanceRunning, lifecycle.Desired{}, p)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.expired, config.Expire(got, p)); diff != "" {
				t.Errorf("expired (-want +got):\n%s", diff)
			}
		})
	}
}

// An instance waits for the interface of a NodeENI that serves one of its networks.
func TestServedInterfaceIsWaitedFor(t *testing.T) {
	for status, want := range map[eni.AttachmentStatus]lifecycle.Outcome{
		eni.AttachmentAttached: lifecycle.Ready, eni.AttachmentAttaching: lifecycle.Waiting, eni.AttachmentDetaching: lifecycle.Waiting,
	} {
		t.Run(string(status), func(t *testing.T) {
			d := lifecycle.Desired{Served: []eni.Interface{{ID: "eni-1", Status: eni.InUse, Attachment: &eni.Attachment{Status: status}}}}
			got := lifecycle.Config{}.Evaluate(eni.InstanceRunning, d, plan.Plan{})
			if got.Outcome != want || (want == lifecycle.Waiting) != strings.Contains(got.Why, "eni-1") {
				t.Errorf("it is %s: %s; want %s", got.Outcome, got.Why, want)
			}
		})
	}
}
