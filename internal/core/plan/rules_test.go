// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
)

// TestEveryRule plans one object for each goal and situation. The outcome is the calls or else the phase and the reason.
func TestEveryRule(t *testing.T) {
	t.Parallel()
	of := object(plan.Serve, 0, 1, "")
	missing := on(instance, "eni-1", 1, of)
	missing.Missing = true
	late := func(status eni.AttachmentStatus, since time.Duration) *inventory.Record {
		r := withStatus(on(instance, "eni-1", 1, of), status)
		r.AttachingSince, r.DetachingSince = start.Add(-since), start.Add(-since)
		return &r
	}
	pending := unattached("eni-1", of)
	pending.Status = eni.Pending

	type outcomes struct{ Serve, Release, Keep string }
	for name, tc := range map[string]struct {
		record *inventory.Record
		held   bool
		want   outcomes
	}{
		"gone":      {nil, false, outcomes{"Pending NotVisible, spent, gone", "Pending NotVisible, gone", "Pending Retained"}},
		"missing":   {&missing, false, outcomes{"Attached NotVisible", "Attached NotVisible", "Attached Retained"}},
		"pending":   {&pending, false, outcomes{"Attaching InProgress", "Pending Removing", "Pending Retained"}},
		"elsewhere": {new(on(another, "eni-1", 1, of)), false, outcomes{"Blocked AttachedElsewhere", "Attached Removing", "Blocked Retained"}},
		"free": {new(unattached("eni-1", of)), false, outcomes{
			"attach eni-1 at card 0 device 1", "delete eni-1: its NetworkInterface is being deleted", "Pending Retained",
		}},
		"free and held":          {new(unattached("eni-1", of)), true, outcomes{"attach eni-1 at card 0 device 1", "Pending InUseByPods", "Pending Retained"}},
		"attaching":              {late(eni.AttachmentAttaching, time.Second), false, outcomes{"Attaching InProgress", "Attaching Removing", "Attaching Retained"}},
		"attaching for too long": {late(eni.AttachmentAttaching, plan.AttachTimeout), false, outcomes{"Blocked AttachStuck, spent", "detach eni-1: its NetworkInterface is being deleted", "Attaching Retained"}},
		"attaching for too long and held": {late(eni.AttachmentAttaching, plan.AttachTimeout), true, outcomes{
			"Blocked AttachStuck, spent", "Attaching InUseByPods", "Attaching Retained",
		}},
		"attached":          {new(on(instance, "eni-1", 1, of)), false, outcomes{"Attached", "detach eni-1: its NetworkInterface is being deleted", "Attached Retained"}},
		"attached and held": {new(on(instance, "eni-1", 1, of)), true, outcomes{"Attached", "Attached InUseByPods", "Attached Retained"}},
		"detaching":         {late(eni.AttachmentDetaching, time.Second), false, outcomes{"Detaching InProgress", "Detaching Removing", "Detaching Retained"}},
		"detaching for too long": {late(eni.AttachmentDetaching, plan.ForcedDetachAfter), false, outcomes{
			"Detaching InProgress, spent",
			"force-detach eni-1: its NetworkInterface is being deleted, and a plain detach has not completed since 2026-01-02T02:54:05Z",
			"Detaching Retained",
		}},
		"detaching for too long and held": {late(eni.AttachmentDetaching, plan.ForcedDetachAfter), true, outcomes{
			"Detaching InProgress, spent", "Detaching InUseByPods", "Detaching Retained",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outcome := func(goal plan.Goal) string {
				i, f := object(goal, 0, 1, "eni-1"), facts()
				i.Held = tc.held
				if tc.record != nil {
					f = facts(*tc.record)
				}
				return words(plan.Compute([]plan.Interface{i}, f, start))
			}
			got := outcomes{outcome(plan.Serve), outcome(plan.Release), outcome(plan.Keep)}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("by goal (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEveryRuleWithoutAnInterface plans one object that records no interface.
func TestEveryRuleWithoutAnInterface(t *testing.T) {
	t.Parallel()
	const create = "create an interface in s1 for card 0 device 1"
	of := object(plan.Serve, 0, 1, "")
	type outcomes struct{ Serve, Release, Keep string }
	for name, tc := range map[string]struct {
		inFlight []plan.Call
		change   func(*plan.Interface, *plan.Facts)
		want     outcomes
	}{
		"absent":   {nil, nil, outcomes{create, "Pending, gone", "Pending Retained"}},
		"creating": {[]plan.Call{plan.Create{Key: of.Key}}, nil, outcomes{"Creating InProgress", "Creating InProgress", "Creating InProgress"}},
		"absent, and an earlier leader may have created one": {nil, func(i *plan.Interface, f *plan.Facts) {
			i.Inherited, f.Era.Since = true, start.Add(-inventory.VisibilityWindow+time.Second)
		}, outcomes{create, "Pending NotVisible", "Pending Retained"}},
		"absent, and earlier leaders knew nothing of it": {nil, func(i *plan.Interface, f *plan.Facts) { i.Since, f.Era.Since = start, start.Add(900*time.Millisecond) },
			outcomes{create, "Pending, gone", "Pending Retained"}},
		"absent, and an etcd that was restored returned it": {nil, func(i *plan.Interface, f *plan.Facts) { i.Since, f.Era.Since = start.Add(-time.Minute), start },
			outcomes{create, "Pending NotVisible", "Pending Retained"}},
		"absent, and a call had no answer": {nil, func(i *plan.Interface, f *plan.Facts) {
			lost := &eni.APIError{Class: eni.Transient}
			f.Attempts = plan.Record(nil, plan.Create{Key: i.Key}, lost, start.Add(-time.Minute))
		}, outcomes{create, "Pending NotVisible", "Pending Retained"}},
		"absent, and the instance has ended": {nil, func(_ *plan.Interface, f *plan.Facts) {
			f.Snapshot.Instance.State = eni.InstanceTerminated
		}, outcomes{"Pending, gone", "Pending, gone", "Pending Retained"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outcome := func(goal plan.Goal) string {
				i, f := object(goal, 0, 1, ""), facts()
				f.InFlight = tc.inFlight
				if tc.change != nil {
					tc.change(&i, &f)
				}
				return words(plan.Compute([]plan.Interface{i}, f, start))
			}
			got := outcomes{outcome(plan.Serve), outcome(plan.Release), outcome(plan.Keep)}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("by goal (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnUnattachedInterfaceThatIsHeldIsReadOnce has an object that is being deleted. No event says that its instance has
// ended.
func TestAnUnattachedInterfaceThatIsHeldIsReadOnce(t *testing.T) {
	t.Parallel()
	of := object(plan.Release, 0, 1, "eni-1")
	of.Held = true
	f := facts(unattached("eni-1", of))
	if p := plan.Compute([]plan.Interface{of}, f, start); p.NeedsRead || p.Interfaces[0].Problem.Reason != plan.InUseByPods {
		t.Errorf("after a read: read %t, %q, want no other one and %q", p.NeedsRead, p.Interfaces[0].Problem.Reason, plan.InUseByPods)
	}
	f.Snapshot = nil
	if p := plan.Compute([]plan.Interface{of}, f, start); !p.NeedsRead {
		t.Error("the instance is not read")
	}
}

// TestAVanishedInterfaceThatWasCreatedAgain has an object that is being deleted. EC2 lacks its interface, and a controller
// with an old cache created another one with the object's client token.
func TestAVanishedInterfaceThatWasCreatedAgain(t *testing.T) {
	t.Parallel()
	of := object(plan.Release, 0, 1, "eni-1")
	for name, tc := range map[string]struct {
		createdFor identity.UID
		missing    bool
		want       string
	}{
		"it is unattached":         {of.Key.UID, false, "delete eni-2: its NetworkInterface is being deleted"},
		"it is gone as well":       {of.Key.UID, true, "Pending NotVisible, gone"},
		"only its tags name it so": {"", false, "Pending NotVisible, gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			again := unattached("eni-2", of)
			again.CreatedFor, again.Missing = tc.createdFor, tc.missing
			if got := words(plan.Compute([]plan.Interface{of}, facts(again), start)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestTheRuleOfALaunchInterface: it is updated in place, and neither detached nor deleted.
func TestTheRuleOfALaunchInterface(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		goal plan.Goal
		held bool
		want string
	}{
		{plan.Serve, false, `set description "d" of eni-1`},
		{plan.Release, false, "Attached, gone"},
		{plan.Release, true, "Attached InUseByPods"},
		{plan.Keep, false, "Attached Retained"},
	} {
		i := object(tc.goal, 0, 1, "eni-1")
		i.Launched, i.Held = true, tc.held
		r := on(instance, "eni-1", 1, i)
		r.Description, r.Tags = "from the template", map[string]string{"x": "y"}
		f := facts(r)
		f.Launched, f.Interfaces = f.Interfaces, nil
		got := plan.Compute([]plan.Interface{i}, f, start)
		if words(got) != tc.want {
			t.Errorf("goal %d, held %t: %s, want %s", tc.goal, tc.held, words(got), tc.want)
		}
		if message := got.Interfaces[0].Problem.Message; tc.held && !strings.Contains(message, "stays with its instance") {
			t.Errorf("the message does not say that the interface stays: %s", message)
		}
	}
}

// TestAnEndedInstance: EC2 detaches its interfaces, and one that is left is deleted also if it is held.
func TestAnEndedInstance(t *testing.T) {
	t.Parallel()
	for _, goal := range []plan.Goal{plan.Serve, plan.Release} {
		i := object(goal, 0, 1, "eni-1")
		i.Held = true
		attached, left := facts(on(instance, "eni-1", 1, i)), facts(unattached("eni-1", i))
		for _, f := range []*plan.Facts{&attached, &left} {
			f.Snapshot.Instance.State = eni.InstanceShuttingDown
		}
		if got := words(plan.Compute([]plan.Interface{i}, attached, start)); got != "Attached Removing" {
			t.Errorf("goal %d, attached: %s", goal, got)
		}
		if got := words(plan.Compute([]plan.Interface{i}, left, start)); got != "delete eni-1: its instance is gone" {
			t.Errorf("goal %d, left: %s", goal, got)
		}
	}
}

// TestAVanishedInterfaceNeedsNoFurtherRead removes an object of an ended instance. Its interface is gone, so that only
// the object is left to end.
func TestAVanishedInterfaceNeedsNoFurtherRead(t *testing.T) {
	t.Parallel()
	f := facts()
	f.Snapshot.Instance.State = eni.InstanceTerminated
	p := plan.Compute([]plan.Interface{object(plan.Release, 0, 1, "eni-1")}, f, start)
	if len(p.Gone) != 1 || !p.Next.IsZero() || p.NeedsRead {
		t.Errorf("%s, and the next plan at %v", words(p), p.Next)
	}
}
