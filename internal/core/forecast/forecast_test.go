// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package forecast_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/forecast"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const instanceID = "i-00000000000000001"

// desiredInterface is one interface in a subnet at a device index.
func desiredInterface(subnet string, ordinal int) plan.DesiredInterface {
	return plan.DesiredInterface{
		Ordinal: ordinal, Subnets: []string{subnet}, Slot: eni.Slot{Device: 1 + ordinal},
		Spec: eni.Spec{Groups: []string{"sg-1"}, SourceDestCheck: true, DeleteOnTermination: true},
	}
}

func desired(standing render.Mode, interfaces ...plan.DesiredInterface) render.Declared {
	return render.Declared{Cluster: "c", Node: "n", InstanceID: instanceID, Claims: []render.Claim{{
		NodeENI: "multus", Owner: "uid", Mode: standing, Why: "it is asked for", Interfaces: interfaces, AllResolved: true, ReplaceAllowed: true,
	}}}
}

// facts returns the input for an instance that supports three interfaces and has its primary one, and others.
func facts(others ...eni.Interface) forecast.Input {
	primary := eni.Interface{ID: "eni-primary", Status: eni.InUse, Attachment: &eni.Attachment{InstanceID: instanceID, Status: eni.AttachmentAttached}}
	return forecast.Input{
		Look: eni.InstanceSnapshot{
			Instance:   eni.Instance{ID: instanceID, Type: "c5.large", Zone: "a", State: eni.InstanceRunning},
			Interfaces: append([]eni.Interface{primary}, others...),
		},
		Limits: eni.Limits{Cards: []int{3}, Interfaces: 3, IPv4: 10, IPv6: 10},
		Ledger: identity.Generations{first: 1},
	}
}

// first is the first member, whose interface the ledger names.
var first = identity.Key{Owner: "uid"}

// owned is an attached interface of the first member.
func owned(subnet string) eni.Interface {
	member := identity.Member{Cluster: "c", NodeENI: "multus", Node: "n", InstanceID: instanceID, Key: first, Generation: 1}
	return eni.Interface{
		ID: "eni-1", Type: eni.Standard, Status: eni.InUse, SubnetID: subnet, Groups: []string{"sg-1"}, SourceDestCheck: true,
		Tags: member.Tags(now.Add(-time.Hour), nil),
		Attachment: &eni.Attachment{
			ID: "eni-attach-1", InstanceID: instanceID, Slot: eni.Slot{Device: 1}, Status: eni.AttachmentAttached, DeleteOnTermination: true,
		},
	}
}

func TestWhatAPlanComesTo(t *testing.T) {
	addresses := desiredInterface("subnet-1", 0)
	addresses.Spec.SecondaryIPv4, addresses.Spec.IPv6Prefixes = 3, 1
	fewer := owned("subnet-1")
	more := desiredInterface("subnet-1", 0)
	more.Spec.IPv4Prefixes = 2
	cases := map[string]struct {
		desired render.Declared
		facts   forecast.Input
		calls   map[string]int
		ends    []plan.Phase
	}{
		"an interface is made with three calls": {
			desired(render.Ensure, desiredInterface("subnet-1", 0)), facts(),
			map[string]int{"CreateNetworkInterface": 1, "AttachNetworkInterface": 1, "ModifyNetworkInterfaceAttribute": 1}, []plan.Phase{plan.Attached},
		},
		"addresses come with the create call": {
			desired(render.Ensure, addresses), facts(),
			map[string]int{"CreateNetworkInterface": 1, "AttachNetworkInterface": 1, "ModifyNetworkInterfaceAttribute": 1}, []plan.Phase{plan.Attached},
		},
		"what does not fit is blocked": {
			desired(render.Ensure, desiredInterface("subnet-1", 0), desiredInterface("subnet-2", 1), desiredInterface("subnet-3", 2)), facts(),
			map[string]int{"CreateNetworkInterface": 2, "AttachNetworkInterface": 2, "ModifyNetworkInterfaceAttribute": 2},
			[]plan.Phase{plan.Attached, plan.Attached, plan.Blocked},
		},
		"nothing to do": {desired(render.Ensure, desiredInterface("subnet-1", 0)), facts(owned("subnet-1")), map[string]int{}, []plan.Phase{plan.Attached}},
		"more addresses": {
			desired(render.Ensure, more), facts(fewer), map[string]int{"AssignPrivateIpAddresses": 1}, []plan.Phase{plan.Attached},
		},
		"removed with two calls": {
			desired(render.Release), facts(owned("subnet-1")), map[string]int{"DetachNetworkInterface": 1, "DeleteNetworkInterface": 1}, nil,
		},
		"replaced": {
			desired(render.Ensure, desiredInterface("subnet-2", 0)), facts(owned("subnet-1")),
			map[string]int{
				"DetachNetworkInterface": 1, "DeleteNetworkInterface": 1,
				"CreateNetworkInterface": 1, "AttachNetworkInterface": 1, "ModifyNetworkInterfaceAttribute": 1,
			}, []plan.Phase{plan.Attached},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			outcome := forecast.Simulate(tc.desired, tc.facts, now)
			if diff := cmp.Diff(tc.calls, forecast.Calls(outcome.Actions)); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.ends, phases(outcome)); diff != "" {
				t.Errorf("ends (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLeastTimeIsThatOfTheSlowestOperation(t *testing.T) {
	rates := map[string]forecast.Rate{"Create": {Burst: 100, PerSecond: 5}, "Attach": {Burst: 50, PerSecond: 5}}
	cases := map[string]struct {
		calls map[string]int
		want  time.Duration
		of    string
	}{
		"within the burst":  {map[string]int{"Create": 100, "Attach": 50}, 0, ""},
		"a thousand":        {map[string]int{"Create": 1000, "Attach": 1000}, 190 * time.Second, "Attach"},
		"nothing is known":  {map[string]int{"Other": 1000}, 0, ""},
		"one beyond it all": {map[string]int{"Attach": 51}, 200 * time.Millisecond, "Attach"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if least, of := forecast.MinDuration(tc.calls, rates); least != tc.want || of != tc.of {
				t.Errorf("%s by %q, want %s by %q", least, of, tc.want, tc.of)
			}
		})
	}
}
