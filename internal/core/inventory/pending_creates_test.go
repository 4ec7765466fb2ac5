// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"testing"
	"time"

	"github.com/multieni/multieni/internal/core/inventory"
)

// TestWhatWasAskedForIsExpected says for how long the interface of a create call without an answer may become visible.
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
			if got := v.MayHavePendingCreate(after(tc.at), tc.uid); got != tc.want {
				t.Errorf("expected: %t, want %t", got, tc.want)
			}
		})
	}
}
