// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"slices"
	"testing"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/lifecycle"
	"github.com/multieni/multieni/internal/core/plan"
)

func TestJudge(t *testing.T) {
	yes, no := true, false
	config := lifecycle.Config{Networks: []lifecycle.Network{{Name: "required", Required: &yes}, {Name: "optional", Required: &no}}}
	member := func(network string, phase plan.Phase, why plan.Reason) plan.Member {
		return plan.Member{Member: identity.Member{NodeENI: network}, Desired: true, Phase: phase, Why: plan.Problem{Reason: why, Message: string(why)}}
	}
	attached := member("required", plan.Attached, "")
	for name, tc := range map[string]struct {
		state   eni.InstanceState
		plan    plan.Plan
		want    lifecycle.Outcome
		expired lifecycle.Outcome
		lacking []string
	}{
		"all attached":           {plan: plan.Plan{Members: []plan.Member{attached}}, want: lifecycle.Ready, expired: lifecycle.Ready},
		"attached, to be mended": {plan: plan.Plan{Members: []plan.Member{member("required", plan.Attached, plan.Retrying)}}, want: lifecycle.Waiting, expired: lifecycle.Failed},
		"calls to be made":       {plan: plan.Plan{Members: []plan.Member{attached}, Actions: []plan.Action{plan.Delete{}}}, want: lifecycle.Waiting, expired: lifecycle.Failed},
		"under way":              {plan: plan.Plan{Members: []plan.Member{member("required", plan.Attaching, plan.InProgress)}}, want: lifecycle.Waiting, expired: lifecycle.Failed},
		"a full subnet":          {plan: plan.Plan{Members: []plan.Member{member("required", plan.Blocked, plan.SubnetFull)}}, want: lifecycle.Waiting, expired: lifecycle.Failed},
		"no subnet":              {plan: plan.Plan{Members: []plan.Member{attached, member("required", plan.Blocked, plan.NoSubnetInZone)}}, want: lifecycle.Failed, expired: lifecycle.Failed},
		"no optional subnet": {plan: plan.Plan{Members: []plan.Member{attached, member("optional", plan.Blocked, plan.NoSubnetInZone)}},
			want: lifecycle.Ready, expired: lifecycle.Ready, lacking: []string{"optional"}},
		"a full optional subnet": {plan: plan.Plan{Members: []plan.Member{attached, member("optional", plan.Blocked, plan.SubnetFull)}},
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
