// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
)

// exact compares addresses as values.
var exact = cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})

func addresses(last ...byte) (all []netip.Addr) {
	for _, n := range last {
		all = append(all, netip.AddrFrom4([4]byte{10, 0, 4, n}))
	}
	return all
}

// blocks returns the IPv4 prefixes with the numbers.
func blocks(numbers ...byte) (all []netip.Prefix) {
	for _, n := range numbers {
		all = append(all, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 5, 16 * n}), 28))
	}
	return all
}

// attached returns an object with its attached interface, and the facts about them.
func attached() (plan.Interface, inventory.Record) {
	i := object(plan.Serve, 0, 1, "eni-1")
	return i, on(instance, "eni-1", 1, i)
}

func texts(p plan.Plan) (all []string) {
	for _, call := range p.Calls {
		all = append(all, call.(plan.Change).To.String())
	}
	return all
}

// TestAttributesAreUpdatedInPlace: one call for each attribute that differs.
func TestAttributesAreUpdatedInPlace(t *testing.T) {
	t.Parallel()
	i, r := attached()
	i.Settings.Description, i.Settings.Groups = "other", []string{"sg-2", "sg-1"}
	i.Settings.SourceDestCheck, i.Settings.DeleteOnTermination = false, true
	i.Tags = i.Key.Tags(i.Since.Add(time.Hour), map[string]string{"team": "ran"})
	i.Settings.SecondaryIPv4, i.Settings.IPv6 = 2, 1
	want := []string{"delete on termination true", "source/dest check false", `description "other"`,
		"tags " + strings.Join(slices.Sorted(maps.Keys(withoutTime(i.Tags))), ","), "security groups sg-2,sg-1", "2 more IPv4 addresses", "1 more IPv6 address"}
	if diff := cmp.Diff(want, texts(plan.Compute([]plan.Interface{i}, facts(r), start))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// withoutTime returns the tags without the time of creation: an interface that was taken over is older than its object.
func withoutTime(tags map[string]string) map[string]string {
	tags = maps.Clone(tags)
	delete(tags, identity.TagCreatedAt)
	return tags
}

// TestCountsOfAddressesAreFloors: what is missing is assigned, and only what multieni requested is unassigned.
func TestCountsOfAddressesAreFloors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		count           int
		have, requested []netip.Addr
		floating        []netip.Addr
		held            bool
		want            []string
		reason          plan.Reason
	}{
		"an address of another program stays":      {have: addresses(70)},
		"one of another program counts":            {count: 1, have: addresses(70)},
		"one is missing":                           {count: 2, have: addresses(70), want: []string{"1 more IPv4 address"}},
		"one that multieni requested goes":         {count: 1, have: addresses(5, 6), requested: addresses(5, 6), want: []string{"1 fewer IPv4 address"}},
		"but not while pods may use the interface": {count: 1, have: addresses(5, 6), requested: addresses(5, 6), held: true, reason: plan.AddressesInUse},
		"no record of the request":                 {count: 1, have: addresses(5, 6), reason: plan.AddressesKept},
		"floating ones do not count":               {count: 1, have: addresses(200), floating: addresses(200), want: []string{"1 more IPv4 address"}},
		"floating ones are no surplus":             {count: 1, have: addresses(5, 200), requested: addresses(5, 200), floating: addresses(200)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, r := attached()
			r.SecondaryIPv4, i.Settings.SecondaryIPv4 = tc.have, tc.count
			i.Requested.SecondaryIPv4, i.Floating, i.Held = tc.requested, tc.floating, tc.held
			p := plan.Compute([]plan.Interface{i}, facts(r), start)
			if diff := cmp.Diff(tc.want, texts(p)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := p.Interfaces[0].Problem.Reason; got != tc.reason {
				t.Errorf("the reason is %q, want %q", got, tc.reason)
			}
		})
	}
}

