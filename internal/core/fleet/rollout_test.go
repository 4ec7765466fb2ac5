// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/fleet"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// TestNext selects the interface to replace next.
func TestNext(t *testing.T) {
	moves := func(i *plan.Interface) { // to index 3
		i.Target, i.Drift = eni.Slot{Device: 3}, []plan.Drift{{Field: "slot", Want: "card 0 device 3", Have: "card 0 device 1"}}
	}
	movesExactly := func(i *plan.Interface) {
		moves(i)
		i.ExactSlot = true
	}
	held := func(i *plan.Interface) { i.Goal, i.Settings, i.Desired = plan.Retain, nil, false }
	outside := desired(drifted("a", 1))
	outside.InstanceTags = []eni.InstanceTag{{Key: "cluster", Value: "ours"}}
	for name, tc := range map[string]struct {
		d    plan.Desired
		o    plan.Observed
		want identity.Owner
	}{
		"nothing has drift":         {desired(attached("a", 1)), running(), ""},
		"the first one with drift":  {desired(attached("a", 1), drifted("b", 2), drifted("c", 3)), running(), "b"},
		"without a read of EC2":     {desired(drifted("a", 1)), plan.Observed{}, "a"},
		"updatePolicy: InPlace":     {desired(with(drifted("a", 1), func(i *plan.Interface) { i.ReplaceAllowed = false })), running(), ""},
		"an unresolved selector":    {desired(with(drifted("a", 1), func(i *plan.Interface) { i.AllResolved = false })), running(), ""},
		"an unknown security group": {desired(with(drifted("a", 1), func(i *plan.Interface) { i.SecurityGroupProblem = &plan.Problem{} })), running(), ""},
		"EC2 omits it":              {desired(with(drifted("a", 1), func(i *plan.Interface) { i.Record.Missing = true })), running(), ""},
		"its tags name another NodeENI": {
			desired(with(drifted("a", 1), func(i *plan.Interface) { i.Record.Tags = map[string]string{identity.TagNodeENIUID: "earlier"} })), running(), "",
		},
		"an instance outside the cluster":             {outside, running(), ""},
		"another interface is lacking":                {desired(drifted("a", 1), lacking("b")), running(), ""},
		"another interface is being attached":         {desired(drifted("a", 1), with(attached("b", 2), func(i *plan.Interface) { i.Record.Attachment.Status = eni.AttachmentAttaching })), running(), ""},
		"another interface cannot exist here":         {desired(drifted("a", 1), with(lacking("b"), func(i *plan.Interface) { i.Settings = nil })), running(), "a"},
		"another one is retained":                     {desired(drifted("a", 1), with(drifted("b", 2), held)), running(), "a"},
		"a paused one was detached":                   {desired(drifted("a", 1), with(attached("b", 2), func(i *plan.Interface) { held(i); i.Record.Attachment = nil })), running(), ""},
		"a paused one is being detached":              {desired(drifted("a", 1), with(attached("b", 2), func(i *plan.Interface) { held(i); i.Record.Attachment.Status = eni.AttachmentDetaching })), running(), ""},
		"another slot, which is free":                 {desired(with(attached("a", 1), movesExactly)), running(), "a"},
		"another slot, which is taken":                {desired(with(attached("a", 1), movesExactly)), running(foreign(3)), ""},
		"another slot, where the next one is as good": {desired(with(attached("a", 1), moves)), running(foreign(3)), "a"},
		"the next one, if its slot is taken":          {desired(with(attached("a", 1), movesExactly), drifted("b", 2)), running(foreign(3)), "b"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fleet.Next(tc.d, tc.o, now).Candidate; got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestALaunchInterfaceIsSettledOnceItIsAttached checks that a launch interface that is being attached delays a
// replacement, and an attached one does not.
func TestALaunchInterfaceIsSettledOnceItIsAttached(t *testing.T) {
	for status, want := range map[eni.AttachmentStatus]identity.Owner{eni.AttachmentAttaching: "", eni.AttachmentAttached: "a"} {
		launch := with(lacking("b"), func(i *plan.Interface) {
			i.Launched = &eni.Interface{Status: eni.InUse, Attachment: &eni.Attachment{InstanceID: instance, Status: status}}
		})
		if got := fleet.Next(desired(drifted("a", 1), launch), running(), now).Candidate; got != want {
			t.Errorf("%s: got %q, want %q", status, got, want)
		}
	}
}

// TestDecide checks that a permission releases the candidate, that a denial becomes its reason, and that neither
// changes the desired state that was given.
func TestDecide(t *testing.T) {
	for name, tc := range map[string]struct {
		permission fleet.Permission
		goals      []plan.Goal
		want       plan.Replacement
	}{
		"granted": {granted, []plan.Goal{plan.Ensure, plan.Release}, plan.Replacement{Owner: "b"}},
		"denied": {
			fleet.Permission{Denied: "no more than 1"}, []plan.Goal{plan.Ensure, plan.Ensure}, plan.Replacement{Owner: "b", Denied: "no more than 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := desired(attached("a", 1), drifted("b", 2))
			got := fleet.Next(d, running(), now).Decide(d, tc.permission)
			var goals []plan.Goal
			for _, i := range got.Interfaces {
				goals = append(goals, i.Goal)
			}
			if diff := cmp.Diff(tc.goals, goals); diff != "" || got.Replacement != tc.want {
				t.Errorf("%+v, goals (-want +got):\n%s", got.Replacement, diff)
			}
			if d.Interfaces[1].Goal != plan.Ensure {
				t.Error("the desired state that was given changed")
			}
			if released := got.Interfaces[1]; tc.permission.Granted && released.Why.Message != "it is replaced: subnet: want s2, have s1" {
				t.Errorf("the reason is %q", released.Why.Message)
			}
		})
	}
	if d := desired(attached("a", 1)); fleet.Next(d, running(), now).Decide(d, granted).Replacement != (plan.Replacement{}) {
		t.Error("without a candidate there is a replacement")
	}
}

// TestOwners lists the NodeENIs whose rollout has not ended. An interface without a slot belongs to one NodeENI: it does
// not delay the rollouts of other NodeENIs on other instances.
func TestOwners(t *testing.T) {
	of := func(owner identity.Owner) identity.Member { return identity.Member{Key: identity.Key{Owner: owner}} }
	for name, tc := range map[string]struct {
		d    plan.Desired
		p    plan.Plan
		want []identity.Owner
	}{
		"all is attached":       {d: desired(attached("a", 1))},
		"an interface lacks":    {d: desired(attached("a", 1), lacking("b")), want: []identity.Owner{"b"}},
		"an interface is to go": {d: desired(drifted("a", 1)), want: []identity.Owner{"a"}},
		"pods are to go":        {p: plan.Plan{Evictions: []plan.Eviction{{Member: of("c")}}}, want: []identity.Owner{"c"}},
		"a retained interface is not attached": {
			p:    plan.Plan{Members: []plan.Member{{Member: of("d"), Phase: plan.Pending, Why: plan.Problem{Reason: plan.Retained}}}},
			want: []identity.Owner{"d"},
		},
		"a retained interface is attached": {
			p: plan.Plan{Members: []plan.Member{{Member: of("d"), Phase: plan.Attached, Why: plan.Problem{Reason: plan.Retained}}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fleet.Next(tc.d, running(), now).Owners(tc.p); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
