// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/forecast"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/report"
)

// The VPC CNI subtracts interfaces that it does not manage from the limit of the type, or from a lower MAX_ENI.
func TestRoomForCNI(t *testing.T) {
	large := report.CNINode{InstanceType: "c5.large", Limit: 3, Unmanaged: 1}
	for name, tc := range map[string]struct {
		node       report.CNINode
		settings   report.CNISettings
		says, next string
		warns      bool
	}{
		"no limit": {
			node: large, settings: report.CNISettings{Warm: 1},
			says: "c5.large (1 node): the VPC CNI can have 2 of 3 interfaces, the primary one included: 3 less 1 that it does not manage",
		},
		"MAX_ENI that counts the others": {node: large, settings: report.CNISettings{MaxENI: 3, Warm: 1}, says: "can have 2 of 3 interfaces, the primary one included: 3 less 1"},
		"MAX_ENI lowered for the others": {
			node: large, settings: report.CNISettings{MaxENI: 2, Warm: 1}, warns: true,
			says: "can have 1 of 3 interfaces, the primary one included: MAX_ENI=2 less 1 that it does not manage; WARM_ENI_TARGET=1 asks for 2", next: "Remove MAX_ENI",
		},
		"MAX_ENI without others":   {node: report.CNINode{InstanceType: "c5.large", Limit: 3}, settings: report.CNISettings{MaxENI: 1, Warm: 1}, says: "can have 1 of 3 interfaces"},
		"the primary one alone":    {node: report.CNINode{InstanceType: "c5.large", Limit: 3, Unmanaged: 2}, settings: report.CNISettings{Warm: 1}, warns: true, says: "can have 1 of 3 interfaces", next: "larger instance type"},
		"more others than slots":   {node: report.CNINode{InstanceType: "c5.large", Limit: 3, Unmanaged: 5}, settings: report.CNISettings{Warm: 1}, warns: true, says: "can have 1 of 3 interfaces", next: "larger instance type"},
		"another target of warmth": {node: report.CNINode{InstanceType: "c5.large", Limit: 3, Unmanaged: 2}, says: "can have 1 of 3 interfaces"},
	} {
		t.Run(name, func(t *testing.T) {
			room := report.RoomForCNI([]report.CNINode{tc.node}, tc.settings)[0]
			found, next := room.Warning()
			if warns := found != ""; warns != tc.warns || !strings.Contains(next, tc.next) {
				t.Errorf("warning %q, next %q", found, next)
			}
			if !tc.warns {
				found = room.String()
			}
			if !strings.Contains(found, tc.says) {
				t.Errorf("got  %q\nwant %q", found, tc.says)
			}
		})
	}
}

func TestNodesWithTheSameRoomAreTogether(t *testing.T) {
	node := func(name string, unmanaged int) report.CNINode {
		return report.CNINode{InstanceType: name, Limit: 4, Unmanaged: unmanaged}
	}
	rooms := report.RoomForCNI([]report.CNINode{node("m5.xlarge", 1), node("c5.xlarge", 2), node("m5.xlarge", 1), {InstanceType: "unknown"}}, report.CNISettings{})
	var got []string
	for _, room := range rooms {
		got = append(got, room.String())
	}
	want := []string{
		"c5.xlarge (1 node): the VPC CNI can have 2 of 4 interfaces, the primary one included: 4 less 2 that it does not manage",
		"m5.xlarge (2 nodes): the VPC CNI can have 3 of 4 interfaces, the primary one included: 4 less 1 that it does not manage",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A plan tells what is left on nodes whose number of interfaces that the VPC CNI does not manage changes.
func TestAddCNIRoom(t *testing.T) {
	draft := func(calls ...plan.Call) report.SimulatedNode {
		at := func(id string, card int, managed string) eni.Interface {
			return eni.Interface{ID: id, Tags: map[string]string{identity.TagNoManage: managed}, Attachment: &eni.Attachment{InstanceID: "i-1", Slot: eni.Slot{Card: card, Device: 1}}}
		}
		return report.SimulatedNode{
			Look:   eni.InstanceSnapshot{Instance: eni.Instance{ID: "i-1", Type: "m5.xlarge"}, Interfaces: []eni.Interface{at("eni-1", 0, "true"), at("eni-2", 0, ""), at("eni-3", 1, "true")}},
			Limits: eni.Limits{Cards: []int{4, 4}, Interfaces: 8}, Outcome: forecast.Outcome{Calls: calls},
		}
	}
	for name, tc := range map[string]struct {
		calls []plan.Call
		want  []int
	}{
		"nothing":             {},
		"one more":            {[]plan.Call{plan.Create{}, plan.Attach{Slot: eni.Slot{Device: 2}}}, []int{2}},
		"one fewer":           {[]plan.Call{plan.Detach{InterfaceID: "eni-1"}}, []int{0}},
		"another card":        {[]plan.Call{plan.Attach{Slot: eni.Slot{Card: 1, Device: 2}}, plan.Detach{InterfaceID: "eni-3"}}, nil},
		"a move, as many":     {[]plan.Call{plan.Detach{InterfaceID: "eni-1"}, plan.Attach{Slot: eni.Slot{Device: 3}}}, nil},
		"a change of another": {[]plan.Call{plan.Change{}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var v report.PlanDiff
			v.AddCNIRoom([]report.SimulatedNode{draft(tc.calls...)}, report.CNISettings{Warm: 1})
			var got []int
			for _, room := range v.VPCCNI {
				got = append(got, room.Unmanaged)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
