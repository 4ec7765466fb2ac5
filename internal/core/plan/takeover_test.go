// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
)

// found says what a plan finds for an object: the interface and the evidence, then the calls or the reason.
func found(p plan.Plan) string {
	s := p.Interfaces[0]
	if s.Interface == nil {
		return words(p)
	}
	return fmt.Sprintf("%s by evidence %d: %s", s.Interface.ID, s.Evidence, words(p))
}

// TestTakingOver has an object without an interface, and an interface that may be its own.
func TestTakingOver(t *testing.T) {
	t.Parallel()
	const (
		create  = "create an interface in s1 for card 0 device 1"
		taken   = "eni-1 by evidence 2: Attached InProgress"
		waiting = "Pending InProgress"
	)
	of := object(plan.Serve, 0, 1, "")
	torn := func(change func(*identity.Interface)) inventory.Record {
		i := of
		i.Key.UID = "uid-before"
		if change != nil {
			change(&i.Key)
			i.Key.Name = identity.ObjectName(i.Key.NodeENI, i.Key.InstanceID, i.Key.Ordinal)
		}
		i.Tags = i.Key.Tags(i.Since, nil)
		return on(instance, "eni-1", 1, i)
	}
	network := func(name string) inventory.Record {
		return torn(func(k *identity.Interface) { k.NodeENI, k.UID = name, identity.NetworkUID(name, 0, start) })
	}
	young := func(_ *plan.Facts, i *plan.Interface) { i.Since = start.Add(-time.Hour) }
	newLeader := func(f *plan.Facts, _ *plan.Interface) {
		f.Era.Since = start.Add(time.Second - inventory.StaleReadWindow)
	}
	for name, tc := range map[string]struct {
		record inventory.Record
		change func(*plan.Facts, *plan.Interface)
		want   string
	}{
		"its own, in EC2's answer": {on(instance, "eni-1", 1, of), func(f *plan.Facts, _ *plan.Interface) { f.Interfaces[0].CreatedFor = of.Key.UID },
			"eni-1 by evidence 1: Attached"},
		"its own, whatever the tags say": {torn(func(k *identity.Interface) { k.Ordinal = 7 }), func(f *plan.Facts, _ *plan.Interface) { f.Interfaces[0].CreatedFor = of.Key.UID },
			"eni-1 by evidence 1: set tags Name,networking.k8s.aws/cluster,networking.k8s.aws/instance-id,networking.k8s.aws/interface,networking.k8s.aws/node,networking.k8s.aws/nodeeni,networking.k8s.aws/uid,node.k8s.amazonaws.com/no_manage of eni-1"},
		"its own, and EC2 remembers the token":   {on(instance, "eni-1", 1, of), young, create},
		"its own, and EC2 forgot the token":      {on(instance, "eni-1", 1, of), nil, taken},
		"its own, by a reading that may be late": {on(instance, "eni-1", 1, of), newLeader, waiting},
		"its own, and the token is refused": {on(instance, "eni-1", 1, of), func(f *plan.Facts, i *plan.Interface) {
			young(f, i)
			f.Attempts = plan.Record(nil, plan.Create{Key: i.Key}, &eni.APIError{Class: eni.IdempotencyMismatch}, start.Add(-time.Hour))
		}, taken},
		"its own, and the subnet is full by now": {on(instance, "eni-1", 1, of), func(f *plan.Facts, i *plan.Interface) {
			young(f, i)
			f.Attempts = plan.Record(nil, plan.Create{Key: i.Key}, &eni.APIError{Class: eni.NoAddresses}, start.Add(-time.Minute))
		}, taken},
		"its own, and the controller may not create by now": {on(instance, "eni-1", 1, of), func(f *plan.Facts, i *plan.Interface) {
			young(f, i)
			f.Attempts = plan.Record(nil, plan.Create{Key: i.Key}, &eni.APIError{Class: eni.Unauthorized}, start.Add(-time.Minute))
		}, taken},
		"its own, and the address is its own choice": {on(instance, "eni-1", 1, of), func(f *plan.Facts, i *plan.Interface) {
			young(f, i)
			i.Settings.LowestFree = true
		}, taken},
		"its own, on another instance, and EC2 remembers the token": {on(another, "eni-1", 1, of), young, create},
		"its own, on another instance, by its tags alone":           {on(another, "eni-1", 1, of), nil, create},
		"by its name":                            {torn(nil), nil, taken},
		"by its name, and a reading may be late": {torn(nil), newLeader, waiting},
		"by its name, and a call has no answer": {torn(nil), func(f *plan.Facts, _ *plan.Interface) {
			f.Attempts = plan.Record(nil, plan.Detach{Key: identity.Interface{UID: "uid-before"}}, &eni.APIError{Class: eni.Transient}, start.Add(-time.Second))
		}, waiting},
		"by its name, in another subnet":      {torn(nil), func(f *plan.Facts, _ *plan.Interface) { f.Interfaces[0].SubnetID = "s9" }, "create an interface in s1 for card 0 device 2"},
		"by its name, on another instance":    {withInstance(torn(nil), another), nil, create},
		"by another name":                     {torn(func(k *identity.Interface) { k.Ordinal = 7 }), nil, "create an interface in s1 for card 0 device 2"},
		"of the network of its name":          {network("a"), nil, taken},
		"of a network in its slot":            {network("n3"), nil, taken},
		"of a network in its slot, unsettled": {network("n3"), newLeader, waiting},
		"of a network in another slot":        {network("n3"), func(f *plan.Facts, i *plan.Interface) { i.Settings.Slot = device(3) }, "create an interface in s1 for card 0 device 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, f := of, facts(tc.record)
			if tc.change != nil {
				tc.change(&f, &i)
			}
			if diff := cmp.Diff(tc.want, found(plan.Compute([]plan.Interface{i}, f, start))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheSecondInterfaceOfANetwork has a network of two interfaces, and a NodeENI that asks for the slot of one. The
// object of the other one leaves it alone, unless it has no interface yet or another NodeENI declares it.
func TestTheSecondInterfaceOfANetwork(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(other *plan.Interface)
		taken  bool
	}{
		"the other object has its interface":     {func(*plan.Interface) {}, true},
		"the other object has no interface yet":  {func(other *plan.Interface) { other.ENIID = "" }, false},
		"another NodeENI declares the other one": {func(other *plan.Interface) { other.OfNetwork = false }, false},
		"the other object is of another network": {func(other *plan.Interface) { other.Key.NodeENI, other.ENIID = "n4", "" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other := object(plan.Keep, 0, 2, "eni-2")
			other.Key, other.OfNetwork = key("n3", 0, "uid-other"), true
			made := other
			made.Key = key("n3", 1, identity.NetworkUID("n3", 1, start))
			made.Tags = made.Key.Tags(start, nil)
			tc.change(&other)
			i := object(plan.Serve, 0, 1, "")
			p := plan.Compute([]plan.Interface{i, other}, facts(on(instance, "eni-1", 1, made), on(instance, "eni-2", 2, other)), start)
			if taken := p.Interfaces[0].Interface != nil; taken != tc.taken {
				t.Errorf("taken over: %t; %s", taken, words(p))
			}
		})
	}
}

// TestARepetitionHasTheSubnetOfTheFirstAttempt: with another one, EC2 would refuse the client token.
func TestARepetitionHasTheSubnetOfTheFirstAttempt(t *testing.T) {
	t.Parallel()
	i := object(plan.Serve, 0, 1, "")
	i.Settings.Subnets, i.Since = []string{"s2", "s1"}, start.Add(-time.Minute)
	p := plan.Compute([]plan.Interface{i}, facts(unattached("eni-1", i)), start)
	if create, is := p.Calls[0].(plan.Create); !is || create.SubnetID != "s1" {
		t.Errorf("%v", p.Calls)
	}
}

// TestALaunchInterfaceServesInItsSlot: it is recorded first.
func TestALaunchInterfaceServesInItsSlot(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		slot, want int
		subnet     string
	}{"its slot": {1, 1, "s1"}, "another slot": {2, 0, "s1"}, "another subnet": {1, 0, "s9"}, "the primary one": {0, 0, "s1"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := object(plan.Serve, 0, 1, "")
			r := on(instance, "eni-1", tc.slot, i)
			r.SubnetID, r.Tagged = tc.subnet, identity.Interface{}
			f := facts(r)
			f.Launched, f.Interfaces = f.Interfaces, nil
			p := plan.Compute([]plan.Interface{i}, f, start)
			if got := p.Interfaces[0].Evidence; (got == plan.Launched) != (tc.want == 1) || got == plan.Launched && len(p.Calls) > 0 {
				t.Errorf("evidence %d, calls %v", got, p.Calls)
			}
		})
	}
}

// TestAnInterfaceOfOneObjectIsThatOfNoOther: neither the ID that another object records, nor one interface for two.
func TestAnInterfaceOfOneObjectIsThatOfNoOther(t *testing.T) {
	t.Parallel()
	first, second := object(plan.Serve, 0, 1, "eni-1"), object(plan.Serve, 1, 1, "")
	r := on(instance, "eni-1", 1, second)
	r.Tagged.UID = "uid-before"
	if p := plan.Compute([]plan.Interface{first, second}, facts(r), start); p.Interfaces[1].Interface != nil {
		t.Errorf("the second object takes over what the first records: %+v", p.Interfaces[1])
	}
	first.ENIID = ""
	r.Tagged = identity.Interface{UID: identity.NetworkUID("n3", 0, start), NodeENI: "n3", InstanceID: instance}
	p := plan.Compute([]plan.Interface{first, second}, facts(r), start)
	if a, b := p.Interfaces[0], p.Interfaces[1]; a.Interface == nil || b.Interface != nil {
		t.Errorf("%+v and %+v", a, b)
	}
}

// TestADeletedObjectTakesOverBeforeItGoes: what was created for it, or under its name, is recorded and then removed.
func TestADeletedObjectTakesOverBeforeItGoes(t *testing.T) {
	t.Parallel()
	i := object(plan.Release, 0, 1, "")
	young := i
	young.Since = start.Add(-time.Hour)
	before := on(instance, "eni-1", 1, i)
	before.Tagged.UID, before.SubnetID = "uid-before", "s9"
	ended := func(f *plan.Facts) { f.Snapshot.Instance.State = eni.InstanceTerminated }
	answered := func(f *plan.Facts) { f.Interfaces[0].CreatedFor = i.Key.UID }
	refused := func(f *plan.Facts) {
		f.Attempts = plan.Record(nil, plan.Create{Key: i.Key}, &eni.APIError{Class: eni.IdempotencyMismatch}, start.Add(-time.Hour))
	}
	throttled := func(f *plan.Facts) {
		f.Attempts = plan.Record(nil, plan.Create{Key: i.Key}, &eni.APIError{Class: eni.Throttled}, start)
	}
	const taken = "eni-1 by evidence 2: Attached InProgress"
	for name, tc := range map[string]struct {
		i      plan.Interface
		r      inventory.Record
		change func(*plan.Facts)
		want   string
	}{
		"its own, and EC2 remembers the token":   {young, on(instance, "eni-1", 1, i), nil, "create an interface in s1 for card 0 device 1"},
		"its own, and EC2 answered":              {young, on(instance, "eni-1", 1, i), answered, "eni-1 by evidence 1: Attached InProgress"},
		"its own, and EC2 refuses to answer now": {young, on(instance, "eni-1", 1, i), throttled, "Pending Throttled"},
		"its own, and the token is refused":      {young, on(instance, "eni-1", 1, i), refused, taken},
		"its own, and the instance ended":        {young, on(instance, "eni-1", 1, i), ended, taken},
		"its own, and EC2 forgot the token":      {i, on(instance, "eni-1", 1, i), nil, taken},
		"its own by the tags, elsewhere":         {i, on(another, "eni-1", 1, i), nil, "Pending, gone"},
		"of its name":                            {i, before, nil, taken},
		"of its name by the tags, elsewhere":     {i, withInstance(before, another), nil, "Pending, gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := facts(tc.r)
			if tc.change != nil {
				tc.change(&f)
			}
			if got := found(plan.Compute([]plan.Interface{tc.i}, f, start)); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// TestAVanishedInterface: an object whose interface is certainly gone is spent, unless it is so young that two programs
// would create and remove interfaces in a fast loop.
func TestAVanishedInterface(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		goal   plan.Goal
		change func(*plan.Facts, *plan.Interface)
		want   string
	}{
		"young": {plan.Serve, func(_ *plan.Facts, i *plan.Interface) { i.Since = start.Add(time.Second - plan.RecreateAfter) }, "Pending RemovedExternally"},
		"old":   {plan.Serve, func(_ *plan.Facts, i *plan.Interface) { i.Since = start.Add(-plan.RecreateAfter) }, "Pending NotVisible, spent, gone"},
		"a new leader may not know it": {plan.Serve, func(f *plan.Facts, _ *plan.Interface) {
			f.Era.Since = start.Add(time.Second - inventory.VisibilityWindow)
		}, "Pending NotVisible"},
		"the instance shows it": {plan.Serve, func(f *plan.Facts, i *plan.Interface) {
			f.Snapshot.Interfaces = []eni.Interface{{ID: "eni-1", Tags: i.Tags}}
		}, "Pending NotVisible"},
		"without the tag of the cluster": {plan.Serve, func(f *plan.Facts, _ *plan.Interface) { f.Snapshot.Interfaces = []eni.Interface{{ID: "eni-1"}} }, "Pending NotVisible, spent, gone"},
		"removed by EC2's answer": {plan.Release, func(f *plan.Facts, i *plan.Interface) {
			f.Snapshot = nil
			f.Attempts = plan.Record(nil, plan.Delete{Key: i.Key, InterfaceID: "eni-1"}, nil, start)
		}, "Pending, gone"},
		"whoever holds it": {plan.Release, func(_ *plan.Facts, i *plan.Interface) { i.Held = true }, "Pending NotVisible, gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, f := object(tc.goal, 0, 1, "eni-1"), facts()
			tc.change(&f, &i)
			if got := words(plan.Compute([]plan.Interface{i}, f, start)); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// TestNoCallWithoutAReading: a plan without a fresh read proposes its calls and asks for one.
func TestNoCallWithoutAReading(t *testing.T) {
	t.Parallel()
	i, f := object(plan.Serve, 0, 1, ""), facts()
	f.Snapshot = nil
	if p := plan.Compute([]plan.Interface{i}, f, start); !p.NeedsRead || len(p.Calls) > 0 || len(p.Proposed) != 1 {
		t.Errorf("%+v", p)
	}
	i.ENIID = "eni-1"
	f.Interfaces = []inventory.Record{on(instance, "eni-1", 1, i)}
	if p := plan.Compute([]plan.Interface{i}, f, start); p.NeedsRead || len(p.Proposed) > 0 || !p.Interfaces[0].Ready() {
		t.Errorf("at rest: %+v", p)
	}
}
