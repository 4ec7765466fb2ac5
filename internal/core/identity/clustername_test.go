// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"errors"
	"testing"

	"github.com/multieni/multieni/internal/core/identity"
)

func TestCheckName(t *testing.T) {
	for name, tc := range map[string]struct {
		evidence identity.NameEvidence
		// inUse is the other name in use, empty if the configured one may be used.
		inUse string
	}{
		"nothing is known":                           {},
		"the configured name is recorded":            {identity.NameEvidence{Recorded: "ours", Objects: 3, Interfaces: 3}, ""},
		"another name is recorded, with objects":     {identity.NameEvidence{Recorded: "first", Objects: 1}, "first"},
		"another name is recorded, with interfaces":  {identity.NameEvidence{Recorded: "first", Interfaces: 1}, "first"},
		"another name is recorded, and nothing left": {identity.NameEvidence{Recorded: "first"}, ""},
		"no record, interfaces of the name":          {identity.NameEvidence{ByName: map[string]int{"ours": 2}}, ""},
		"no record, interfaces of another name":      {identity.NameEvidence{ByName: map[string]int{"first": 2}}, "first"},
		"no record, interfaces of several names": {
			identity.NameEvidence{ByName: map[string]int{"a": 1, "first": 2, "z": 1}}, "first",
		},
		"no record, interfaces of the name and of another": {
			identity.NameEvidence{ByName: map[string]int{"first": 9, "ours": 1}}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := identity.CheckName("ours", tc.evidence)
			var other *identity.OtherNameError
			if errors.As(err, &other); (err == nil) != (tc.inUse == "") || other != nil && other.InUse != tc.inUse {
				t.Errorf("got %v, want the name %q", err, tc.inUse)
			}
		})
	}
}
