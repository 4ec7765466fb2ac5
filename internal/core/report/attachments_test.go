// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/forecast"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/report"
)

func TestCrowded(t *testing.T) {
	node := func(name string, interfaces, volumes int) report.Attachments {
		return report.Attachments{Node: name, Interfaces: interfaces, Volumes: volumes}
	}
	for name, tc := range map[string]struct {
		nodes []report.Attachments
		want  []report.Crowding
	}{
		"no nodes":                                  {},
		"a driver that counted all interfaces":      {nodes: []report.Attachments{node("a", 4, 23)}},
		"a driver that counted one fewer":           {nodes: []report.Attachments{node("a", 4, 24)}, want: []report.Crowding{{Nodes: []string{"a"}, Interfaces: 4, Volumes: 24, Excess: 1}}},
		"a type with a limit of its own":            {nodes: []report.Attachments{node("a", 15, 28), node("b", 15, 127)}},
		"nodes alike are together, in their order":  {nodes: []report.Attachments{node("b", 4, 26), node("c", 3, 26), node("a", 4, 26)}, want: []report.Crowding{{Nodes: []string{"a", "b"}, Interfaces: 4, Volumes: 26, Excess: 3}, {Nodes: []string{"c"}, Interfaces: 3, Volumes: 26, Excess: 2}}},
		"a driver that leaves attachments reserved": {nodes: []report.Attachments{node("a", 8, 10)}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, report.Crowded(tc.nodes)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCrowdingIsToldInASentence(t *testing.T) {
	c := report.Crowding{Nodes: []string{"a", "b", "c", "d", "e", "f"}, Interfaces: 4, Volumes: 26, Excess: 3}
	want := "a, b, c, d, e and 1 other node: the EBS CSI driver offers 26 volumes in addition to 4 interfaces; where both share 28 " +
		"attachments, 3 volumes would stay attaching"
	if got := c.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// A plan warns of the interfaces that it adds, and of nothing that is so already.
func TestAddCrowding(t *testing.T) {
	draft := func(name string, attached int, calls ...plan.Call) report.SimulatedNode {
		look := eni.InstanceSnapshot{Instance: eni.Instance{ID: name}}
		for range attached {
			look.Interfaces = append(look.Interfaces, eni.Interface{Attachment: &eni.Attachment{InstanceID: name}})
		}
		return report.SimulatedNode{Node: name, Look: look, Outcome: forecast.Outcome{Calls: calls}}
	}
	drafts := []report.SimulatedNode{
		draft("grows", 2, plan.Create{}, plan.Attach{}, plan.Create{}, plan.Attach{}), draft("stays", 9),
		draft("moves", 2, plan.Detach{}, plan.Attach{}), draft("unknown", 2, plan.Create{}, plan.Attach{}),
	}
	var v report.PlanDiff
	v.AddCrowding(drafts, map[string]int{"grows": 25, "stays": 25, "moves": 25})
	want := []report.Crowding{{Nodes: []string{"grows"}, Interfaces: 4, Volumes: 25, Excess: 2}}
	if diff := cmp.Diff(want, v.Crowded); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
