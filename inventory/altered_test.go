// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"testing"

	"github.com/multieni/multieni/eni"
	"github.com/multieni/multieni/inventory"
)

// TestAlteredRestsOnWhatIsKnown notes two changes of one interface, each without knowing of the other: both hold, and a reading
// that shows but one of them is not believed.
func TestAlteredRestsOnWhatIsKnown(t *testing.T) {
	describe := func(i eni.Interface) eni.Interface { return described(i, "new") }
	uncheck := func(i eni.Interface) eni.Interface { i.SourceDestCheck = false; return i }
	unchecked := inventory.Effect{Aspect: "check", Shown: func(i eni.Interface) bool { return !i.SourceDestCheck }}

	before := fresh("eni-1", member(0, 1), start)
	before.SourceDestCheck = true
	v := inventory.New(cluster)
	v.Saw(after(0), before)
	v.Altered(after(1), "eni-1", describe, describes("new"))
	v.Altered(after(1), "eni-1", uncheck, unchecked)
	v.Altered(after(1), "eni-2", describe, describes("new"))

	for name, reading := range map[string][]eni.Interface{"none": nil, "the first only": {describe(before)}, "the second only": {uncheck(before)}} {
		v.Saw(after(2), reading...)
		i, _ := v.Interface("eni-1")
		if i.Description != "new" || i.SourceDestCheck {
			t.Errorf("after a reading that shows %s: described as %q, checked %t", name, i.Description, i.SourceDestCheck)
		}
	}
	if _, known := v.Interface("eni-2"); known {
		t.Error("an interface is known that nobody showed")
	}
}
