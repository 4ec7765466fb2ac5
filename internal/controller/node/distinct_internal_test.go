// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"

	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// TestOneMemberOfEachKey checks that a status has one member of each key, regardless of the name in an interface's tag:
// the API server refuses a status with two.
func TestOneMemberOfEachKey(t *testing.T) {
	of := func(name string, ordinal int, wanted bool) plan.Member {
		key := identity.Key{Owner: "uid-b", Ordinal: ordinal}
		return plan.Member{Member: identity.Member{NodeENI: name, Key: key}, Desired: wanted}
	}
	got := distinct([]plan.Member{of("-1", 0, false), of("a", 1, true), of("b", 0, true)})
	if len(got) != 2 || got[0].NodeENI != "a" || got[1].NodeENI != "b" {
		t.Errorf("got %+v", got)
	}
}
