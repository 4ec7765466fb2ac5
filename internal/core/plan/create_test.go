// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
)

// refusals returns the attempts after EC2 refused a call a number of times with a class, the last time at the given one.
func refusals(call plan.Call, class eni.Class, count int, at time.Time) map[identity.UID]plan.Attempts {
	var all map[identity.UID]plan.Attempts
	for range count {
		all = plan.Record(all, call, &eni.APIError{Class: class, Operation: "the call"}, at)
	}
	return all
}

// TestFailuresOfACreationAreWaitedOut: after a full subnet the next one is tried at once, and after the last one the
// first again when the wait is over.
func TestFailuresOfACreationAreWaitedOut(t *testing.T) {
	t.Parallel()
	in := func(subnet string) string { return "create an interface in " + subnet + " for card 0 device 1" }
	for name, tc := range map[string]struct {
		class   eni.Class
		count   int
		ago     time.Duration
		subnets []string
		full    []string
		want    string
	}{
		"throttled":                            {eni.Throttled, 1, 0, []string{"s1"}, nil, "Pending Throttled"},
		"subnet full":                          {eni.NoAddresses, 1, 0, []string{"s1"}, nil, "Blocked SubnetFull"},
		"next candidate subnet":                {eni.NoAddresses, 1, 0, []string{"s1", "s2"}, nil, in("s2")},
		"next one known as full":               {eni.NoAddresses, 1, 0, []string{"s1", "s2"}, []string{"s2", "s1"}, "Blocked SubnetFull"},
		"first one known as full":              {eni.NoAddresses, 0, 0, []string{"s1", "s2"}, []string{"s1"}, in("s2")},
		"all candidates full":                  {eni.NoAddresses, 2, 0, []string{"s1", "s2"}, nil, "Blocked SubnetFull"},
		"no prefix":                            {eni.NoPrefixes, 1, 0, []string{"s1"}, nil, "Blocked NoFreePrefix"},
		"not allowed":                          {eni.Unauthorized, 1, 0, []string{"s1"}, nil, "Blocked Unauthorized"},
		"long enough ago":                      {eni.Unauthorized, 1, time.Hour, []string{"s1"}, nil, in("s1")},
		"token refused":                        {eni.IdempotencyMismatch, 1, inventory.VisibilityWindow - time.Second, []string{"s1"}, nil, "Pending NotVisible"},
		"token refused, and EC2 would show it": {eni.IdempotencyMismatch, 1, inventory.VisibilityWindow, []string{"s1"}, nil, "Pending Retrying, spent"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, f := object(plan.Serve, 0, 1, ""), facts()
			i.Settings.Subnets = tc.subnets
			if tc.class == eni.NoPrefixes {
				i.Settings.IPv4Prefixes = 1
			}
			call := plan.Create{Key: i.Key, SubnetID: "s1", Spec: i.Settings.Spec}
			f.Attempts = refusals(call, tc.class, tc.count, start.Add(-tc.ago))
			f.FullSubnets = map[plan.SubnetDemand]plan.FullSubnet{}
			for _, id := range tc.full {
				f.FullSubnets[plan.DemandOf("a", id, i.Settings.Spec)] = plan.FullSubnet{Until: start.Add(time.Minute), Class: tc.class}
			}
			p := plan.Compute([]plan.Interface{i}, f, start)
			if got := words(p); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
			if len(p.Calls) == 0 && len(p.Spent) == 0 && !p.Next.After(start) {
				t.Errorf("the next plan is at %s", p.Next)
			}
		})
	}
}

