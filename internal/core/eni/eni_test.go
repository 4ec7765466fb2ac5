// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package eni_test

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
)

// TestServedInstance: these Nodes get no interfaces, even if a NodeENI selects them. A call to EC2 for them would fail, or
// make an interface that no pod can use.
func TestServedInstance(t *testing.T) {
	const instance = "aws:///us-east-1a/i-0123456789abcdef0"
	for name, tc := range map[string]struct {
		providerID string
		labels     map[string]string
		reason     string
	}{
		"a node of EC2":         {instance, map[string]string{"kubernetes.io/os": "linux"}, ""},
		"without labels":        {instance, nil, ""},
		"other compute":         {instance, map[string]string{"eks.amazonaws.com/compute-type": "ec2"}, ""},
		"EKS Auto Mode":         {instance, map[string]string{"eks.amazonaws.com/compute-type": "auto"}, eni.ReasonManagedInstance},
		"Windows":               {instance, map[string]string{"kubernetes.io/os": "windows"}, eni.ReasonWindowsNode},
		"Fargate":               {"aws:///us-east-1a/7c0b1a2c/fargate-ip-10-0-1-2.ec2.internal", map[string]string{"eks.amazonaws.com/compute-type": "fargate"}, eni.ReasonNotAnEC2Instance},
		"a hybrid node":         {"eks-hybrid:///us-west-2/cluster/mi-0123456789abcdef0", map[string]string{"eks.amazonaws.com/compute-type": "hybrid"}, eni.ReasonNotAnEC2Instance},
		"another cloud":         {"gce://project/zone/i-0123456789abcdef0", nil, eni.ReasonNotAnEC2Instance},
		"without a providerID":  {"", nil, eni.ReasonNotAnEC2Instance},
		"Auto Mode and Windows": {instance, map[string]string{"eks.amazonaws.com/compute-type": "auto", "kubernetes.io/os": "windows"}, eni.ReasonManagedInstance},
	} {
		t.Run(name, func(t *testing.T) {
			ref, err := eni.ServedInstance(tc.providerID, tc.labels)
			if tc.reason == "" {
				if err != nil || ref.ID != "i-0123456789abcdef0" || ref.Zone != "us-east-1a" {
					t.Errorf("%+v, %v; want the instance", ref, err)
				}
				return
			}
			unserved, is := errors.AsType[*eni.UnservedError](err)
			if !is || unserved.Reason != tc.reason || unserved.Error() == "" {
				t.Errorf("%+v, %v; want the reason %s", ref, err, tc.reason)
			}
		})
	}
}