// TestAnswersOfThisProcessCountAsRequested: the object may not have them yet.
func TestAnswersOfThisProcessCountAsRequested(t *testing.T) {
	t.Parallel()
	i, r := attached()
	r.SecondaryIPv4, r.Requested.SecondaryIPv4 = addresses(5, 6, 7), addresses(6, 9)
	i.Requested.SecondaryIPv4 = addresses(5, 8)
	i.Settings.SecondaryIPv4 = 3
	got := plan.Compute([]plan.Interface{i}, facts(r), start).Interfaces[0].Requested.SecondaryIPv4
	if diff := cmp.Diff(addresses(5, 6), got, exact); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAddressesByANumberWaitForASettledReading: a late call would assign more than the interface needs.
func TestAddressesByANumberWaitForASettledReading(t *testing.T) {
	t.Parallel()
	lost := plan.Change{Key: object(plan.Serve, 0, 1, "").Key, InterfaceID: "eni-1", To: plan.AssignAddresses{Family: plan.IPv4, Addresses: 1}}
	for name, tc := range map[string]struct {
		change func(*plan.Facts)
		until  time.Time
	}{
		"the process leads for long": {func(*plan.Facts) {}, time.Time{}},
		"it got the lease just now":  {func(f *plan.Facts) { f.Era.Since = start }, start.Add(inventory.StaleReadWindow)},
		"its own call has no answer": {func(f *plan.Facts) { f.Attempts = refusals(lost, eni.Transient, 1, start.Add(-40*time.Second)) }, start.Add(inventory.StaleReadWindow - 40*time.Second)},
		"its own call was refused":   {func(f *plan.Facts) { f.Attempts = refusals(lost, eni.Throttled, 1, start.Add(-40*time.Second)) }, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, r := attached()
			i.Settings.SecondaryIPv4 = 1
			f := facts(r)
			tc.change(&f)
			p := plan.Compute([]plan.Interface{i}, f, start)
			if waits := !tc.until.IsZero(); waits == (len(p.Calls) > 0) || waits && !p.Next.Equal(tc.until) {
				t.Errorf("%v until %s, want until %s", p.Calls, p.Next, tc.until)
			}
		})
	}
}

// TestPrefixesGrowAndAreGranted: EC2's answer or a settled reading makes a prefix usable, and nothing is unassigned.
func TestPrefixesGrowAndAreGranted(t *testing.T) {
	t.Parallel()
	newLeader := func(f *plan.Facts) { f.Era.Since = start }
	unassigning := func(f *plan.Facts) { f.Attempts = unansweredUnassign(start.Add(-time.Second)) }
	for name, tc := range map[string]struct {
		demand   plan.PrefixDemand
		have     []netip.Prefix
		answered []netip.Prefix
		change   func(*plan.Facts)
		goal     plan.Goal
		held     bool
		calls    []string
		granted  []netip.Prefix
		reason   plan.Reason
	}{
		"the minimum":                                {demand: plan.PrefixDemand{Pods: true, Max: 4}, goal: plan.Serve, calls: []string{"1 more IPv4 prefix"}},
		"what the agent asks for":                    {demand: plan.PrefixDemand{Pods: true, Max: 4, Wanted: 3}, have: blocks(1), goal: plan.Serve, calls: []string{"2 more IPv4 prefixes"}, granted: blocks(1)},
		"up to the maximum":                          {demand: plan.PrefixDemand{Pods: true, Max: 2, Wanted: 9}, have: blocks(1), goal: plan.Serve, calls: []string{"1 more IPv4 prefix"}, granted: blocks(1)},
		"up to the type's limit":                     {demand: plan.PrefixDemand{Pods: true, Max: 40, Wanted: 40}, have: blocks(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14), goal: plan.Serve, granted: blocks(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14), reason: plan.PrefixesLimited},
		"fewer are wanted":                           {demand: plan.PrefixDemand{Pods: true, Max: 4, Wanted: 1, Granted: blocks(1, 2)}, have: blocks(1, 2), answered: blocks(1, 2), goal: plan.Serve, granted: blocks(1, 2)},
		"a new leader grants what the object grants": {demand: plan.PrefixDemand{Pods: true, Max: 4, Granted: blocks(1)}, have: blocks(1, 2), goal: plan.Serve, change: newLeader, granted: blocks(1)},
		"and what EC2 answered to it":                {demand: plan.PrefixDemand{Pods: true, Max: 4}, have: blocks(1, 2), answered: blocks(2), goal: plan.Serve, change: newLeader, granted: blocks(2)},
		"nothing is granted while it goes":           {demand: plan.PrefixDemand{Pods: true, Max: 4, Granted: blocks(1)}, have: blocks(1, 2), goal: plan.Release, held: true, granted: blocks(1)},
		"one that is lost is granted no more":        {demand: plan.PrefixDemand{Pods: true, Max: 4, Granted: blocks(1, 2)}, have: blocks(1), goal: plan.Serve, granted: blocks(1)},
		"a reading that may be late takes none":      {demand: plan.PrefixDemand{Pods: true, Max: 4, Granted: blocks(1, 2)}, have: blocks(1), goal: plan.Serve, change: newLeader, granted: blocks(1, 2)},
		"no network for pods any more":               {demand: plan.PrefixDemand{Granted: blocks(1)}, have: blocks(1), answered: blocks(1), goal: plan.Serve},
		"and pods still use it":                      {demand: plan.PrefixDemand{Granted: blocks(1)}, have: blocks(1), answered: blocks(1), goal: plan.Serve, held: true, granted: blocks(1), reason: plan.AddressesInUse},
		"the maximum is lowered":                     {demand: plan.PrefixDemand{Pods: true, Max: 1, Granted: blocks(1, 2)}, have: blocks(1, 2), answered: blocks(1, 2), goal: plan.Serve, granted: blocks(1, 2), reason: plan.AddressesInUse},
		"EC2 may be unassigning what it answered":    {demand: plan.PrefixDemand{Pods: true, Max: 4}, have: blocks(1), answered: blocks(1), goal: plan.Serve, change: unassigning},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, r := attached()
			i.Goal, i.Held, i.Prefixes = tc.goal, tc.held, tc.demand
			if tc.demand.Pods {
				i.Settings.IPv4Prefixes = 1
			}
			r.IPv4Prefixes, r.Requested.IPv4Prefixes = tc.have, tc.answered
			f := facts(r)
			if tc.change != nil {
				tc.change(&f)
			}
			p := plan.Compute([]plan.Interface{i}, f, start)
			if tc.goal == plan.Serve {
				if diff := cmp.Diff(tc.calls, texts(p)); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
				if got := p.Interfaces[0].Problem.Reason; got != tc.reason {
					t.Errorf("the reason is %q, want %q", got, tc.reason)
				}
			}
			if diff := cmp.Diff(tc.granted, p.Interfaces[0].Granted, exact, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("granted (-want +got):\n%s", diff)
			}
		})
	}
}

