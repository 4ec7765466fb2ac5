// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package executor_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/base/panics"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
)

func TestCreate(t *testing.T) {
	action := plan.Create{Key: member(1), SubnetID: "s1", Tags: member(1).Tags(start, map[string]string{"team": "ran"}), Spec: eni.Spec{
		Description: "d", Groups: []string{"sg-1"}, Tags: map[string]string{"team": "ran"}, AddressCounts: eni.AddressCounts{IPv4Prefixes: 1},
	}}
	var r recorder
	v := inventory.New(cluster)
	later := executor.New(cloud(r.call), v, executor.Options{Members: 1, Removals: 1, Now: func() time.Time { return start.Add(time.Hour) }})
	applier(cloud(r.call), v).Do(t.Context(), []plan.Call{action})
	later.Do(t.Context(), []plan.Call{action})
	if len(r.calls) != 2 || r.calls[0] != r.calls[1] {
		t.Errorf("the request must be the same on every attempt, as its token demands: %q", r.calls)
	}
	records := v.Of(instance)
	if len(records) != 1 || records[0].CreatedFor != member(1).UID || records[0].Tagged != member(1) || records[0].Status != eni.Available || records[0].Tags["team"] != "ran" {
		t.Errorf("noted: %+v", records)
	}
}

// promises are addresses that Reserve returns one by one, each with its IPv6 address.
type promises struct {
	next  netip.Addr
	taken []netip.Addr
}

func (p *promises) Reserve(context.Context, string, identity.Interface) (netip.Addr, error) {
	return p.next, nil
}

func (p *promises) WithIPv4Suffix(_ context.Context, _ string, address netip.Addr) (netip.Addr, error) {
	return netip.MustParseAddr("fd00::" + address.String()[len("10.0.0."):]), nil
}

func (p *promises) Taken(_ string, address netip.Addr) {
	p.taken, p.next = append(p.taken, address), address.Next()
}

// naming is a cloud in which some addresses are used.
type naming struct {
	cloud
	used  []string
	asked []string
}

func (c *naming) CreateInterface(ctx context.Context, r executor.CreateRequest) (eni.Interface, error) {
	c.asked = append(c.asked, fmt.Sprintf("%s %v +%d", r.PrimaryIPv4, r.IPv6, r.Counts.IPv6))
	if slices.Contains(c.used, r.PrimaryIPv4.String()) || slices.Contains(c.used, r.IPv6.String()) {
		return eni.Interface{}, &eni.APIError{Class: eni.AddressTaken}
	}
	return c.cloud.CreateInterface(ctx, r)
}

// A used IPv6 address is no reason to try another IPv4 address: EC2 then chooses the IPv6 address. A used IPv4 address
// is.
func TestAddressesThatAreUsed(t *testing.T) {
	for name, c := range map[string]struct{ used, want []string }{
		"none":                 {nil, []string{"10.0.0.4 fd00::4 +0"}},
		"the IPv6 address":     {[]string{"fd00::4"}, []string{"10.0.0.4 fd00::4 +0", "10.0.0.4 invalid IP +1"}},
		"the IPv4 address":     {[]string{"10.0.0.4"}, []string{"10.0.0.4 fd00::4 +0", "10.0.0.4 invalid IP +1", "10.0.0.5 fd00::5 +0"}},
		"both, and the second": {[]string{"10.0.0.4", "fd00::5"}, []string{"10.0.0.4 fd00::4 +0", "10.0.0.4 invalid IP +1", "10.0.0.5 fd00::5 +0", "10.0.0.5 invalid IP +1"}},
	} {
		t.Run(name, func(t *testing.T) {
			var r recorder
			ec2 := &naming{cloud: cloud(r.call), used: c.used}
			a := executor.New(ec2, silent{}, executor.Options{Members: 1, Removals: 1, Now: time.Now, Addresses: &promises{next: netip.MustParseAddr("10.0.0.4")}})
			outcomes := a.Do(t.Context(), []plan.Call{plan.Create{Key: member(0), SubnetID: "subnet-1", Tags: member(0).Tags(start, nil), Spec: eni.Spec{
				LowestFree: true, MatchIPv4Suffix: true, AddressCounts: eni.AddressCounts{IPv6: 1},
			}}})
			if diff := cmp.Diff(c.want, ec2.asked); diff != "" || outcomes[0].Err != nil {
				t.Errorf("%v (-want +got):\n%s", outcomes[0].Err, diff)
			}
		})
	}
}

