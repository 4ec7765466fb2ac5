// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package forecast_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/forecast"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// exact compares addresses as values.
var exact = cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})

// drawn returns a random declaration for an instance, and a random interface of its first member or none.
func drawn(t *rapid.T) (render.Declared, forecast.Input) {
	var interfaces []plan.DesiredInterface
	subnets := rapid.SampledFrom([]string{"subnet-1", "subnet-2"})
	for ordinal := range rapid.IntRange(0, 3).Draw(t, "interfaces") {
		interfaces = append(interfaces, changed(desiredInterface(subnets.Draw(t, "subnet"), ordinal), func(w *plan.DesiredInterface) {
			w.Slot.Device = rapid.IntRange(1, 3).Draw(t, "device")
			w.Spec.SourceDestCheck = rapid.Bool().Draw(t, "source/dest check")
			w.Spec.Description = rapid.SampledFrom([]string{"", "storage"}).Draw(t, "description")
			w.Spec.SecondaryIPv4 = rapid.IntRange(0, 12).Draw(t, "IPv4")
			w.Spec.IPv6Prefixes = rapid.IntRange(0, 3).Draw(t, "IPv6 prefixes")
		}))
	}
	modes := rapid.SampledFrom([]render.Mode{render.Ensure, render.Release, render.Retain, render.Paused})
	d := desired(modes.Draw(t, "mode"), interfaces...)
	if !rapid.Bool().Draw(t, "exists") {
		return d, facts()
	}
	i := owned(subnets.Draw(t, "of"))
	i.Attachment.Status = rapid.SampledFrom([]eni.AttachmentStatus{
		eni.AttachmentAttaching, eni.AttachmentAttached, eni.AttachmentDetaching,
	}).Draw(t, "attachment")
	return d, facts(i)
}

// TestAForecastIsComplete checks that no action is left after the forecast: another one, which begins where the first
// ends, has no calls and the same members.
func TestAForecastIsComplete(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, in := drawn(t)
		first := forecast.Simulate(d, in, now)
		after := facts()
		after.Ledger = identity.Generations{}
		for _, m := range first.Members {
			if m.Interface != nil {
				after.Look.Interfaces = append(after.Look.Interfaces, *m.Interface)
			}
			after.Ledger[m.Key] = m.Generation
		}
		again := forecast.Simulate(d, after, now.Add(time.Hour))
		if diff := cmp.Diff([]string(nil), texts(again.Actions)); diff != "" {
			t.Fatalf("calls after the end (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(phases(first), phases(again)); diff != "" {
			t.Fatalf("members (-first +again):\n%s", diff)
		}
	})
}

// TestAForecastFitsTheInstance checks that no more interfaces end attached than the instance supports, each at its own
// slot, and that every call names its member.
func TestAForecastFitsTheInstance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, in := drawn(t)
		outcome := forecast.Simulate(d, in, now)
		slots := map[eni.Slot]bool{{}: true} // that of the primary interface
		for _, m := range outcome.Members {
			if m.Interface == nil || m.Interface.Attachment == nil {
				continue
			}
			if slots[m.Interface.Attachment.Slot] {
				t.Fatalf("two interfaces end at %s", m.Interface.Attachment.Slot)
			}
			slots[m.Interface.Attachment.Slot] = true
		}
		if len(slots) > in.Limits.Interfaces {
			t.Fatalf("%d interfaces end attached, and the instance takes %d", len(slots), in.Limits.Interfaces)
		}
		for _, action := range outcome.Actions {
			if member := action.Of(); member.InstanceID != instanceID || member.Owner != "uid" || member.Generation == 0 {
				t.Fatalf("%s is for %+v", action, member)
			}
		}
	})
}

// TestAForecastChangesNoInput checks that the caller's facts are the same after a forecast that removes, changes and
// evicts, and that the same facts give the same forecast.
func TestAForecastChangesNoInput(t *testing.T) {
	input := func() (render.Declared, forecast.Input) {
		in := podsOn(plan.PodNetwork{Used: 1, Pods: []string{"upf/a"}})
		in.Stored["eni-2"] = plan.Stored{Report: &plan.PodNetwork{Free: 16}}
		d := desired(render.Ensure, desiredInterface("subnet-2", 0), desiredInterface("subnet-3", 1))
		d.Claims[0].EvictPods = true
		return d, in
	}
	d, in := input()
	first := forecast.Simulate(d, in, now)
	if len(first.Evictions) == 0 || len(first.Actions) < 5 {
		t.Fatalf("the forecast is %v after %v, want a replacement after an eviction", texts(first.Actions), first.Evictions)
	}
	sameD, same := input()
	if diff := cmp.Diff(same, in, exact); diff != "" {
		t.Errorf("facts (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(sameD, d, exact); diff != "" {
		t.Errorf("declaration (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(first, forecast.Simulate(d, in, now), exact); diff != "" {
		t.Errorf("forecast (-first +second):\n%s", diff)
	}
}