// unansweredUnassign has a call without an answer that unassigns a prefix of the first interface.
func unansweredUnassign(at time.Time) map[identity.UID]plan.Attempts {
	i, _ := attached()
	call := plan.Change{Key: i.Key, InterfaceID: i.ENIID, To: plan.UnassignAddresses{Family: plan.IPv4, Surplus: eni.Addresses{IPv4Prefixes: blocks(1)}}}
	return plan.Record(nil, call, &eni.APIError{Class: eni.Transient}, at)
}

// TestAPrefixIsGrantedOnceItCertainlyStays plans again after a call that unassigns it had no answer, and no agent asks.
func TestAPrefixIsGrantedOnceItCertainlyStays(t *testing.T) {
	t.Parallel()
	i, r := attached()
	i.Prefixes, i.Settings.IPv4Prefixes = plan.PrefixDemand{Pods: true, Max: 4}, 1
	r.IPv4Prefixes, r.Requested.IPv4Prefixes = blocks(1), blocks(1)
	f := facts(r)
	f.Attempts = unansweredUnassign(start)
	settled := start.Add(inventory.StaleReadWindow)
	if p := plan.Compute([]plan.Interface{i}, f, start); !p.Next.Equal(settled) || len(p.Interfaces[0].Granted) > 0 {
		t.Errorf("granted %v, next plan at %v, want %v", p.Interfaces[0].Granted, p.Next, settled)
	}
	f.Snapshot = nil
	if p := plan.Compute([]plan.Interface{i}, f, settled); !p.NeedsRead {
		t.Error("no read follows")
	}
	r.LastRead = settled
	f = facts(r)
	f.Attempts, f.Snapshot.At = unansweredUnassign(start), settled
	if p := plan.Compute([]plan.Interface{i}, f, settled); !cmp.Equal(p.Interfaces[0].Granted, blocks(1), exact) {
		t.Errorf("granted %v after a read that shows the prefix", p.Interfaces[0].Granted)
	}
}

// TestARefusedUpdateDelaysNoOther has EC2 refuse the security groups of an interface, and accept its description.
func TestARefusedUpdateDelaysNoOther(t *testing.T) {
	t.Parallel()
	i, r := attached()
	i.Settings.Groups, i.Settings.Description = []string{"sg-refused"}, "n6"
	both := plan.Compute([]plan.Interface{i}, facts(r), start).Calls
	refused := refusals(both[1], eni.Invalid, 1, start)
	for name, tc := range map[string]struct {
		attempts map[identity.UID]plan.Attempts
		want     int
	}{
		"after the refusal":                      {refused, 1},
		"after EC2 accepted the description":     {plan.Record(refused, both[0], nil, start), 1},
		"after EC2 accepted the security groups": {plan.Record(refused, both[1], nil, start), 2},
	} {
		f := facts(r)
		f.Attempts = tc.attempts
		if p := plan.Compute([]plan.Interface{i}, f, start); len(p.Calls) != tc.want {
			t.Errorf("%s: %v, want %d calls", name, p.Calls, tc.want)
		}
	}
}

