// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/forecast"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/report"
)

// ofData is the member of NodeENI data with the ordinal.
func ofData(ordinal int) identity.Interface {
	return identity.Interface{NodeENI: "data", Node: "node-a1", Ordinal: ordinal}
}

func createAt(ordinal, device int) plan.Call {
	return plan.Create{Key: ofData(ordinal), SubnetID: "subnet-1", Slot: eni.Slot{Device: device}}
}

func attachAt(ordinal int, id string, device int) plan.Call {
	return plan.Attach{Key: ofData(ordinal), InterfaceID: id, Slot: eni.Slot{Device: device}}
}

func detachOf(id, why string) plan.Call {
	return plan.Detach{Key: ofData(0), InterfaceID: id, Why: why}
}

func deleteOf(id, why string) plan.Call {
	return plan.Delete{Key: ofData(0), InterfaceID: id, Why: why}
}

func changeOf(ordinal int, id string, to plan.Attribute) plan.Call {
	return plan.Change{Key: ofData(ordinal), InterfaceID: id, To: to}
}

// withInstance is the attribute that needs a separate call to EC2 after each attachment.
var withInstance = plan.DeleteOnTermination{Enabled: true}

// onNode is the outcome of a plan for a node.
func onNode(name string, calls ...plan.Call) report.SimulatedNode {
	return report.SimulatedNode{Node: name, Outcome: forecast.Outcome{Calls: calls}}
}

// counts are the numbers of a plan: create, change, move, remove, blocked, drifted, unchanged nodes.
func counts(v report.PlanDiff) [6]int {
	return [6]int{v.Create, v.Change, v.Remove, v.Blocked, v.Drifted, v.Unchanged}
}

func TestPlanDiffSaysOneSentenceForEachInterface(t *testing.T) {
	for name, tc := range map[string]struct {
		calls  []plan.Call
		counts [6]int
		steps  []string
	}{
		"nothing": {nil, [6]int{5: 1}, nil},
		"an interface is created, attached and set up": {
			[]plan.Call{createAt(0, 2), attachAt(0, "eni-1", 2), changeOf(0, "eni-1", withInstance)},
			[6]int{1}, []string{"+ data: create an interface in subnet-1 for card 0 device 2"},
		},
		"two interfaces are created": {
			[]plan.Call{createAt(0, 2), createAt(1, 3)},
			[6]int{2}, []string{
				"+ data: create an interface in subnet-1 for card 0 device 2",
				"+ data: create an interface in subnet-1 for card 0 device 3",
			},
		},
		"a new interface gets more than its creation gives": {
			[]plan.Call{createAt(0, 2), changeOf(0, "eni-1", plan.SourceDestCheck(false))},
			[6]int{1, 1}, []string{
				"+ data: create an interface in subnet-1 for card 0 device 2", "~ data: set source/dest check false of eni-1",
			},
		},
		"an existing interface is attached": {
			[]plan.Call{attachAt(0, "eni-1", 2), changeOf(0, "eni-1", withInstance)},
			[6]int{0, 1}, []string{"~ data: attach eni-1 at card 0 device 2"},
		},
		"an attribute of a live interface": {
			[]plan.Call{changeOf(0, "eni-1", plan.Groups{"sg-1", "sg-2"})},
			[6]int{0, 1}, []string{"~ data: set security groups sg-1,sg-2 of eni-1"},
		},
		"the attribute of an attachment of a live interface, next to a new one": {
			[]plan.Call{createAt(0, 2), changeOf(1, "eni-1", withInstance)},
			[6]int{1, 1}, []string{
				"+ data: create an interface in subnet-1 for card 0 device 2", "~ data: set delete on termination true of eni-1",
			},
		},
		"an attached interface is removed": {
			[]plan.Call{detachOf("eni-1", "it is released"), deleteOf("eni-1", "it is released")},
			[6]int{2: 1}, []string{"- data: detach and delete eni-1: it is released"},
		},
		"an unattached interface is removed": {
			[]plan.Call{deleteOf("eni-1", "it is released")}, [6]int{2: 1}, []string{"- data: delete eni-1: it is released"},
		},
		"an interface is replaced": {
			[]plan.Call{
				detachOf("eni-1", "it is replaced"), deleteOf("eni-1", "it is replaced"), createAt(0, 2), attachAt(0, "eni-2", 2),
			},
			[6]int{1, 0, 1}, []string{
				"- data: detach and delete eni-1: it is replaced", "+ data: create an interface in subnet-1 for card 0 device 2",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := report.NewPlanDiff([]report.SimulatedNode{onNode("node-a1", tc.calls...)}, nil)
			if diff := cmp.Diff(tc.counts, counts(v)); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
			want := []report.NodeDiff{{Name: "node-a1", Steps: tc.steps}}
			if tc.steps == nil {
				want = []report.NodeDiff{}
			}
			if diff := cmp.Diff(want, v.Nodes, cmpopts.IgnoreUnexported(report.NodeDiff{})); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
		})
	}
}

