// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni_test

import (
	"fmt"
	"slices"
	"testing"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/nodeeni"
	"github.com/multieni/multieni/internal/core/plan"
)

// TestReadyWaitsForEveryNodesJudgement checks that the NodeENI becomes ready only when every node reports on its
// current generation: a ledger that names it does not count, nor does a status of an earlier generation or of another
// instance.
func TestReadyWaitsForEveryNodesJudgement(t *testing.T) {
	attached := v1alpha1.InterfaceState{Phase: v1alpha1.PhaseAttached, ENIID: "eni-1"}
	cases := map[string]struct {
		change func(*v1alpha1.NodeENIState)
		want   string
	}{
		"the node was judged":       {func(*v1alpha1.NodeENIState) {}, v1alpha1.ReasonAttached},
		"there is a ledger alone":   {func(s *v1alpha1.NodeENIState) { s.Status = v1alpha1.NodeENIStateStatus{} }, v1alpha1.ReasonProgressing},
		"the spec was changed":      {func(s *v1alpha1.NodeENIState) { s.Status.NodeENIs[0].ObservedGeneration = 0 }, v1alpha1.ReasonProgressing},
		"another NodeENI was meant": {func(s *v1alpha1.NodeENIState) { s.Status.NodeENIs[0].NodeENIUID = "uid-2" }, v1alpha1.ReasonProgressing},
		"the node has another instance, of which its ledger speaks already": {
			func(s *v1alpha1.NodeENIState) { s.Status.InstanceID = instanceOf("before") }, v1alpha1.ReasonProgressing,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			second := state("n2", attached)
			tc.change(second)
			s := setStage(t, &cloud{}, declared(), selected("n1"), state("n1", attached), selected("n2"), second)
			if err := s.reconcile(); err != nil {
				t.Fatal(err)
			}
			got := s.read().Status
			if ready := apimeta.FindStatusCondition(got.Conditions, v1alpha1.ConditionReady); ready == nil || ready.Reason != tc.want {
				t.Errorf("want the reason %s: %+v", tc.want, ready)
			}
			if got.ObservedGeneration != 1 {
				t.Errorf("observed generation %d", got.ObservedGeneration)
			}
		})
	}
}

// TestInterfacesThatNoStateListsCount checks a node with more interfaces than its state can list: each NodeENI reports
// how many of its own interfaces the list omits, and why.
func TestInterfacesThatNoStateListsCount(t *testing.T) {
	crowded := state("n1", v1alpha1.InterfaceState{})
	crowded.Status.Interfaces = nil
	crowded.Status.NodeENIs[0] = v1alpha1.ObservedNodeENI{
		NodeENI: "data", NodeENIUID: "uid", ObservedGeneration: 1, Omitted: 2, Blocked: 2, Reason: string(plan.InstanceFull),
	}
	s := setStage(t, &cloud{}, declared(), selected("n1"), crowded)
	if err := s.reconcile(); err != nil {
		t.Fatal(err)
	}
	got := s.read().Status
	ready := apimeta.FindStatusCondition(got.Conditions, v1alpha1.ConditionReady)
	if got.Desired != 2 || got.Blocked != 2 || got.AttachmentsOmitted != 2 || ready.Reason != string(plan.InstanceFull) {
		t.Errorf("%d desired, %d blocked, %d omitted, %s: %s", got.Desired, got.Blocked, got.AttachmentsOmitted, ready.Reason, ready.Message)
	}
}

// TestWhatExistsIsListedFirst has more attachments than a NodeENI lists: existing interfaces come first, in the order
// of the nodes.
func TestWhatExistsIsListedFirst(t *testing.T) {
	objects := []client.Object{declared()}
	for n := range 120 {
		name, i := fmt.Sprintf("node-%03d", n), v1alpha1.InterfaceState{Phase: v1alpha1.PhaseBlocked, Reason: string(plan.InstanceFull)}
		if n >= 110 {
			i = v1alpha1.InterfaceState{Phase: v1alpha1.PhaseAttached, ENIID: fmt.Sprintf("eni-%d", n)}
		}
		objects = append(objects, selected(name), state(name, i))
	}
	s := setStage(t, &cloud{}, objects...)
	if err := s.reconcile(); err != nil {
		t.Fatal(err)
	}
	all := s.read().Status.Attachments
	if len(all) != 100 || all[89].NodeID != "node-089" || all[90].NodeID != "node-110" || all[99].ENIID != "eni-119" {
		t.Errorf("%d are listed; around the gap: %s, %s", len(all), all[89].NodeID, all[90].NodeID)
	}
}

// An interface of the instance that had the node's name before, and one that is not attached yet, have no link there.
func TestAttachedInterfacesOfNodes(t *testing.T) {
	attached := v1alpha1.InterfaceState{
		Member: v1alpha1.Member{NodeENI: "data"}, Phase: v1alpha1.PhaseAttached, ENIID: "eni-1", MACAddress: "02:00:00:00:00:01", InstanceID: "i-1",
	}
	former, coming := attached, attached
	former.ENIID, former.InstanceID = "eni-2", "i-0"
	coming.ENIID, coming.Phase = "eni-3", v1alpha1.PhaseAttaching
	n1 := state("n1", attached)
	n1.Status.InstanceID = "i-1"
	n1.Status.Interfaces = append(n1.Status.Interfaces, former, coming)
	s := setStage(t, &cloud{}, declared(), selected("n1"), n1)
	want := []nodeeni.AttachedInterface{{Node: "n1", NodeENI: "data", MAC: "02:00:00:00:00:01", ENI: "eni-1"}}
	if got := s.reconciler.Attached(); !slices.Equal(got, want) {
		t.Errorf("attached are %v, want %v", got, want)
	}
}
