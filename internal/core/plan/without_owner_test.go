// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// The published Multus functions left an interface in the subnet and at the slot that a NodeENI desires. The plan
// neither creates another one nor changes it: a person must import it.
func TestAnInterfaceWithoutAnOwnerIsNotDoubled(t *testing.T) {
	for name, tc := range map[string]struct {
		tags    map[string]string
		slot    eni.Slot
		subnet  string
		blocked bool
	}{
		"in the subnet and at the slot": {map[string]string{identity.TagNoManage: "true"}, device(1), "s1", true},
		"at another slot":               {map[string]string{identity.TagNoManage: "true"}, device(2), "s1", false},
		"in another subnet":             {map[string]string{identity.TagNoManage: "true"}, device(1), "s9", false},
		"managed by the VPC CNI":        {map[string]string{identity.TagNoManage: "false"}, device(1), "s1", false},
		"of another cluster":            {map[string]string{identity.TagNoManage: "true", identity.TagCluster: "elsewhere"}, device(1), "s1", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newMinimalEC2(limits(4))
			foreign := w.make(tc.subnet, tc.tags)
			foreign.Status = eni.InUse
			foreign.Attachment = &eni.Attachment{ID: "attach-f", InstanceID: instance, Slot: tc.slot, Status: eni.AttachmentAttached}
			w.interfaces[foreign.ID] = foreign
			p := w.follow(desired(claim("a", desiredInterface(0, 1, "s1"))), nil, 10, 30*time.Second)
			m := p.Members[0]
			if blocked := m.Phase == plan.Blocked && m.Why.Reason == plan.NotImported && w.calls == 0; blocked != tc.blocked {
				t.Errorf("%s %v after %d calls", m.Phase, m.Why, w.calls)
			}
			if m.Ready() == tc.blocked {
				t.Errorf("ready: %t", m.Ready())
			}
		})
	}
}
