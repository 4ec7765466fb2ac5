// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"testing"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
)

// TestAlteredRestsOnWhatIsKnown records two changes of one interface, each without the other: both hold, and a read
// with only one of them is stale.
func TestAlteredRestsOnWhatIsKnown(t *testing.T) {
	describe := func(i eni.Interface) eni.Interface { return described(i, "new") }
	uncheck := func(i eni.Interface) eni.Interface { i.SourceDestCheck = false; return i }
	unchecked := inventory.Effect{Aspect: "check", IsVisible: func(i eni.Interface) bool { return !i.SourceDestCheck }}

	before := fresh("eni-1", member(0, 1), start)
	before.SourceDestCheck = true
	v := inventory.New(cluster)
	v.ObserveInterfaces(after(0), before)
	v.RecordChange(after(1), "eni-1", describe, describes("new"))
	v.RecordChange(after(1), "eni-1", uncheck, unchecked)
	v.RecordChange(after(1), "eni-2", describe, describes("new"))

	for name, reading := range map[string][]eni.Interface{"none": nil, "the first only": {describe(before)}, "the second only": {uncheck(before)}} {
		v.ObserveInterfaces(after(2), reading...)
		i, _ := v.Interface("eni-1")
		if i.Description != "new" || i.SourceDestCheck {
			t.Errorf("after a reading that shows %s: described as %q, checked %t", name, i.Description, i.SourceDestCheck)
		}
	}
	if _, known := v.Interface("eni-2"); known {
		t.Error("an interface is known that nobody showed")
	}
}

// TestAnAttachIsDoneWhateverElseIsShown reads the end of an attach without the effect of a concurrent change. The
// attach counts at once; the effect of the change holds until it expires.
func TestAnAttachIsDoneWhateverElseIsShown(t *testing.T) {
	v := inventory.New(cluster)
	attaching := attached(fresh("eni-1", member(0, 1), start), eni.AttachmentAttaching)
	v.RecordCall(after(0), attaching, inventory.Effect{Aspect: "attachment", IsVisible: func(i eni.Interface) bool { return i.Attachment != nil }})
	v.RecordChange(after(1), "eni-1", func(i eni.Interface) eni.Interface { return described(i, "new") }, describes("new"))

	if changed := v.ObserveInterfaces(after(3), attached(attaching, eni.AttachmentAttached)); len(changed) != 1 {
		t.Errorf("the end of the attach tells of %d members, want 1", len(changed))
	}
	i, _ := v.Interface("eni-1")
	if !i.Ready() || i.Description != "new" {
		t.Errorf("ready %t, described as %q; want both as they are", i.Ready(), i.Description)
	}
	if v.ObserveInterfaces(after(4), attaching); !v.Of(instance)[0].Ready() {
		t.Error("an older state of the attachment came back")
	}
}

// TestWhatWasAskedForIsExpected checks for how long the interface of a create call without an answer may become
// visible.
func TestWhatWasAskedForIsExpected(t *testing.T) {
	newborn := int(inventory.VisibilityWindow / time.Second)
	v := inventory.New(cluster)
	v.RecordUnansweredCreate(after(30), "uid-a")
	v.RecordUnansweredCreate(after(10), "uid-a") // calls end in any order
	for name, tc := range map[string]struct {
		at   int
		uid  string
		want bool
	}{
		"at once":                    {30, "uid-a", true},
		"as long as EC2 may hide it": {29 + newborn, "uid-a", true},
		"when EC2 would show it":     {30 + newborn, "uid-a", false},
		"of another NodeENI":         {30, "uid-b", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := v.MayHavePendingCreate(after(tc.at), identity.Owner(tc.uid)); got != tc.want {
				t.Errorf("expected: %t, want %t", got, tc.want)
			}
		})
	}
}

// TestADetachWithoutSuccessCountsUntilTheInterfaceIsUnattached has calls that end in any order.
func TestADetachWithoutSuccessCountsUntilTheInterfaceIsUnattached(t *testing.T) {
	v, free := inventory.New(cluster), fresh("eni-1", member(0, 1), start)
	v.RecordUnansweredDetach(after(0), "eni-1") // it is not known yet
	v.ObserveInterfaces(after(0), attached(free, eni.AttachmentAttached))
	v.RecordUnansweredDetach(after(20), "eni-1")
	v.RecordUnansweredDetach(after(10), "eni-1")
	v.ObserveInterfaces(after(30), attached(free, eni.AttachmentAttached))
	if got := v.Of(instance)[0].UnansweredDetach; !got.Equal(after(20)) {
		t.Errorf("the last call ended at %s, want %s", got, after(20))
	}
	v.ObserveInterfaces(after(40), free)
	v.ObserveInterfaces(after(50), attached(free, eni.AttachmentAttached))
	if got := v.Of(instance)[0].UnansweredDetach; !got.IsZero() {
		t.Errorf("a call for an earlier attachment counts: %s", got)
	}
}