// TestACorrectionIsTriedAtOnce has EC2 refuse a call until a person acts.
func TestACorrectionIsTriedAtOnce(t *testing.T) {
	t.Parallel()
	groups := func(ids ...string) func(*plan.Interface) { return func(i *plan.Interface) { i.Settings.Groups = ids } }
	for name, tc := range map[string]struct {
		exists bool
		class  eni.Class
		edit   func(*plan.Interface)
		acts   bool
	}{
		"a create, and no edit":            {class: eni.Invalid, edit: groups("sg-refused")},
		"a create, other groups":           {class: eni.Invalid, edit: groups("sg-2"), acts: true},
		"a create, other addresses":        {class: eni.LimitExceeded, edit: func(i *plan.Interface) { i.Settings.SecondaryIPv4 = 1 }, acts: true},
		"a create, another subnet":         {class: eni.Unauthorized, edit: func(i *plan.Interface) { i.Settings.Subnets = []string{"s2"} }, acts: true},
		"a create, one more subnet":        {class: eni.Unauthorized, edit: func(i *plan.Interface) { i.Settings.Subnets = []string{"s1", "s2"} }},
		"a throttled create, other groups": {class: eni.Throttled, edit: groups("sg-2")},
		"a change, and no edit":            {exists: true, class: eni.Invalid, edit: groups("sg-refused")},
		"a change, other groups":           {exists: true, class: eni.Invalid, edit: groups("sg-2"), acts: true},
		"a change, another description":    {exists: true, class: eni.Invalid, edit: func(i *plan.Interface) { i.Settings.Description = "n6" }, acts: true},
		"a throttled change, and no edit":  {exists: true, class: eni.Throttled, edit: groups("sg-refused")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, f := object(plan.Serve, 0, 1, ""), facts()
			if tc.exists {
				f = facts(on(instance, "eni-1", 1, i))
				i.ENIID = "eni-1"
			}
			i.Settings.Groups = []string{"sg-refused"}
			first := plan.Compute([]plan.Interface{i}, f, start).Calls[0]
			f.Attempts = refusals(first, tc.class, 1, start)
			tc.edit(&i)
			if p := plan.Compute([]plan.Interface{i}, f, start); len(p.Calls) > 0 != tc.acts {
				t.Errorf("it acts %t, want %t after %s was refused: %s", len(p.Calls) > 0, tc.acts, first, words(p))
			}
		})
	}
}

// placedAt returns the slot of each object, or the reason without one.
func placedAt(p plan.Plan) []string {
	var all []string
	for _, s := range p.Interfaces {
		if s.Phase == plan.Blocked || s.Problem.Reason != "" {
			all = append(all, string(s.Problem.Reason))
			continue
		}
		all = append(all, s.Slot.String())
	}
	return all
}