// TestAnUnattachedInterfaceWaitsForARefusedUpdate: it must not serve with other groups. It serves without a prefix for
// which its subnet has no block.
func TestAnUnattachedInterfaceWaitsForARefusedUpdate(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		class eni.Class
		edit  func(*eni.Settings)
		want  int
	}{
		"security groups": {eni.Invalid, func(s *eni.Settings) { s.Groups = []string{"sg-refused"} }, 0},
		"a prefix":        {eni.NoPrefixes, func(s *eni.Settings) { s.IPv4Prefixes = 1 }, 1},
	} {
		i := object(plan.Serve, 0, 1, "eni-1")
		r := unattached("eni-1", i)
		tc.edit(&i.Settings)
		f := facts(r)
		f.Attempts = refusals(plan.Compute([]plan.Interface{i}, f, start).Calls[0], tc.class, 1, start)
		if p := plan.Compute([]plan.Interface{i}, f, start); len(p.Calls) != tc.want {
			t.Errorf("%s: %v", name, p.Calls)
		}
	}
}

// TestAnUpdateWithoutAnAnswerIsRepeatedAfterAReading: EC2 may have made it.
func TestAnUpdateWithoutAnAnswerIsRepeatedAfterAReading(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		class eni.Class
		read  time.Duration
		want  int
	}{"no answer, and the read was before it": {eni.Transient, -time.Second, 0}, "no answer, and the read is later": {eni.Transient, time.Second, 1}, "throttled": {eni.Throttled, -time.Second, 1}} {
		i, r := attached()
		i.Settings.Description = "n6"
		f := facts(r)
		failed := start.Add(-time.Minute)
		f.Attempts = refusals(plan.Compute([]plan.Interface{i}, f, start).Calls[0], tc.class, 1, failed)
		f.Interfaces[0].LastRead = failed.Add(tc.read)
		if p := plan.Compute([]plan.Interface{i}, f, start); len(p.Calls) != tc.want {
			t.Errorf("%s: %v", name, p.Calls)
		}
	}
}

func TestARepeatedChangeWaitsEverLonger(t *testing.T) {
	t.Parallel()
	var r plan.RepeatedUpdate
	var waits []time.Duration
	now := start
	for range 9 {
		r = r.Next(plan.Description("d"), now)
		waits = append(waits, r.Due().Sub(now))
		now = r.Due().Add(time.Minute)
	}
	m := time.Minute
	if want := []time.Duration{0, 2 * m, 4 * m, 8 * m, 16 * m, 32 * m, 60 * m, 60 * m, 60 * m}; !slices.Equal(waits, want) {
		t.Errorf("the waits are %v, want %v", waits, want)
	}
	for name, tc := range map[string]struct {
		to    plan.Attribute
		after time.Duration
		count int
	}{"the same": {plan.Description("d"), time.Hour, 10}, "another value": {plan.Description("e"), time.Hour, 1}, "the same after it lasted": {plan.Description("d"), 3 * time.Hour, 1}} {
		if got := r.Next(tc.to, r.At.Add(tc.after)).Count; got != tc.count {
			t.Errorf("%s: the count is %d, want %d", name, got, tc.count)
		}
	}
}

// TestAnOpponentCostsFewCallsPerHour has another program revert an attribute as soon as it is as declared. The object is
// not ready then, and says so.
func TestAnOpponentCostsFewCallsPerHour(t *testing.T) {
	t.Parallel()
	spoil := map[string]func(*eni.Interface){
		"description":         func(i *eni.Interface) { i.Description = "theirs" },
		"sourceDestCheck":     func(i *eni.Interface) { i.SourceDestCheck = false },
		"deleteOnTermination": func(i *eni.Interface) { i.Attachment.DeleteOnTermination = true },
		"security groups":     func(i *eni.Interface) { i.Groups = []string{"sg-theirs"} },
		"tags":                func(i *eni.Interface) { delete(i.Tags, identity.TagNoManage) },
	}
	rapid.Check(t, func(rt *rapid.T) {
		field := rapid.SampledFrom(slices.Sorted(maps.Keys(spoil))).Draw(rt, "field")
		pause := time.Duration(rapid.IntRange(20, 400).Draw(rt, "seconds between plans")) * time.Second
		i, r := attached()
		var attempts map[identity.UID]plan.Attempts
		calls := 0
		var said plan.State
		for now := start; now.Before(start.Add(4 * time.Hour)); now = now.Add(pause) {
			spoilt := r
			spoilt.Interface = r.Clone()
			spoil[field](&spoilt.Interface)
			spoilt.LastRead = now
			f := facts(spoilt)
			f.Snapshot.At, f.Attempts = now, attempts
			p := plan.Compute([]plan.Interface{i}, f, now)
			said = p.Interfaces[0]
			for _, call := range p.Calls {
				attempts = plan.Record(attempts, call, nil, now)
				calls++
			}
		}
		if calls < 4 || calls > 12 {
			rt.Errorf("%d calls in four hours, want 4 to 12", calls)
		}
		if said.Problem.Reason != plan.Reverted || said.Ready() || !strings.HasPrefix(said.Problem.Message, "the "+field+" of eni-1") {
			rt.Errorf("the object says %v", said.Problem)
		}
	})
}

