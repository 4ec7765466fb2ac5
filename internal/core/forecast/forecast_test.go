// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package forecast_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/fleet"
	"github.com/multieni/multieni/internal/core/forecast"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
	"github.com/multieni/multieni/internal/core/selector"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const instanceID = "i-00000000000000001"

// exact compares addresses as values.
var exact = cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})

// subnets are those of the zone, and the groups of their VPC.
var subnets = []eni.Subnet{
	{ID: "subnet-1", VPCID: "vpc-1", Zone: "a", FreeIPv4: 100}, {ID: "subnet-2", VPCID: "vpc-1", Zone: "a", FreeIPv4: 100},
	{ID: "subnet-3", VPCID: "vpc-1", Zone: "a", FreeIPv4: 100},
}

// declares returns NodeENI multus with an interface in each subnet, from device index 1 on.
func declares(change func(*fleet.NodeENI), ids ...string) fleet.NodeENI {
	n := fleet.NodeENI{Replace: true, MaxUnavailable: 1, NodeENI: render.NodeENI{
		Name: "multus", UID: "uid", Generation: 1, Selector: map[string]string{"multus": "true"}, FirstSlot: eni.Slot{Device: 1},
		Template: render.Template{EC2: eni.Spec{SourceDestCheck: true, DeleteOnTermination: true}},
		Found: &selector.Found{
			Subnets: selector.MatchSubnets(selector.SubnetTerms{IDs: ids}, subnets),
			Groups: selector.MatchGroups(selector.GroupTerms{IDs: []string{"sg-1", "sg-2"}},
				[]eni.SecurityGroup{{ID: "sg-1", VPCID: "vpc-1"}, {ID: "sg-2", VPCID: "vpc-1"}}),
		},
	}}
	if change != nil {
		change(&n)
	}
	return n
}

// input returns the input for a node that the NodeENI selects. Its instance supports three interfaces and has its
// primary one, and others.
func input(n fleet.NodeENI, others ...eni.Interface) forecast.Input {
	primary := eni.Interface{ID: "eni-primary", Status: eni.InUse, Attachment: &eni.Attachment{InstanceID: instanceID, Status: eni.AttachmentAttached}}
	return forecast.Input{
		Cluster: "c",
		Look: eni.InstanceSnapshot{
			Instance:   eni.Instance{ID: instanceID, Type: "c5.large", Zone: "a", VPCID: "vpc-1", State: eni.InstanceRunning},
			Interfaces: append([]eni.Interface{primary}, others...),
		},
		Limits: eni.Limits{Cards: []int{3}, Interfaces: 3, IPv4: 10, IPv6: 10},
		Node: render.In{Instance: eni.InstanceRef{ID: instanceID, Zone: "a"}, VPCID: "vpc-1",
			Nodes: []render.Registration{{Name: "n", Labels: map[string]string{"multus": "true"}}}},
		NodeENIs: []fleet.NodeENI{n},
	}
}

// serving returns the input with the object of an interface as well.
func serving(n fleet.NodeENI, i eni.Interface, change ...func(*forecast.Object)) forecast.Input {
	in := input(n, i)
	o := forecast.Object{Since: now.Add(-time.Hour), Object: render.Object{
		Name: identity.ObjectName("multus", instanceID, 0), UID: "uid-1", ENIID: i.ID, SubnetID: i.SubnetID,
		Spec: render.Spec{
			InstanceID: instanceID, Zone: "a", Origin: render.OriginDeclared, NodeName: "n",
			NodeENI: render.Reference{Name: "multus", UID: "uid", Generation: 1}, Revision: n.Revision("a"),
			Subnets: []render.Subnet{{ID: i.SubnetID}}, Slot: eni.Slot{Device: 1}, Template: n.Template,
		},
	}}
	o.Spec.EC2.Groups = []string{"sg-1", "sg-2"}
	if i.Attachment != nil {
		slot := i.Attachment.Slot
		o.Slot = &slot
	}
	for _, f := range change {
		f(&o)
	}
	in.Objects = append(in.Objects, o)
	return in
}

// owned is the attached interface of the first object.
func owned(subnet string) eni.Interface {
	key := identity.Interface{Cluster: "c", UID: "uid-1", Name: identity.ObjectName("multus", instanceID, 0), NodeENI: "multus", Node: "n", InstanceID: instanceID}
	return eni.Interface{
		ID: "eni-1", Type: eni.Standard, Status: eni.InUse, SubnetID: subnet, Groups: []string{"sg-1", "sg-2"}, SourceDestCheck: true,
		Tags: key.Tags(now.Add(-time.Hour), nil),
		Attachment: &eni.Attachment{
			ID: "eni-attach-1", InstanceID: instanceID, Slot: eni.Slot{Device: 1}, Status: eni.AttachmentAttached, DeleteOnTermination: true,
		},
	}
}

func unselected(in forecast.Input) forecast.Input {
	in.Node.Nodes[0].Labels = nil
	return in
}

func phases(outcome forecast.Outcome) []plan.Phase {
	var all []plan.Phase
	for _, i := range outcome.Interfaces {
		all = append(all, i.Phase)
	}
	return all
}

// texts returns the calls in words, in their order.
func texts(calls []plan.Call) []string {
	var all []string
	for _, call := range calls {
		all = append(all, call.String())
	}
	return all
}