// TestSlots places objects on an instance with its primary interface and others.
func TestSlots(t *testing.T) {
	t.Parallel()
	at := func(n int) string { return device(n).String() }
	prefer := func(ordinal, index int) plan.Interface { return object(plan.Serve, ordinal, index, "") }
	exactly := func(ordinal, index int) plan.Interface {
		i := prefer(ordinal, index)
		i.Settings.ExactSlot = true
		return i
	}
	onCard := func(ordinal, card int) plan.Interface {
		i := prefer(ordinal, 1)
		i.Settings.Slot.Card = card
		return i
	}
	for name, tc := range map[string]struct {
		limits  eni.Limits
		foreign []int
		want    []plan.Interface
		placed  []string
	}{
		"as requested": {limits(4), nil, []plan.Interface{prefer(0, 2)}, []string{at(2)}},
		"a preferred index that is taken moves up": {limits(4), []int{1}, []plan.Interface{prefer(0, 1)}, []string{at(2)}},
		"or down":                             {limits(3), []int{2}, []plan.Interface{prefer(0, 2)}, []string{at(1)}},
		"an exact index that is taken blocks": {limits(4), []int{1}, []plan.Interface{exactly(0, 1)}, []string{"SlotTaken"}},
		"an exact one is placed before a preferring one": {limits(4), nil, []plan.Interface{prefer(0, 1), exactly(1, 1)}, []string{at(2), at(1)}},
		"a full instance":                      {limits(3), []int{1}, []plan.Interface{prefer(0, 2), prefer(1, 3)}, []string{at(2), "InstanceFull"}},
		"an index that the card does not have": {limits(4), nil, []plan.Interface{exactly(0, 4)}, []string{"NoSuchDeviceIndex"}},
		"a card that the type does not have":   {limits(4), nil, []plan.Interface{onCard(0, 1)}, []string{"NoSuchNetworkCard"}},
		"cards have slots of their own":        {eni.Limits{Cards: []int{2, 2}, Interfaces: 4, IPv4: 10}, []int{1}, []plan.Interface{prefer(0, 1), onCard(1, 1)}, []string{"InstanceFull", "card 1 device 1"}},
		"any, if the limits are not known":     {eni.Limits{}, nil, []plan.Interface{prefer(0, 9)}, []string{at(9)}},
		"more than may be unattached": {limits(8), nil, []plan.Interface{prefer(0, 1), prefer(1, 2), prefer(2, 3), prefer(3, 4)},
			[]string{at(1), at(2), at(3), "InProgress"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := facts()
			f.Limits = tc.limits
			for _, n := range append([]int{0}, tc.foreign...) {
				f.Snapshot.Interfaces = append(f.Snapshot.Interfaces, eni.Interface{ID: "eni-foreign", Status: eni.InUse,
					Attachment: &eni.Attachment{InstanceID: instance, Slot: device(n), Status: eni.AttachmentAttached}})
			}
			if diff := cmp.Diff(tc.placed, placedAt(plan.Compute(tc.want, f, start))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestASlotThatIsBeingFreedIsWaitedFor: the object of another NodeENI takes it, unless EC2 refuses to free it.
func TestASlotThatIsBeingFreedIsWaitedFor(t *testing.T) {
	t.Parallel()
	leaving, next := object(plan.Release, 0, 1, "eni-1"), object(plan.Serve, 1, 1, "")
	for name, tc := range map[string]struct {
		class eni.Class
		count int
		want  string
	}{"not refused": {"", 0, "InProgress"}, "refused for now": {eni.Throttled, 1, "InProgress"}, "refused for good": {eni.Unauthorized, 1, device(2).String()}, "refused too often": {eni.Throttled, 5, device(2).String()}} {
		f := facts(on(instance, "eni-1", 1, leaving))
		f.Attempts = refusals(plan.Detach{Key: leaving.Key}, tc.class, tc.count, start)
		if got := placedAt(plan.Compute([]plan.Interface{leaving, next}, f, start))[1]; got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// TestASlotThatOnlyEC2CallsTakenIsNotTriedForEver: the next index is tried, and later the first again.
func TestASlotThatOnlyEC2CallsTakenIsNotTriedForEver(t *testing.T) {
	t.Parallel()
	refused := func(count int, indexes ...int) map[identity.UID]plan.Attempts {
		var all map[identity.UID]plan.Attempts
		i := object(plan.Serve, 0, 1, "eni-1")
		for _, n := range slices.Concat(slices.Repeat([][]int{indexes}, count)...) {
			all = plan.Record(all, plan.Attach{Key: i.Key, InterfaceID: "eni-1", Slot: device(n)}, &eni.APIError{Class: eni.SlotTaken}, start.Add(-time.Minute))
		}
		return all
	}
	for name, tc := range map[string]struct {
		exact    bool
		attempts map[identity.UID]plan.Attempts
		after    time.Duration
		want     string
	}{
		"Prefer takes the next index":     {false, refused(1, 1), 2 * time.Second, device(2).String()},
		"Prefer remembers every refusal":  {false, refused(1, 1, 2), 2 * time.Second, device(3).String()},
		"Prefer runs out of indexes":      {false, refused(1, 1, 2, 3), 2 * time.Second, "InstanceFull"},
		"Exact is blocked":                {true, refused(1, 1), 2 * time.Second, "SlotTaken"},
		"Exact tries again":               {true, refused(1, 1), 6 * time.Minute, device(1).String()},
		"Exact waits longer each time":    {true, refused(2, 1), 6 * time.Minute, "SlotTaken"},
		"Exact never waits for very long": {true, refused(9, 1), 30 * time.Minute, device(1).String()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := object(plan.Serve, 0, 1, "eni-1")
			i.Settings.ExactSlot = tc.exact
			f := facts(unattached("eni-1", i))
			now := start.Add(tc.after)
			f.Limits, f.Attempts, f.Snapshot.At = limits(4), tc.attempts, now
			f.Snapshot.Interfaces = append(f.Snapshot.Interfaces, eni.Interface{ID: "eni-0", Attachment: &eni.Attachment{InstanceID: instance, Status: eni.AttachmentAttached}})
			if got := placedAt(plan.Compute([]plan.Interface{i}, f, now))[0]; got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// TestCallsUnderWayAreExpected: what they will lead to counts for slots and for the unattached, and nothing is called for
// an object with a call under way.
func TestCallsUnderWayAreExpected(t *testing.T) {
	t.Parallel()
	made, next := object(plan.Serve, 0, 1, "eni-1"), object(plan.Serve, 1, 1, "")
	f := facts(unattached("eni-1", made))
	f.InFlight = []plan.Call{plan.Attach{Key: made.Key, InterfaceID: "eni-1", Slot: device(1)}}
	p := plan.Compute([]plan.Interface{made, next}, f, start)
	if diff := cmp.Diff([]string{"create an interface in s1 for card 0 device 2"}, strings.Split(words(p), ", ")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f.InFlight = []plan.Call{plan.Create{Key: next.Key, Slot: device(1)}}
	if p := plan.Compute([]plan.Interface{made, next}, f, start); p.Interfaces[0].Slot != device(2) || p.Interfaces[1].Phase != plan.Creating || len(p.Calls) != 1 {
		t.Errorf("%+v", p)
	}
}

// TestInterfacesThatEC2MakesAreUnattached: calls without an answer count for the limit.
func TestInterfacesThatEC2MakesAreUnattached(t *testing.T) {
	t.Parallel()
	var all []plan.Interface
	f := facts()
	for n := range plan.MaxUnattached {
		i := object(plan.Serve, n, 1+n, "")
		all, f.InFlight = append(all, i), append(f.InFlight, plan.Create{Key: i.Key, Slot: device(1 + n)})
	}
	p := plan.Compute(append(all, object(plan.Serve, 9, 5, "")), f, start)
	if s := p.Interfaces[len(all)]; s.Phase == plan.Creating || s.Problem.Reason != plan.InProgress {
		t.Errorf("the next one is %s, %+v", s.Phase, s.Problem)
	}
}

// TestInterfacesWithoutARecordAreUnattached: an object that is about to take over one counts as well.
func TestInterfacesWithoutARecordAreUnattached(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(ordinal int) plan.Interface{
		"their tokens are repeated":           func(n int) plan.Interface { return object(plan.Serve, n, 1+n, "") },
		"they are being deleted, and awaited": func(n int) plan.Interface { return object(plan.Release, n, 1+n, "") },
	} {
		var all []plan.Interface
		var records []inventory.Record
		for n := range plan.MaxUnattached {
			i := of(n)
			i.Since = start.Add(-time.Hour)
			all, records = append(all, i), append(records, unattached(fmt.Sprintf("eni-%d", n), i))
		}
		f := facts(records...)
		if name != "their tokens are repeated" {
			f.Era.Since = start
		}
		p := plan.Compute(append(all, object(plan.Serve, 9, 5, "")), f, start)
		if s := p.Interfaces[len(all)]; s.Phase == plan.Creating || s.Problem.Reason != plan.InProgress {
			t.Errorf("%s: the next one is %s, %+v", name, s.Phase, s.Problem)
		}
	}
}

// TestManyUnattachedAreNotPolled: pods may use the interfaces that others wait for, for as long as they like.
func TestManyUnattachedAreNotPolled(t *testing.T) {
	t.Parallel()
	var all []plan.Interface
	var records []inventory.Record
	for n := range plan.MaxUnattached {
		i := object(plan.Release, n, 1+n, fmt.Sprintf("eni-%d", n))
		i.Held = true
		all, records = append(all, i), append(records, unattached(i.ENIID, i))
	}
	p := plan.Compute(append(all, object(plan.Serve, 9, 5, "")), facts(records...), start)
	if wait := p.Next.Sub(start); len(p.Calls) > 0 || wait < 5*time.Minute {
		t.Errorf("calls %v, and the next plan after %s, want none, and after five minutes", p.Calls, wait)
	}
}

// TestOnlyInstancesOfTheClusterGetInterfaces, and those that have some keep them.
func TestOnlyInstancesOfTheClusterGetInterfaces(t *testing.T) {
	t.Parallel()
	known := []eni.InstanceTag{{Key: "kubernetes.io/cluster/blue", AnyValue: true}, {Key: "eks:cluster-name", Value: "blue"}}
	for name, tc := range map[string]struct {
		tags    map[string]string
		refused bool
	}{
		"none":                             {nil, true},
		"another cluster's":                {map[string]string{"kubernetes.io/cluster/green": "owned", "eks:cluster-name": "green"}, true},
		"a key with any value":             {map[string]string{"kubernetes.io/cluster/blue": "shared"}, false},
		"a key with its value, as another": {map[string]string{"eks:cluster-name": "blue"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, f := object(plan.Serve, 0, 1, ""), facts()
			f.InstanceTags, f.Snapshot.Instance.Tags = known, tc.tags
			if got := words(plan.Compute([]plan.Interface{i}, f, start)) == "Blocked InstanceOutsideCluster"; got != tc.refused {
				t.Errorf("refused: %t, want %t", got, tc.refused)
			}
			i.ENIID = "eni-1"
			f.Interfaces = []inventory.Record{on(instance, "eni-1", 1, i)}
			if p := plan.Compute([]plan.Interface{i}, f, start); !p.Interfaces[0].Ready() {
				t.Errorf("an attached one is %+v", p.Interfaces[0])
			}
		})
	}
}

// TestWhatHoldsUpACreation names the reason of each.
func TestWhatHoldsUpACreation(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*plan.Interface, *plan.Facts)
		want   string
	}{
		"the spec":                 {func(i *plan.Interface, _ *plan.Facts) { i.Problem = &plan.Problem{Reason: plan.NoSubnetInZone} }, "Blocked NoSubnetInZone"},
		"the brake of the cluster": {func(_ *plan.Interface, f *plan.Facts) { f.CreationBlocked = "too many" }, "Blocked TooManyUnattached"},
		"the number of addresses":  {func(i *plan.Interface, _ *plan.Facts) { i.Settings.IPv4Prefixes = 15 }, "Blocked AddressLimit"},
		"the instance":             {func(_ *plan.Interface, f *plan.Facts) { f.Snapshot.Instance.State = eni.InstanceStopping }, "Pending InstanceNotReady"},
		"an instance without a Node": {func(i *plan.Interface, f *plan.Facts) {
			i.Registered, f.Snapshot.Instance.State = false, eni.InstancePending
		}, "Pending InstanceNotReady"},
		"nothing on an instance whose kubelet runs": {func(_ *plan.Interface, f *plan.Facts) { f.Snapshot.Instance.State = eni.InstancePending },
			"create an interface in s1 for card 0 device 1"},
		"an interface without an owner": {func(_ *plan.Interface, f *plan.Facts) {
			f.Snapshot.Interfaces = []eni.Interface{{ID: "eni-9", SubnetID: "s1", Tags: map[string]string{identity.TagNoManage: "true"},
				Attachment: &eni.Attachment{InstanceID: instance, Slot: device(1), Status: eni.AttachmentAttached}}}
		}, "Blocked NotImported"},
		"an unknown instance": {func(_ *plan.Interface, f *plan.Facts) {
			f.Snapshot.Instance.State, f.MissingSince = eni.InstanceMissing, start.Add(time.Second-plan.InstanceGrace)
		}, "Pending InstanceNotReady"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, f := object(plan.Serve, 0, 1, ""), facts()
			tc.change(&i, &f)
			if got := words(plan.Compute([]plan.Interface{i}, f, start)); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}
