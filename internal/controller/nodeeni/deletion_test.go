// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// TestADeletionNamesTheInterfaceItWaitsFor deletes a NodeENI whose UID a user wrote on an interface that multieni
// leaves alone.
func TestADeletionNamesTheInterfaceItWaitsFor(t *testing.T) {
	cases := map[string]map[string]string{
		"the interface is another cluster's": {identity.TagCluster: "other"},
		"its tags name no node":              {identity.TagNode: ""},
	}
	for name, edited := range cases {
		t.Run(name, func(t *testing.T) {
			stray := owned()
			maps.Copy(stray[0].Tags, edited)
			s := setStage(t, &cloud{left: stray}, declared())
			if err := s.kube.Delete(t.Context(), declared()); err != nil {
				t.Fatal(err)
			}
			if err := s.reconcile(); err != nil {
				t.Fatal(err)
			}
			ready := apimeta.FindStatusCondition(s.read().Status.Conditions, v1alpha1.ConditionReady)
			if ready == nil || ready.Reason != v1alpha1.ReasonUnverified || !strings.Contains(ready.Message, stray[0].ID) {
				t.Errorf("Ready is %+v, want it to name %s", ready, stray[0].ID)
			}
		})
	}
}

// TestADeletionNamesTheLedgerItWaitsFor deletes a NodeENI that the ledger of a NodeENIState names, without a reported
// interface. After ten minutes the status says so.
func TestADeletionNamesTheLedgerItWaitsFor(t *testing.T) {
	cases := map[string]struct {
		after time.Duration
		want  string
	}{
		"shortly after":    {time.Minute, v1alpha1.ReasonDeleting},
		"ten minutes late": {11 * time.Minute, v1alpha1.ReasonUnverified},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			silent := state("n1", v1alpha1.InterfaceState{})
			silent.Status.Interfaces = nil
			s := setStage(t, &cloud{}, declared(), silent)
			if err := s.kube.Delete(t.Context(), declared()); err != nil {
				t.Fatal(err)
			}
			s.now = s.read().DeletionTimestamp.Add(tc.after)
			if err := s.reconcile(); err != nil {
				t.Fatal(err)
			}
			ready := apimeta.FindStatusCondition(s.read().Status.Conditions, v1alpha1.ConditionReady)
			if ready == nil || ready.Reason != tc.want || strings.Contains(ready.Message, "NodeENIState n1") != (tc.want == v1alpha1.ReasonUnverified) {
				t.Errorf("Ready is %+v, want reason %s", ready, tc.want)
			}
		})
	}
}

// TestADeletionNamesTheInterfaceThatNoStateReports deletes a NodeENI with an interface on an instance whose Node is
// gone. Pods of the instance can use it, and no agent can say so. The states of other instances report other interfaces.
func TestADeletionNamesTheInterfaceThatNoStateReports(t *testing.T) {
	const instance = "i-00000000000000001"
	other := state("n2", v1alpha1.InterfaceState{ENIID: "eni-2", Phase: v1alpha1.PhaseAttached})
	present := state("n1", v1alpha1.InterfaceState{ENIID: "eni-1", Phase: v1alpha1.PhaseAttached})
	present.Spec.InstanceID, present.Status.InstanceID = instance, instance
	silent := present.DeepCopy()
	silent.Status.Interfaces = nil
	former := state("n2", v1alpha1.InterfaceState{ENIID: "eni-1", InstanceID: instance, Phase: v1alpha1.PhaseAttached})
	previous := state("n2", v1alpha1.InterfaceState{ENIID: "eni-2", Phase: v1alpha1.PhaseAttached})
	previous.Spec.PreviousInstances = []v1alpha1.PreviousInstance{{InstanceID: instance, Members: previous.Spec.Members}}
	for name, tc := range map[string]struct {
		after  time.Duration
		states []client.Object
		want   string
	}{
		"shortly after":                   {time.Minute, nil, v1alpha1.ReasonDeleting},
		"ten minutes late":                {11 * time.Minute, nil, v1alpha1.ReasonUnreported},
		"another node, shortly after":     {time.Minute, []client.Object{other}, v1alpha1.ReasonDeleting},
		"another node, ten minutes late":  {11 * time.Minute, []client.Object{other}, v1alpha1.ReasonUnreported},
		"a state reports it":              {11 * time.Minute, []client.Object{present}, v1alpha1.ReasonDeleting},
		"its state reports none":          {11 * time.Minute, []client.Object{silent, other}, v1alpha1.ReasonDeleting},
		"the next instance's reports it":  {11 * time.Minute, []client.Object{former}, v1alpha1.ReasonDeleting},
		"a ledger has its instance still": {11 * time.Minute, []client.Object{previous}, v1alpha1.ReasonDeleting},
	} {
		t.Run(name, func(t *testing.T) {
			left := owned()
			left[0].Status, left[0].Attachment = eni.InUse, &eni.Attachment{ID: "eni-attach-1", InstanceID: instance, Slot: eni.Slot{Device: 1}}
			s := setStage(t, &cloud{known: left}, append(tc.states, declared())...)
			if err := s.kube.Delete(t.Context(), declared()); err != nil {
				t.Fatal(err)
			}
			s.now = s.read().DeletionTimestamp.Add(tc.after)
			if err := s.reconcile(); err != nil {
				t.Fatal(err)
			}
			ready := apimeta.FindStatusCondition(s.read().Status.Conditions, v1alpha1.ConditionReady)
			isNamed := strings.Contains(ready.Message, left[0].ID+" is attached to "+instance)
			if ready.Reason != tc.want || isNamed != (tc.want == v1alpha1.ReasonUnreported) {
				t.Errorf("Ready is %+v, want reason %s", ready, tc.want)
			}
		})
	}
}