func TestWhatAPlanComesTo(t *testing.T) {
	counts := func(c eni.AddressCounts) func(*fleet.NodeENI) {
		return func(n *fleet.NodeENI) { n.Template.EC2.AddressCounts = c }
	}
	cases := map[string]struct {
		in    forecast.Input
		calls map[string]int
		ends  []plan.Phase
	}{
		"an interface is made with three calls": {
			input(declares(nil, "subnet-1")),
			map[string]int{"CreateNetworkInterface": 1, "AttachNetworkInterface": 1, "ModifyNetworkInterfaceAttribute": 1}, []plan.Phase{plan.Attached},
		},
		"addresses come with the create call": {
			input(declares(counts(eni.AddressCounts{SecondaryIPv4: 3, IPv6Prefixes: 1}), "subnet-1")),
			map[string]int{"CreateNetworkInterface": 1, "AttachNetworkInterface": 1, "ModifyNetworkInterfaceAttribute": 1}, []plan.Phase{plan.Attached},
		},
		"what does not fit is blocked": {
			input(declares(nil, "subnet-1", "subnet-2", "subnet-3")),
			map[string]int{"CreateNetworkInterface": 2, "AttachNetworkInterface": 2, "ModifyNetworkInterfaceAttribute": 2},
			[]plan.Phase{plan.Attached, plan.Attached, plan.Blocked},
		},
		"no subnet in the zone": {input(declares(nil, "subnet-9")), map[string]int{}, []plan.Phase{plan.Blocked}},
		"nothing to do":         {serving(declares(nil, "subnet-1"), owned("subnet-1")), map[string]int{}, []plan.Phase{plan.Attached}},
		"taken over by its name": {
			input(declares(nil, "subnet-1"), owned("subnet-1")), map[string]int{"CreateTags": 1}, []plan.Phase{plan.Attached},
		},
		"more addresses": {
			serving(declares(counts(eni.AddressCounts{IPv4Prefixes: 2}), "subnet-1"), owned("subnet-1")),
			map[string]int{"AssignPrivateIpAddresses": 1}, []plan.Phase{plan.Attached},
		},
		"removed with two calls": {
			unselected(serving(declares(nil, "subnet-1"), owned("subnet-1"))),
			map[string]int{"DetachNetworkInterface": 1, "DeleteNetworkInterface": 1}, nil,
		},
		"removed with its NodeENI": {
			serving(declares(func(n *fleet.NodeENI) { n.Deleting = true }, "subnet-1"), owned("subnet-1")),
			map[string]int{"DetachNetworkInterface": 1, "DeleteNetworkInterface": 1}, nil,
		},
		"paused": {
			serving(declares(func(n *fleet.NodeENI) { n.Paused, n.Deleting = true, true }, "subnet-1"), owned("subnet-1")),
			map[string]int{}, []plan.Phase{plan.Attached},
		},
		"replaced": {
			serving(declares(nil, "subnet-2"), owned("subnet-1")),
			map[string]int{
				"DetachNetworkInterface": 1, "DeleteNetworkInterface": 1,
				"CreateNetworkInterface": 1, "AttachNetworkInterface": 1, "ModifyNetworkInterfaceAttribute": 1,
			}, []plan.Phase{plan.Attached},
		},
		"drift that nothing may replace": {
			serving(declares(func(n *fleet.NodeENI) { n.Replace = false }, "subnet-2"), owned("subnet-1")), map[string]int{}, []plan.Phase{plan.Attached},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			outcome := forecast.Simulate(tc.in, now)
			if diff := cmp.Diff(tc.calls, forecast.Calls(outcome.Calls)); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.ends, phases(outcome)); diff != "" {
				t.Errorf("ends (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDriftIsReported: the outcome says what only a replacement can correct.
func TestDriftIsReported(t *testing.T) {
	outcome := forecast.Simulate(serving(declares(func(n *fleet.NodeENI) { n.Replace = false }, "subnet-2"), owned("subnet-1")), now)
	want := []plan.Drift{{Field: plan.SubnetDrift, Want: "subnet-2", Have: "subnet-1"}}
	if diff := cmp.Diff(want, outcome.Interfaces[0].Drift); diff != "" {
		t.Errorf("drift (-want +got):\n%s", diff)
	}
	if kept := outcome.Interfaces[0].Kept; kept.Reason != plan.Drifted || !strings.Contains(kept.Message, "updatePolicy: Replace") {
		t.Errorf("why the interface stays: %+v", kept)
	}
}

// TestPlace: fixed objects get their slots, and what does not fit says why.
func TestPlace(t *testing.T) {
	var want []plan.Interface
	for n := range 3 {
		key := identity.Interface{Cluster: "c", UID: identity.UID(rune('a' + n)), Name: identity.ObjectName("x", instanceID, n), NodeENI: "x", Node: "n", InstanceID: instanceID, Ordinal: n}
		want = append(want, plan.Interface{Key: key, Goal: plan.Serve, Tags: key.Tags(now, nil),
			Settings: eni.Settings{Subnets: []string{"subnet-1"}, Slot: eni.Slot{Device: 1}, Spec: eni.Spec{Groups: []string{"sg-1"}}}})
	}
	in := input(declares(nil))
	outcome := forecast.Place(want, in.Look, in.Limits, now)
	if diff := cmp.Diff([]plan.Phase{plan.Attached, plan.Attached, plan.Blocked}, phases(outcome)); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	if got := outcome.Interfaces[1].Slot; got != (eni.Slot{Device: 2}) {
		t.Errorf("the second one is at %s", got)
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
