// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package executor_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
)

const (
	cluster  = "cluster-1"
	instance = "i-00000000000000001"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// cloud is a Cloud that passes every call, as text, to a function.
type cloud func(ctx context.Context, call string) error

func (c cloud) call(ctx context.Context, format string, args ...any) error {
	return c(ctx, fmt.Sprintf(format, args...))
}

func (c cloud) CreateInterface(ctx context.Context, r executor.CreateRequest) (eni.Interface, error) {
	made := eni.Interface{ID: "eni-new", Status: eni.Pending, SubnetID: r.SubnetID, Groups: r.Groups, Tags: r.Tags}
	return made, c.call(ctx, "create %s %s %v %+v created-at=%s token=%s", r.SubnetID, r.Description, r.Groups, r.Counts, r.Tags[identity.TagCreatedAt], r.Token)
}

func (c cloud) AttachInterface(ctx context.Context, id, instanceID string, slot eni.Slot) (eni.Attachment, error) {
	attachment := eni.Attachment{ID: "attach-" + id, InstanceID: instanceID, Slot: slot, Status: eni.AttachmentAttaching}
	return attachment, c.call(ctx, "attach %s %s %s", id, instanceID, slot)
}

func (c cloud) AttachInterfaceWith(ctx context.Context, express eni.ENAExpress, id, instanceID string, slot eni.Slot) (eni.Attachment, error) {
	attachment := eni.Attachment{ID: "attach-" + id, InstanceID: instanceID, Slot: slot, Status: eni.AttachmentAttaching, ENAExpress: express}
	return attachment, c.call(ctx, "attach %s %s %s with ENA Express %s", id, instanceID, slot, express)
}

func (c cloud) DetachInterface(ctx context.Context, attachmentID string, force bool) error {
	return c.call(ctx, "detach %s %t", attachmentID, force)
}

func (c cloud) DeleteInterface(ctx context.Context, id string) error {
	return c.call(ctx, "delete %s", id)
}

func (c cloud) SetDeleteOnTermination(ctx context.Context, id, attachmentID string, on bool) error {
	return c.call(ctx, "delete-on-termination %s %s %t", id, attachmentID, on)
}

func (c cloud) SetSourceDestCheck(ctx context.Context, id string, on bool) error {
	return c.call(ctx, "source-dest-check %s %t", id, on)
}

func (c cloud) SetConnectionTracking(ctx context.Context, id string, to eni.ConnectionTracking) error {
	return c.call(ctx, "connection-tracking %s %s", id, to)
}

func (c cloud) SetENAExpress(ctx context.Context, id string, to eni.ENAExpress) error {
	return c.call(ctx, "ena-express %s %s", id, to)
}

func (c cloud) SetGroups(ctx context.Context, id string, groups []string) error {
	return c.call(ctx, "groups %s %v", id, groups)
}

func (c cloud) SetDescription(ctx context.Context, id, description string) error {
	return c.call(ctx, "description %s %s", id, description)
}

func (c cloud) PutTags(ctx context.Context, id string, tags map[string]string) error {
	return c.call(ctx, "tags %s %v", id, tags)
}

func (c cloud) AssignIPv4(ctx context.Context, id string, addresses, prefixes int) (eni.Addresses, error) {
	var added eni.Addresses
	for n := range addresses {
		added.SecondaryIPv4 = append(added.SecondaryIPv4, netip.AddrFrom4([4]byte{10, 0, 0, byte(10 + n)}))
	}
	for n := range prefixes {
		added.IPv4Prefixes = append(added.IPv4Prefixes, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(n), 0}), 28))
	}
	return added, c.call(ctx, "assign IPv4 %s %d %d", id, addresses, prefixes)
}

func (c cloud) ReassignIPv4(ctx context.Context, id string, addresses []netip.Addr) error {
	return c.call(ctx, "reassign %s %v", id, addresses)
}

func (c cloud) AssignIPv6(ctx context.Context, id string, addresses, prefixes int) (eni.Addresses, error) {
	var added eni.Addresses
	for n := range addresses {
		added.IPv6 = append(added.IPv6, netip.AddrFrom16([16]byte{0x20, 15: byte(n)}))
	}
	for n := range prefixes {
		added.IPv6Prefixes = append(added.IPv6Prefixes, netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 9: byte(n)}), 80))
	}
	return added, c.call(ctx, "assign IPv6 %s %d %d", id, addresses, prefixes)
}

func (c cloud) UnassignIPv4(ctx context.Context, id string, surplus eni.Addresses) error {
	return c.call(ctx, "unassign IPv4 %s %+v", id, surplus.Counts())
}