func TestParseProviderID(t *testing.T) {
	type answer struct {
		Zone, InstanceID string
		OK               bool
	}
	cases := map[string]struct {
		in   string
		want answer
	}{
		"a node of EC2":           {"aws:///us-east-1a/i-0123456789abcdef0", answer{"us-east-1a", "i-0123456789abcdef0", true}},
		"an old, short ID":        {"aws:///us-east-1a/i-01234567", answer{"us-east-1a", "i-01234567", true}},
		"a local zone":            {"aws:///us-west-2-lax-1a/i-0123456789abcdef0", answer{"us-west-2-lax-1a", "i-0123456789abcdef0", true}},
		"two slashes":             {"aws://us-east-1a/i-0123456789abcdef0", answer{"us-east-1a", "i-0123456789abcdef0", true}},
		"none yet":                {"", answer{}},
		"Fargate":                 {"aws:///us-east-1a/fargate-ip-10-0-1-2.ec2.internal", answer{}},
		"Fargate, with a task":    {"aws:///us-east-1a/7c0b1a2c/fargate-ip-10-0-1-2.ec2.internal", answer{}},
		"a hybrid node":           {"eks-hybrid:///us-west-2/cluster/mi-0123456789abcdef0", answer{}},
		"a managed instance":      {"aws:///us-west-2a/mi-0123456789abcdef0", answer{}},
		"another cloud":           {"gce://project/zone/i-0123456789abcdef0", answer{}},
		"no zone":                 {"aws:////i-0123456789abcdef0", answer{}},
		"nothing but an ID":       {"aws:///i-0123456789abcdef0", answer{}},
		"an ID alone":             {"i-0123456789abcdef0", answer{}},
		"an ID that is too short": {"aws:///us-east-1a/i-0123456", answer{}},
		"an ID that is too long":  {"aws:///us-east-1a/i-0123456789abcdef01", answer{}},
		"an ID in capitals":       {"aws:///us-east-1a/i-0123456789ABCDEF0", answer{}},
		"something after the ID":  {"aws:///us-east-1a/i-0123456789abcdef0/x", answer{}},
		"a slash after the ID":    {"aws:///us-east-1a/i-0123456789abcdef0/", answer{}},
		"a space after the ID":    {"aws:///us-east-1a/i-0123456789abcdef0 ", answer{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ref, err := eni.ParseProviderID(tc.in)
			if diff := cmp.Diff(tc.want, answer{ref.Zone, ref.ID, err == nil}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSlotsAreOrderedByCardThenDevice(t *testing.T) {
	slots := []eni.Slot{{Card: 1}, {Device: 10}, {Card: 1, Device: 1}, {Device: 2}, eni.Primary}
	slices.SortFunc(slots, eni.CompareSlots)
	want := []eni.Slot{eni.Primary, {Device: 2}, {Device: 10}, {Card: 1}, {Card: 1, Device: 1}}
	if diff := cmp.Diff(want, slots); diff != "" {
		t.Error(diff)
	}
}

func TestLimitsOnCard(t *testing.T) {
	l := eni.Limits{Cards: []int{15, 8}}
	for card, want := range map[int]int{-1: 0, 0: 15, 1: 8, 2: 0} {
		if got := l.MaxOnCard(card); got != want {
			t.Errorf("card %d takes %d, want %d", card, got, want)
		}
	}
	if (eni.Limits{}).Known() || !l.Known() {
		t.Error("limits are known when there are cards")
	}
}

// full returns an interface with something in every field.
func full(t *testing.T) eni.Interface {
	t.Helper()
	i := eni.Interface{
		ID: "eni-1", Type: eni.Standard, Status: eni.InUse, Description: "d", MAC: "02:00:00:00:00:01",
		SubnetID: "s1", VPCID: "vpc-1", Zone: "us-east-1a", Groups: []string{"sg-1"}, SourceDestCheck: true,
		Addresses: eni.Addresses{
			PrimaryIPv4: netip.MustParseAddr("10.0.0.1"), SecondaryIPv4: []netip.Addr{netip.MustParseAddr("10.0.0.2")},
			IPv4Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.1.0/28")}, IPv6: []netip.Addr{netip.MustParseAddr("2001:db8::1")},
			IPv6Prefixes: []netip.Prefix{netip.MustParsePrefix("2001:db8::/80")},
		},
		Tags: map[string]string{"k": "v"}, RequesterManaged: true, ConnectionTracking: eni.ConnectionTracking{UDP: 45},
		Attachment: &eni.Attachment{ID: "a", InstanceID: "i-1", Slot: eni.Slot{Device: 1}, Status: eni.AttachmentAttached, DeleteOnTermination: true},
	}
	for n := range reflect.ValueOf(i).NumField() {
		if reflect.ValueOf(i).Field(n).IsZero() {
			t.Fatalf("%s is new: say here what it can be", reflect.TypeOf(i).Field(n).Name)
		}
	}
	return i
}

func TestCloneSharesNothing(t *testing.T) {
	i := full(t)
	clone := i.Clone()
	if !reflect.DeepEqual(i, clone) {
		t.Error("the clone differs")
	}
	for _, path := range shared(reflect.ValueOf(i), reflect.ValueOf(clone), "Interface") {
		t.Errorf("%s is shared", path)
	}
}

// shared returns the paths at which two values refer to the same memory.
func shared(a, b reflect.Value, path string) []string {
	var found []string
	switch a.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		if a.Pointer() == b.Pointer() {
			found = append(found, path)
		}
	case reflect.Struct:
		if a.Type().PkgPath() == "net/netip" {
			return nil // Values by design.
		}
		for n := range a.NumField() {
			found = append(found, shared(a.Field(n), b.Field(n), path+"."+a.Type().Field(n).Name)...)
		}
	}
	return found
}

func TestStates(t *testing.T) {
	with := func(status eni.AttachmentStatus) eni.Interface {
		return eni.Interface{Status: eni.InUse, Attachment: &eni.Attachment{InstanceID: "i-1", Status: status}}
	}
	type state struct{ AttachedTo, Ready, InTransition bool }
	cases := map[string]struct {
		i    eni.Interface
		want state
	}{
		"pending":                {eni.Interface{Status: eni.Pending}, state{false, false, true}},
		"available":              {eni.Interface{Status: eni.Available}, state{}},
		"attaching":              {with(eni.AttachmentAttaching), state{true, false, true}},
		"attached":               {with(eni.AttachmentAttached), state{true, true, false}},
		"detaching":              {with(eni.AttachmentDetaching), state{true, false, true}},
		"detached":               {with(eni.AttachmentDetached), state{}},
		"detaching by its state": {eni.Interface{Status: eni.Detaching}, state{false, false, true}},
		"attaching by its state": {eni.Interface{Status: eni.Attaching}, state{false, false, true}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := state{tc.i.AttachedTo("i-1"), tc.i.Ready(), tc.i.InTransition()}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if tc.i.AttachedTo("i-2") {
				t.Error("attached to another instance")
			}
		})
	}
}

func TestInstanceStates(t *testing.T) {
	type state struct{ Attachable, Ending bool }
	for s, want := range map[eni.InstanceState]state{
		eni.InstancePending: {}, eni.InstanceRunning: {Attachable: true}, eni.InstanceStopping: {}, eni.InstanceStopped: {Attachable: true},
		eni.InstanceShuttingDown: {Ending: true}, eni.InstanceTerminated: {Ending: true}, eni.InstanceMissing: {},
	} {
		if got := (state{s.Attachable(), s.Terminating()}); got != want {
			t.Errorf("%s is %+v, want %+v", s, got, want)
		}
	}
}

func TestClassOf(t *testing.T) {
	fault := &eni.APIError{Class: eni.SlotTaken, Operation: "AttachNetworkInterface", Code: "InvalidParameterValue", Err: io.ErrUnexpectedEOF}
	wrapped := fmt.Errorf("attach: %w", fault)
	if got := eni.ErrorClass(wrapped); got != eni.SlotTaken {
		t.Errorf("class %s", got)
	}
	if !errors.Is(wrapped, io.ErrUnexpectedEOF) {
		t.Error("the cause is lost")
	}
	if got := eni.ErrorClass(io.EOF); got != eni.Transient {
		t.Errorf("what nothing is known of is %s", got)
	}
}