// everyAddressIsUsed is a cloud that refuses every address of its subnet.
type everyAddressIsUsed struct {
	cloud
	calls int
}

func (c *everyAddressIsUsed) CreateInterface(context.Context, executor.CreateRequest) (eni.Interface, error) {
	c.calls++
	return eni.Interface{}, &eni.APIError{Class: eni.AddressTaken, Operation: "CreateNetworkInterface", Code: "InvalidIPAddress.InUse"}
}

func TestTriesForAnAddressAreBounded(t *testing.T) {
	const most = 16
	ec2 := &everyAddressIsUsed{}
	addresses := &promises{next: netip.MustParseAddr("10.0.0.4")}
	a := executor.New(ec2, silent{}, executor.Options{Members: 1, Removals: 1, Now: time.Now, Addresses: addresses})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	outcomes := a.Do(ctx, []plan.Call{plan.Create{Key: member(0), SubnetID: "subnet-1", Spec: eni.Spec{LowestFree: true}}})
	if ec2.calls != most || len(addresses.taken) != most || eni.ErrorClass(outcomes[0].Err) != eni.AddressTaken {
		t.Errorf("%d calls, %d addresses noted as used, outcome %v", ec2.calls, len(addresses.taken), outcomes[0].Err)
	}
}

// retagged is a cloud whose client tokens lead to an interface with other tags than requested.
type retagged struct {
	cloud
	tags map[string]string
}

func (c retagged) CreateInterface(context.Context, executor.CreateRequest) (eni.Interface, error) {
	return eni.Interface{ID: "eni-new", Status: eni.Available, Tags: c.tags}, nil
}

// TestATokenThatLeadsToAnotherInterface creates an interface whose token was used before, and whose tags a user changed
// since. It is now that of another object, or foreign. An attach here would detach it there.
func TestATokenThatLeadsToAnotherInterface(t *testing.T) {
	with := func(key, value string) map[string]string {
		tags := member(1).Tags(start, nil)
		tags[key] = value
		return tags
	}
	cases := map[string]struct {
		tags map[string]string
		want bool // whether the applier uses it
	}{
		"as asked for":       {with("team", "ran"), true},
		"of another object":  {with(identity.TagUID, "uid-b"), false},
		"of another machine": {with(identity.TagInstanceID, "i-00000000000000002"), false},
		"of another cluster": {with(identity.TagCluster, "cluster-2"), false},
		"with spoilt tags":   {with(identity.TagInterface, "spoilt"), false},
		"without its Node":   {with(identity.TagNode, ""), false},
		"without any tags":   {nil, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v := inventory.New(cluster)
			outcomes := applier(retagged{tags: tc.tags}, v).Do(t.Context(), []plan.Call{plan.Create{Key: member(1), SubnetID: "s1"}})
			_, noted := v.Interface("eni-new")
			if err := outcomes[0].Err; (err == nil) != tc.want || noted != tc.want || !tc.want && eni.ErrorClass(err) != eni.IdempotencyMismatch {
				t.Errorf("outcome %v, noted %t; that it is taken is wanted %t", err, noted, tc.want)
			}
		})
	}
}

// TestAPanicIsAFailureOfItsAction makes the call for one member panic in its goroutine. EC2 may have executed the call.
func TestAPanicIsAFailureOfItsAction(t *testing.T) {
	v := inventory.New(cluster)
	c := cloud(func(_ context.Context, call string) error {
		if call[:6] == "create" {
			panic("no answer")
		}
		return nil
	})
	a := executor.New(c, v, executor.Options{Members: 4, Removals: 1, Now: func() time.Time { return start }})
	outcomes := a.Do(t.Context(), []plan.Call{plan.Create{Key: member(0), SubnetID: "s1"}, describe(1, "a")})
	var caught *panics.Error
	if !errors.As(outcomes[0].Err, &caught) || caught.Of != "NodeENI a on node node-1" || eni.ErrorClass(outcomes[0].Err) != eni.Transient {
		t.Errorf("the action that panics: %v", outcomes[0].Err)
	}
	if outcomes[1].Err != nil {
		t.Errorf("the other one: %v", outcomes[1].Err)
	}
}