func (c cloud) UnassignIPv6(ctx context.Context, id string, surplus eni.Addresses) error {
	return c.call(ctx, "unassign IPv6 %s %+v", id, surplus.Counts())
}

// recorder records calls, and fails the configured ones.
type recorder struct {
	mu    sync.Mutex
	calls []string
	fails map[string]error
}

func (r *recorder) call(_ context.Context, call string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, call)
	return r.fails[call]
}

func member(ordinal int) identity.Interface {
	return identity.Interface{
		Cluster: cluster, NodeENI: "a", Node: "node-1", InstanceID: instance, UID: identity.UID(fmt.Sprintf("uid-%d", ordinal)),
		Name: identity.ObjectName("a", instance, ordinal), Ordinal: ordinal,
	}
}

// known returns an inventory with one attached interface, eni-1, which belongs to member 0.
func known() *inventory.Inventory {
	v := inventory.New(cluster)
	v.ObserveInterfaces(start, eni.Interface{
		ID: "eni-1", Status: eni.InUse, SubnetID: "s1", SourceDestCheck: true, Tags: member(0).Tags(start, nil),
		Addresses: eni.Addresses{
			SecondaryIPv4: []netip.Addr{netip.MustParseAddr("10.0.0.9")}, IPv6: []netip.Addr{netip.MustParseAddr("2001:db8::9")},
		},
		Attachment: &eni.Attachment{ID: "attach-1", InstanceID: instance, Slot: eni.Slot{Device: 1}, Status: eni.AttachmentAttached},
	})
	return v
}

func applier(c executor.Cloud, v *inventory.Inventory) *executor.Applier {
	return executor.New(c, v, executor.Options{Members: 1, Removals: 1, Now: func() time.Time { return start.Add(time.Minute) }})
}

// effect is the one call of an action, and the state of eni-1 after it.
type effect struct {
	action plan.Call
	call   string
	noted  func(eni.Interface) bool
}

// TestEachActionIsOneCallWhoseEffectIsNoted compares the recorded effect of each call with that of the action.
func TestEachActionIsOneCallWhoseEffectIsNoted(t *testing.T) {
	change := func(to plan.Attribute) plan.Call {
		return plan.Change{Key: member(0), InterfaceID: "eni-1", To: to}
	}
	cases := map[string]effect{
		"attach": {
			plan.Attach{Key: member(0), InterfaceID: "eni-1", Slot: eni.Slot{Card: 1, Device: 2}}, "attach eni-1 " + instance + " card 1 device 2",
			func(i eni.Interface) bool {
				return i.Attachment.Slot == eni.Slot{Card: 1, Device: 2} && i.Attachment.Status == eni.AttachmentAttaching
			},
		},
		"detach": {
			plan.Detach{Key: member(0), InterfaceID: "eni-1", AttachmentID: "attach-1"}, "detach attach-1 false",
			func(i eni.Interface) bool { return i.Attachment.Status == eni.AttachmentDetaching },
		},
		"force": {
			plan.Detach{Key: member(0), InterfaceID: "eni-1", AttachmentID: "attach-1", Force: true}, "detach attach-1 true",
			func(i eni.Interface) bool { return i.Attachment.Status == eni.AttachmentDetaching },
		},
		"groups":      {change(plan.Groups{"sg-2", "sg-1"}), "groups eni-1 [sg-2 sg-1]", plan.Groups{"sg-1", "sg-2"}.IsSatisfiedBy},
		"description": {change(plan.Description("new")), "description eni-1 new", plan.Description("new").IsSatisfiedBy},
		"source/dest": {change(plan.SourceDestCheck(false)), "source-dest-check eni-1 false", plan.SourceDestCheck(false).IsSatisfiedBy},
		"delete on termination": {
			change(plan.DeleteOnTermination{AttachmentID: "attach-1", Enabled: true}), "delete-on-termination eni-1 attach-1 true",
			func(i eni.Interface) bool { return i.Attachment.DeleteOnTermination },
		},
		"tags": {
			change(plan.Tags{"k": "v"}), "tags eni-1 map[k:v]",
			func(i eni.Interface) bool { return i.Tags["k"] == "v" && i.Tags[identity.TagCluster] == cluster },
		},
		"more IPv4 addresses": {
			change(plan.AssignAddresses{Family: plan.IPv4, Addresses: 2, Had: eni.AddressCounts{SecondaryIPv4: 1, IPv6: 1}}), "assign IPv4 eni-1 2 0",
			func(i eni.Interface) bool { return len(i.SecondaryIPv4) == 3 },
		},
		"more IPv4 prefixes": {
			change(plan.AssignAddresses{Family: plan.IPv4, Prefixes: 1, Had: eni.AddressCounts{SecondaryIPv4: 1, IPv6: 1}}), "assign IPv4 eni-1 0 1",
			func(i eni.Interface) bool { return len(i.IPv4Prefixes) == 1 && len(i.SecondaryIPv4) == 1 },
		},
		"more IPv6 addresses": {
			change(plan.AssignAddresses{Family: plan.IPv6, Addresses: 1, Had: eni.AddressCounts{SecondaryIPv4: 1, IPv6: 1}}), "assign IPv6 eni-1 1 0",
			func(i eni.Interface) bool { return len(i.IPv6) == 2 },
		},
		"more IPv6 prefixes": {
			change(plan.AssignAddresses{Family: plan.IPv6, Prefixes: 2, Had: eni.AddressCounts{SecondaryIPv4: 1, IPv6: 1}}), "assign IPv6 eni-1 0 2",
			func(i eni.Interface) bool { return len(i.IPv6Prefixes) == 2 },
		},
		"fewer IPv4 addresses": {
			change(plan.UnassignAddresses{Family: plan.IPv4, Surplus: eni.Addresses{SecondaryIPv4: []netip.Addr{netip.MustParseAddr("10.0.0.9")}}}),
			"unassign IPv4 eni-1 {SecondaryIPv4:1 IPv4Prefixes:0 IPv6:0 IPv6Prefixes:0}",
			func(i eni.Interface) bool { return len(i.SecondaryIPv4) == 0 && len(i.IPv6) == 1 },
		},
		"fewer IPv6 addresses": {
			change(plan.UnassignAddresses{Family: plan.IPv6, Surplus: eni.Addresses{IPv6: []netip.Addr{netip.MustParseAddr("2001:db8::9")}}}),
			"unassign IPv6 eni-1 {SecondaryIPv4:0 IPv4Prefixes:0 IPv6:1 IPv6Prefixes:0}",
			func(i eni.Interface) bool { return len(i.IPv6) == 0 && len(i.SecondaryIPv4) == 1 },
		},
	}
	for name, tc := range cases {
		t.Run(name, tc.verify)
	}
}

