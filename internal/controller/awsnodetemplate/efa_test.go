// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsnodetemplate_test

import (
	"slices"
	"strings"
	"testing"
)

// TestEFAsAreJudgedByTheRulesOfTheirGroups reads the groups of a selector, and those of a launch template that is used
// as it is.
func TestEFAsAreJudgedByTheRulesOfTheirGroups(t *testing.T) {
	selected := func(t *testing.T) *stage {
		t.Helper()
		object := declared()
		object.Spec.NetworkInterfaces[1].InterfaceType = "efa"
		return setStage(t, object)
	}
	asItIs := func(t *testing.T) *stage {
		t.Helper()
		return referring(t, interfaces(
			map[string]any{"DeviceIndex": 0.0, "SubnetId": "s1", "InterfaceType": "efa", "Groups": []any{"g1"}}))
	}
	for name, begin := range map[string]func(*testing.T) *stage{"selected": selected, "in a launch template": asItIs} {
		for rule, warns := range map[string]bool{"g2": true, "g1": false} {
			t.Run(name+", with rules that name "+rule, func(t *testing.T) {
				s := begin(t)
				s.types, s.rules = []string{"c5n.18xlarge"}, []string{rule}
				got, _ := s.reconcile()
				warned := slices.ContainsFunc(got.Status.Warnings, func(w string) bool {
					return strings.Contains(w, "EFAs with g1 exchange no traffic")
				})
				if warned != warns {
					t.Errorf("warnings %q, %+v", got.Status.Warnings, got.Status.Conditions)
				}
			})
		}
	}
}
