// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"testing"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/inventory"
)

// TestAlteredRestsOnWhatIsKnown records two changes of one interface, each without the other: both hold, and a read
// with only one of them is stale.
func TestAlteredRestsOnWhatIsKnown(t *testing.T) {
	describe := func(i eni.Interface) eni.Interface { return described(i, "new") }
	uncheck := func(i eni.Interface) eni.Interface { i.SourceDestCheck = false; return i }
	unchecked := inventory.Effect{Aspect: "check", IsVisible: func(i eni.Interface) bool { return !i.SourceDestCheck }}

	before := fresh("eni-1", first(), start)
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
	attaching := attached(fresh("eni-1", first(), start), eni.AttachmentAttaching)
	v.RecordCall(after(0), attaching, inventory.Effect{Aspect: "attachment", IsVisible: func(i eni.Interface) bool { return i.Attachment != nil }})
	v.RecordChange(after(1), "eni-1", func(i eni.Interface) eni.Interface { return described(i, "new") }, describes("new"))

	if changed := v.ObserveInterfaces(after(3), attached(attaching, eni.AttachmentAttached)); len(changed) != 1 {
		t.Errorf("the end of the attach tells of %d interfaces, want 1", len(changed))
	}
	i, _ := v.Interface("eni-1")
	if !i.Ready() || i.Description != "new" {
		t.Errorf("ready %t, described as %q; want both as they are", i.Ready(), i.Description)
	}
	if v.ObserveInterfaces(after(4), attaching); !v.Of(instance)[0].Ready() {
		t.Error("an older state of the attachment came back")
	}
}