func (e effect) verify(t *testing.T) {
	var r recorder
	v := known()
	before, _ := v.Interface("eni-1")
	if _, attaches := e.action.(plan.Attach); attaches {
		before.Status, before.Attachment = eni.Available, nil
		v.ObserveInterfaces(start, before)
	}
	outcomes := applier(cloud(r.call), v).Do(t.Context(), []plan.Call{e.action})
	if len(outcomes) != 1 || outcomes[0].Err != nil {
		t.Fatalf("outcomes: %v", outcomes)
	}
	if diff := cmp.Diff([]string{e.call}, r.calls); diff != "" {
		t.Error(diff)
	}
	noted, _ := v.Interface("eni-1")
	if !e.noted(noted) {
		t.Errorf("noted: %+v", noted)
	}
	v.ObserveInterfaces(start.Add(61*time.Second), before)
	if after, _ := v.Interface("eni-1"); !inventory.Equal(after, noted) {
		t.Error("a reading from before the call is believed")
	}
}

// A call for addresses can take longer than the poll that reads its effect.
func TestAReadDuringTheCallAddsNoAddressTwice(t *testing.T) {
	v := known()
	change := plan.AssignAddresses{Family: plan.IPv4, Addresses: 2, Had: eni.AddressCounts{SecondaryIPv4: 1, IPv6: 1}}
	var assigned eni.Interface
	for range 2 { // the second answer has the addresses that the inventory has from the first one
		if o := applier(cloud((&recorder{}).call), v).Do(t.Context(), []plan.Call{plan.Change{Key: member(0), InterfaceID: "eni-1", To: change}}); o[0].Err != nil {
			t.Fatal(o[0].Err)
		}
		assigned, _ = v.Interface("eni-1")
	}
	if len(assigned.SecondaryIPv4) != 3 {
		t.Errorf("the inventory has %v, want 3 addresses", assigned.SecondaryIPv4)
	}
}