// TestAReadingDecidesWhetherARepeatedChangeLasts: before one that is late enough the plan has no reason, and without one
// it asks for it.
func TestAReadingDecidesWhetherARepeatedChangeLasts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		after  time.Duration
		shown  string
		read   bool
		reason plan.Reason
		needs  bool
	}{
		"it is too early to tell":       {time.Second, "theirs", true, "", false},
		"nothing is known since":        {inventory.StaleReadWindow, "theirs", false, "", true},
		"a late reading shows theirs":   {inventory.StaleReadWindow, "theirs", true, plan.Reverted, false},
		"a late reading shows the own":  {inventory.StaleReadWindow, "d", true, "", false},
		"the wait is over, and theirs":  {2 * time.Minute, "theirs", true, plan.Reverted, false},
		"it is long ago, and is theirs": {3 * time.Hour, "theirs", true, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, r := attached()
			r.Description = tc.shown
			f, now := facts(r), start.Add(tc.after)
			f.Attempts = map[identity.UID]plan.Attempts{i.Key.UID: {Accepted: map[string]plan.RepeatedUpdate{
				"description": {To: plan.Description("d"), At: start, Count: 2}}}}
			f.Snapshot.At, f.Interfaces[0].LastRead = now, now
			if !tc.read {
				f.Snapshot, f.Interfaces[0].LastRead = nil, start
			}
			p := plan.Compute([]plan.Interface{i}, f, now)
			if got := p.Interfaces[0].Problem.Reason; got != tc.reason || p.NeedsRead != tc.needs {
				t.Errorf("the reason is %q and a read is needed: %t; want %q and %t", got, p.NeedsRead, tc.reason, tc.needs)
			}
		})
	}
}

// TestSecurityGroupsThatAreUnknownStay: the interface keeps those that it has, and says so.
func TestSecurityGroupsThatAreUnknownStay(t *testing.T) {
	t.Parallel()
	i, r := attached()
	i.Settings.Groups, i.Problem = nil, &plan.Problem{Reason: plan.SecurityGroupNotFound, Message: "there is no group n3"}
	if got := words(plan.Compute([]plan.Interface{i}, facts(r), start)); got != "Attached SecurityGroupNotFound" {
		t.Error(got)
	}
}

// TestRepairs updates a launch interface as its AWSNodeTemplate declares, unless an object has taken it over.
func TestRepairs(t *testing.T) {
	t.Parallel()
	description := "repaired"
	repair := plan.InPlaceUpdate{InterfaceID: "eni-1", Owner: "workers", OwnerUID: "uid-t", Description: &description, Tags: map[string]string{"team": "ran"}}
	i, r := attached()
	r.Tagged, r.Tags = identity.Interface{}, map[string]string{}
	f := facts()
	f.Launched, f.Repairs = []inventory.Record{r}, []plan.InPlaceUpdate{repair}
	p := plan.Compute(nil, f, start)
	if diff := cmp.Diff([]string{`description "repaired"`, "tags team"}, texts(p)); diff != "" || len(p.Interfaces) > 0 {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if of := p.Calls[0].Of(); of.NodeENI != "workers" || of.UID == "" {
		t.Errorf("the call is for %+v", of)
	}
	f.Attempts = refusals(p.Calls[0], eni.Invalid, 1, start)
	if again := plan.Compute(nil, f, start); len(again.Calls) != 1 {
		t.Errorf("after a refusal: %v", again.Calls)
	}
	i.Launched, i.Settings.Description = true, "declared"
	if p := plan.Compute([]plan.Interface{i}, f, start); !slices.Equal(texts(p), []string{`description "declared"`}) {
		t.Errorf("taken over: %v", p.Calls)
	}
}
