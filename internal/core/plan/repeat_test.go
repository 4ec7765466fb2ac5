// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
)

func TestARepeatedChangeWaitsEverLonger(t *testing.T) {
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
}

func TestAnotherValueAndALastingOneBeginAnew(t *testing.T) {
	often := plan.RepeatedUpdate{To: plan.Tags{"team": "a"}, At: start, Count: 4}
	for name, tc := range map[string]struct {
		to    plan.Attribute
		after time.Duration
		count int
	}{
		"the same":                      {plan.Tags{"team": "a"}, time.Hour, 5},
		"another value of the same tag": {plan.Tags{"team": "b"}, time.Hour, 1},
		"the same after it lasted":      {plan.Tags{"team": "a"}, 3 * time.Hour, 1},
	} {
		if got := often.Next(tc.to, start.Add(tc.after)).Count; got != tc.count {
			t.Errorf("%s: the count is %d, want %d", name, got, tc.count)
		}
	}
}

// TestAnOpponentCostsFewCallsPerHour has another program revert an attribute as soon as it is as declared. In any
// order, an attribute of an interface costs only a handful of calls per hour once that is known, and the member says
// so.
func TestAnOpponentCostsFewCallsPerHour(t *testing.T) {
	t.Parallel()
	spoil := map[string]func(*eni.Interface){
		"description":         func(i *eni.Interface) { i.Description = "theirs" },
		"sourceDestCheck":     func(i *eni.Interface) { i.SourceDestCheck = false },
		"deleteOnTermination": func(i *eni.Interface) { i.Attachment.DeleteOnTermination = false },
		"security groups":     func(i *eni.Interface) { i.Groups = []string{"sg-theirs"} },
		"tags":                func(i *eni.Interface) { delete(i.Tags, identity.TagNoManage) },
	}
	fields := []string{"deleteOnTermination", "description", "security groups", "sourceDestCheck", "tags"}
	rapid.Check(t, func(rt *rapid.T) {
		field := rapid.SampledFrom(fields).Draw(rt, "field")
		pause := time.Duration(rapid.IntRange(20, 400).Draw(rt, "seconds between plans")) * time.Second
		w := newMinimalEC2(limits(4))
		d := desired(claim("a", desiredInterface(0, 1, "s1")))
		_, ledger := w.drive(d, nil)
		repeats, calls := plan.RepeatedUpdates{}, 0
		var said string
		for end := w.now.Add(4 * time.Hour); w.now.Before(end); w.now = w.now.Add(pause) {
			i := w.ours()[0].Clone()
			spoil[field](&i)
			w.interfaces[i.ID] = i
			o := w.observe(ledger)
			o.RepeatedUpdates = repeats
			p := compute(d, o, w.now)
			said = string(p.Members[0].Why.Reason) + " " + p.Members[0].Why.Message
			for _, action := range p.Actions {
				w.apply(action)
				repeats = repeats.Accepted(action, w.now)
				calls++
			}
		}
		if calls < 4 || calls > 12 {
			rt.Errorf("%d calls in four hours, want 4 to 12", calls)
		}
		if !strings.HasPrefix(said, "Reverted the "+field+" of eni-0002") {
			rt.Errorf("the member says %q", said)
		}
	})
}

// TestAReadingDecidesWhetherARepeatedChangeLasts has EC2 accept a change a second time. Before a read that is late
// enough the plan has no reason, and without a read it requests one.
func TestAReadingDecidesWhetherARepeatedChangeLasts(t *testing.T) {
	w := newMinimalEC2(limits(4))
	d := desired(claim("a", desiredInterface(0, 1, "s1")))
	_, ledger := w.drive(d, nil)
	i := w.ours()[0]
	accepted := w.now
	after := func(wait time.Duration, shown string, look bool) plan.Plan {
		w.now = accepted.Add(wait)
		i.Description = shown
		w.interfaces[i.ID] = i
		o := w.observe(ledger)
		o.RepeatedUpdates = plan.RepeatedUpdates{i.ID: {"description": {To: plan.Description("d"), At: accepted, Count: 2}}}
		if !look {
			o.Snapshot, o.Owned[0].LastRead = nil, accepted
		}
		return compute(d, o, w.now)
	}
	for name, tc := range map[string]struct {
		p      plan.Plan
		reason plan.Reason
		look   bool
	}{
		"it is too early to tell":       {after(time.Second, "theirs", true), "", false},
		"nothing is known since":        {after(inventory.StaleReadWindow, "theirs", false), "", true},
		"a late reading shows theirs":   {after(inventory.StaleReadWindow, "theirs", true), plan.Reverted, false},
		"a late reading shows the own":  {after(inventory.StaleReadWindow, "d", true), "", false},
		"the wait is over, and theirs":  {after(2*time.Minute, "theirs", true), plan.Reverted, false},
		"it is long ago, and is theirs": {after(3*time.Hour, "theirs", true), "", false},
	} {
		if got := tc.p.Members[0].Why.Reason; got != tc.reason || tc.p.NeedsDescribe != tc.look {
			t.Errorf("%s: the reason is %q and a look is needed: %t; want %q and %t", name, got, tc.p.NeedsDescribe, tc.reason, tc.look)
		}
	}
}