// What interrupts pods comes first: evictions, removals, moves.
func TestPlanDiffSaysFirstWhatInterruptsPods(t *testing.T) {
	node := onNode("node-a1", createAt(1, 4), changeOf(2, "eni-3", plan.SourceDestCheck(true)),
		detachOf("eni-1", "it goes"), deleteOf("eni-1", "it goes"))
	node.Outcome.Evictions = []forecast.Eviction{{
		Key: ofData(0), InterfaceID: "eni-1", Pods: []string{"default/upf", "default/smf"}, Why: "it goes",
	}}
	v := report.NewPlanDiff([]report.SimulatedNode{node}, nil)
	want := []string{
		"! data: evict the pods default/upf, default/smf, which use eni-1: it goes",
		"- data: detach and delete eni-1: it goes",
		"+ data: create an interface in subnet-1 for card 0 device 4",
		"~ data: set source/dest check true of eni-3",
	}
	if diff := cmp.Diff(want, v.Nodes[0].Steps); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPlanDiffSaysWhichInterfacesAreNotAsDeclaredInTheEnd(t *testing.T) {
	drift := []plan.Drift{{Field: "subnet", Want: "a", Have: "b"}, {Field: "slot", Want: "1", Have: "2"}}
	in := func(phase plan.Phase, reason plan.Reason, message string, drift ...plan.Drift) forecast.Interface {
		return forecast.Interface{Drift: drift, State: plan.State{
			Goal: plan.Serve, Phase: phase, Problem: plan.Problem{Reason: reason, Message: message},
		}}
	}
	released := in(plan.Detaching, plan.Removing, "it goes", drift...)
	released.Goal = plan.Release
	kept := in(plan.Attached, "", "", drift...)
	kept.Kept = plan.Problem{Reason: plan.Drifted, Message: "it stays; add a subnet"}
	differs := "data: Drifted: it differs in subnet: want a, have b, and in slot: want 1, have 2; " + report.Remediation("Drifted")
	for name, tc := range map[string]struct {
		interfaces []forecast.Interface
		counts     [6]int
		want       report.NodeDiff
	}{
		"as declared": {[]forecast.Interface{in(plan.Attached, "", "")}, [6]int{5: 1}, report.NodeDiff{}},
		"attached with a reason that is not of interest": {
			[]forecast.Interface{in(plan.Attached, plan.AddressesKept, "it has more")}, [6]int{5: 1}, report.NodeDiff{},
		},
		"blocked": {
			[]forecast.Interface{in(plan.Blocked, plan.SubnetFull, "none is free")}, [6]int{3: 1},
			report.NodeDiff{Blocked: []string{"data: SubnetFull: none is free"}},
		},
		"blocked and drifted counts once": {
			[]forecast.Interface{in(plan.Blocked, plan.SubnetFull, "none is free", drift...)}, [6]int{3: 1},
			report.NodeDiff{Blocked: []string{"data: SubnetFull: none is free"}},
		},
		"two for the same reason, one for another": {
			[]forecast.Interface{
				in(plan.Blocked, plan.SubnetFull, "none is free"), in(plan.Blocked, plan.SlotTaken, "it is taken"),
				in(plan.Blocked, plan.SubnetFull, "none is free"),
			}, [6]int{3: 3},
			report.NodeDiff{Blocked: []string{"data: SubnetFull: none is free", "data: SlotTaken: it is taken"}},
		},
		"pods use an interface that is to be removed": {
			[]forecast.Interface{in(plan.Attached, plan.InUseByPods, "pods use eni-1", drift...)}, [6]int{},
			report.NodeDiff{Steps: []string{"! data: InUseByPods: pods use eni-1"}},
		},
		"drifted": {[]forecast.Interface{in(plan.Attached, "", "", drift...)}, [6]int{4: 1}, report.NodeDiff{Drifted: []string{differs}}},
		"drifted, and the fleet knows why it stays": {
			[]forecast.Interface{kept}, [6]int{4: 1}, report.NodeDiff{Drifted: []string{"data: Drifted: it stays; add a subnet"}},
		},
		"drifted, and it is being removed": {[]forecast.Interface{released}, [6]int{5: 1}, report.NodeDiff{}},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range tc.interfaces {
				tc.interfaces[i].Key = ofData(i)
			}
			v := report.NewPlanDiff([]report.SimulatedNode{
				{Node: "node-a1", Outcome: forecast.Outcome{Interfaces: tc.interfaces}},
			}, nil)
			if diff := cmp.Diff(tc.counts, counts(v)); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
			want := []report.NodeDiff{}
			if tc.want.Blocked != nil || tc.want.Drifted != nil || tc.want.Steps != nil {
				tc.want.Name = "node-a1"
				want = append(want, tc.want)
			}
			if diff := cmp.Diff(want, v.Nodes, cmpopts.IgnoreUnexported(report.NodeDiff{})); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlanDiffOrdersNodesByWhatTheyLose(t *testing.T) {
	loses := func(name string, n int) report.SimulatedNode {
		node := onNode(name)
		for i := range n {
			node.Outcome.Calls = append(node.Outcome.Calls, deleteOf(fmt.Sprintf("eni-%d", i), "it goes"))
		}
		return node
	}
	v := report.NewPlanDiff([]report.SimulatedNode{
		onNode("b", createAt(0, 1)), loses("f-loses", 2), onNode("a", createAt(0, 1)), loses("e-loses", 1),
		loses("g-loses", 3),
	}, nil)
	var got []string
	for _, n := range v.Nodes {
		got = append(got, n.Name)
	}
	want := []string{"e-loses", "f-loses", "g-loses", "a", "b"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPlanDiffTakesTheTimeOfTheSlowestOperation(t *testing.T) {
	v := report.NewPlanDiff([]report.SimulatedNode{
		onNode("a", createAt(0, 2), attachAt(0, "eni-1", 2)), onNode("b", createAt(0, 2), createAt(1, 3)), onNode("c"),
	}, map[string]forecast.Rate{
		"CreateNetworkInterface": {Burst: 1, PerSecond: 0.5}, "AttachNetworkInterface": {PerSecond: 10},
	})
	want := map[string]int{"CreateNetworkInterface": 3, "AttachNetworkInterface": 1}
	if diff := cmp.Diff(want, v.Calls); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if v.Seconds != 4 || v.Slowest != "CreateNetworkInterface" {
		t.Errorf("%v seconds because of %s, want 4 because of CreateNetworkInterface", v.Seconds, v.Slowest)
	}
}

// anyPlanned draws the outcome of a plan for a node.
func anyPlanned(rt *rapid.T, name string) report.SimulatedNode {
	node := onNode(name)
	for i := range rapid.IntRange(0, 4).Draw(rt, "interfaces") {
		id := fmt.Sprintf("eni-%d", i)
		node.Outcome.Calls = append(node.Outcome.Calls, rapid.SampledFrom([][]plan.Call{
			nil,
			{createAt(i, i), attachAt(i, id, i), changeOf(i, id, withInstance)},
			{detachOf(id, "it goes"), deleteOf(id, "it goes")},
			{changeOf(i, id, plan.Tags{"a": "b"})},
			{attachAt(i, id, i)},
		}).Draw(rt, "calls")...)
		node.Outcome.Interfaces = append(node.Outcome.Interfaces, forecast.Interface{State: plan.State{
			Key: ofData(i), Phase: rapid.SampledFrom([]plan.Phase{plan.Attached, plan.Blocked}).Draw(rt, "phase"),
		}})
	}
	return node
}

// Each call that a plan makes is in its sum, and each node is in the list or unchanged.
func TestPlanDiffOmitsNoCallAndNoNode(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var planned []report.SimulatedNode
		want, blocked := 0, 0
		for i := range rapid.IntRange(0, 6).Draw(rt, "nodes") {
			planned = append(planned, anyPlanned(rt, fmt.Sprintf("node-%d", i)))
			want += len(planned[i].Outcome.Calls)
			for _, m := range planned[i].Outcome.Interfaces {
				if m.Phase == plan.Blocked {
					blocked++
				}
			}
		}
		shuffled := rapid.Permutation(planned).Draw(rt, "shuffled")
		v := report.NewPlanDiff(planned, nil)
		calls := 0
		for _, n := range v.Calls {
			calls += n
		}
		if calls != want {
			rt.Fatalf("%d calls of %d: %v", calls, want, v.Calls)
		}
		if len(v.Nodes)+v.Unchanged != len(planned) {
			rt.Fatalf("%d nodes and %d unchanged, of %d", len(v.Nodes), v.Unchanged, len(planned))
		}
		deletes, creates := v.Calls["DeleteNetworkInterface"], v.Calls["CreateNetworkInterface"]
		if v.Remove != deletes || v.Create != creates || v.Blocked != blocked {
			rt.Fatalf("%d to remove, %d to create, %d blocked of %d: %v", v.Remove, v.Create, v.Blocked, blocked, v.Calls)
		}
		page := report.Page{Width: 100}
		if diff := cmp.Diff(v.Text(page), report.NewPlanDiff(shuffled, nil).Text(page)); diff != "" {
			rt.Fatalf("(-in order +shuffled):\n%s", diff)
		}
	})
}