// TestACallShowsOnceAReadHasItsAddresses reads an interface that has as many addresses as the call requested, but another
// one: a read from before the call, with an address that moved there.
func TestACallShowsOnceAReadHasItsAddresses(t *testing.T) {
	v := known()
	before, _ := v.Interface("eni-1")
	more := plan.AssignAddresses{Family: plan.IPv4, Addresses: 1, Had: before.Counts()}
	applier(cloud((&recorder{}).call), v).Do(t.Context(), []plan.Call{plan.Change{Key: member(0), InterfaceID: "eni-1", To: more}})
	noted, _ := v.Interface("eni-1")
	assigned := noted.SecondaryIPv4[len(noted.SecondaryIPv4)-1]
	before.SecondaryIPv4 = append(slices.Clone(before.SecondaryIPv4), netip.MustParseAddr("10.0.9.9"))
	v.ObserveInterfaces(start.Add(61*time.Second), before)
	if after, _ := v.Interface("eni-1"); !slices.Contains(after.SecondaryIPv4, assigned) {
		t.Errorf("the inventory has %v, without %s", after.SecondaryIPv4, assigned)
	}
}

// TestARepeatedChangeCounts repeats changes that EC2 accepted before. A change by another program can have reverted the
// first one, so only a read shows whether the second one lasts; but EC2's answer names the addresses that it assigned.
func TestARepeatedChangeCounts(t *testing.T) {
	cases := map[string]struct {
		to     plan.Attribute
		counts bool
	}{
		"a description":        {plan.Description("x"), false},
		"a number of prefixes": {plan.AssignAddresses{Family: plan.IPv4, Prefixes: 1}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v := known()
			before, _ := v.Interface("eni-1")
			repeated := plan.Change{Key: member(0), InterfaceID: "eni-1", To: tc.to, Repetition: true}
			applier(cloud((&recorder{}).call), v).Do(t.Context(), []plan.Call{repeated})
			if after, _ := v.Interface("eni-1"); inventory.Equal(before, after) == tc.counts {
				t.Errorf("the inventory has %+v", after)
			}
		})
	}
}

func TestAFailureIsNotNoted(t *testing.T) {
	refused := &eni.APIError{Class: eni.Unauthorized}
	r := recorder{fails: map[string]error{"detach attach-1 false": refused, "delete eni-1": refused, "description eni-1 x": refused}}
	v := known()
	for _, action := range []plan.Call{
		plan.Detach{Key: member(0), InterfaceID: "eni-1", AttachmentID: "attach-1"},
		plan.Delete{Key: member(0), InterfaceID: "eni-1"},
		plan.Change{Key: member(0), InterfaceID: "eni-1", To: plan.Description("x")},
	} {
		outcomes := applier(cloud(r.call), v).Do(t.Context(), []plan.Call{action})
		if eni.ErrorClass(outcomes[0].Err) != eni.Unauthorized {
			t.Errorf("%s: %v", action, outcomes[0].Err)
		}
	}
	before, _ := known().Interface("eni-1")
	if after, there := v.Interface("eni-1"); !there || !inventory.Equal(before, after) {
		t.Error("a refused call left its mark")
	}
}

func TestDeleteIsNoted(t *testing.T) {
	var r recorder
	v := known()
	applier(cloud(r.call), v).Do(t.Context(), []plan.Call{plan.Delete{Key: member(0), InterfaceID: "eni-1"}})
	if v.Len() != 0 {
		t.Error("the deletion is not noted")
	}
}

// TestDeletingWhatEC2DoesNotKnow checks that NotFound is a success only after the visibility window.
func TestDeletingWhatEC2DoesNotKnow(t *testing.T) {
	for known, want := range map[time.Duration]bool{0: false, inventory.VisibilityWindow - time.Second: false, inventory.VisibilityWindow: true} {
		t.Run(fmt.Sprintf("first known %s before", known), func(t *testing.T) {
			v := inventory.New(cluster)
			v.ObserveInterfaces(start, eni.Interface{ID: "eni-1", Status: eni.Available, Tags: member(0).Tags(start.Add(-time.Hour), nil)})
			r := recorder{fails: map[string]error{"delete eni-1": &eni.APIError{Class: eni.NotFound}}}
			a := executor.New(cloud(r.call), v, executor.Options{Members: 1, Removals: 1, Now: func() time.Time { return start.Add(known) }})
			outcomes := a.Do(t.Context(), []plan.Call{plan.Delete{Key: member(0), InterfaceID: "eni-1"}})
			if gone := outcomes[0].Err == nil; gone != want || (v.Len() == 0) != want {
				t.Errorf("the outcome is %v, and %d interfaces are known; deleted %t is wanted", outcomes[0].Err, v.Len(), want)
			}
		})
	}
}

// describe returns an action for a member with the given text.
func describe(ordinal int, as string) plan.Call {
	return plan.Change{Key: member(ordinal), InterfaceID: fmt.Sprintf("eni-%d", ordinal), To: plan.Description(as)}
}

