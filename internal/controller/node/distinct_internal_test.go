// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"slices"
	"testing"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
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

// TestAnInterfaceIsListedOnce lets a member wait for a worker that lost its interface to another member.
func TestAnInterfaceIsListedOnce(t *testing.T) {
	waiting, moved := identity.Key{Owner: "uid-a"}, identity.Key{Owner: "uid-b"}
	said := v1alpha1.InterfaceState{Member: v1alpha1.Member{NodeENI: "a", NodeENIUID: "uid-a"}, ENIID: "eni-1"}
	s := &snapshot{state: &v1alpha1.NodeENIState{Status: v1alpha1.NodeENIStateStatus{Interfaces: []v1alpha1.InterfaceState{said}}}}
	for name, tc := range map[string]struct {
		at   string
		want []string
	}{
		"the other one has another interface": {"eni-2", []string{"a eni-1", "b eni-2"}},
		"the other one has this interface":    {"eni-1", []string{"b eni-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			st := newReconciled(s, []result{{waiting: map[identity.Key]bool{waiting: true}, plan: plan.Plan{Members: []plan.Member{
				{Member: identity.Member{NodeENI: "a", Key: waiting}, Desired: true},
				{Member: identity.Member{NodeENI: "b", Key: moved}, Desired: true, Interface: &eni.Interface{ID: tc.at}},
			}}}}).status()
			var got []string
			for _, i := range st.Interfaces {
				got = append(got, i.NodeENI+" "+i.ENIID)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("the state lists %q, want %q", got, tc.want)
			}
		})
	}
}