func TestAMemberStopsAtItsFirstFailure(t *testing.T) {
	actions := []plan.Call{describe(1, "a"), describe(2, "a"), describe(1, "b"), describe(2, "b"), describe(1, "c")}
	for _, members := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d at the same time", members), func(t *testing.T) {
			r := recorder{fails: map[string]error{"description eni-1 b": &eni.APIError{Class: eni.Throttled}}}
			a := executor.New(cloud(r.call), silent{}, executor.Options{Members: members, Removals: 1, Now: time.Now})
			var got []string
			for _, o := range a.Do(t.Context(), actions) {
				got = append(got, fmt.Sprintf("%s %t", o.Call, o.Err == nil))
			}
			want := []string{
				`set description "a" of eni-1 true`, `set description "b" of eni-1 false`,
				`set description "a" of eni-2 true`, `set description "b" of eni-2 true`,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			slices.Sort(r.calls)
			calls := []string{"description eni-1 a", "description eni-1 b", "description eni-2 a", "description eni-2 b"}
			if diff := cmp.Diff(calls, r.calls); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestTwoInterfacesOfAMemberDoNotWaitForEachOther updates one of a member's interfaces, which fails, and removes
// another.
func TestTwoInterfacesOfAMemberDoNotWaitForEachOther(t *testing.T) {
	r := recorder{fails: map[string]error{"description eni-1 a": &eni.APIError{Class: eni.NoAddresses}}}
	a := executor.New(cloud(r.call), silent{}, executor.Options{Members: 1, Removals: 1, Now: time.Now})
	outcomes := a.Do(t.Context(), []plan.Call{describe(1, "a"), plan.Delete{Key: member(1), InterfaceID: "eni-2"}})
	if len(outcomes) != 2 || outcomes[1].Err != nil {
		t.Errorf("the other one is not deleted: %v", outcomes)
	}
}

func TestNoCallAfterTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	a := applier(cloud(func(context.Context, string) error { calls++; cancel(); return nil }), known())
	outcomes := a.Do(ctx, []plan.Call{describe(1, "a"), describe(1, "b"), describe(2, "a")})
	if calls != 1 || len(outcomes) != 3 || !errors.Is(outcomes[1].Err, context.Canceled) || !errors.Is(outcomes[2].Err, context.Canceled) {
		t.Errorf("%d calls, outcomes %v", calls, outcomes)
	}
}

// silent records nothing.
type silent struct{}

func (silent) RecordCreated(time.Time, identity.Interface, eni.Interface, eni.Addresses) {}
func (silent) RecordChange(time.Time, string, func(eni.Interface) eni.Interface, inventory.Effect) {
}
func (silent) Deleted(time.Time, string)                                       {}
func (silent) RecordRequested(time.Time, string, eni.Addresses, eni.Addresses) {}
func (silent) RecentlyCreated(time.Time, string) bool                          { return false }

// TestRemovalsOfAnInstanceAreBounded removes interfaces of several instances with one applier: those of one instance are
// bounded, and nothing but EC2's request rates bounds the instances.
func TestRemovalsOfAnInstanceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		removing, most, others := map[string]int{}, map[string]int{}, 0
		c := cloud(func(_ context.Context, call string) error {
			id, is := strings.CutPrefix(call, "delete eni-")
			if !is {
				others++
				return nil
			}
			instance := id[:1]
			mu.Lock()
			removing[instance]++
			most[instance] = max(most[instance], removing[instance])
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			removing[instance]--
			mu.Unlock()
			return nil
		})
		a := executor.New(c, silent{}, executor.Options{Members: 8, Removals: 3, Now: time.Now})
		begun := time.Now()
		var wg sync.WaitGroup
		for instance := range 3 {
			wg.Go(func() {
				var actions []plan.Call
				for n := range 6 {
					actions = append(actions, plan.Delete{Key: member(n), InterfaceID: fmt.Sprintf("eni-%d%d", instance, n)})
				}
				a.Do(t.Context(), actions)
			})
		}
		wg.Wait()
		if diff := cmp.Diff(map[string]int{"0": 3, "1": 3, "2": 3}, most); diff != "" || time.Since(begun) != 2*time.Second {
			t.Errorf("six removals of a second each took %s for each of three instances, want 2s; at the same time (-want +got):\n%s", time.Since(begun), diff)
		}
		if a.Do(t.Context(), []plan.Call{describe(1, "a")}); others != 1 {
			t.Error("another call waited for removals")
		}
	})
}
