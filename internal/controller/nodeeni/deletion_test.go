// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

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
// gone. Pods of the instance can use it, and no agent can say so.
func TestADeletionNamesTheInterfaceThatNoStateReports(t *testing.T) {
	for name, tc := range map[string]struct {
		after time.Duration
		want  string
	}{
		"shortly after":    {time.Minute, v1alpha1.ReasonDeleting},
		"ten minutes late": {11 * time.Minute, v1alpha1.ReasonUnreported},
	} {
		t.Run(name, func(t *testing.T) {
			left := owned()
			left[0].Status, left[0].Attachment = eni.InUse, &eni.Attachment{ID: "eni-attach-1", InstanceID: "i-00000000000000001", Slot: eni.Slot{Device: 1}}
			s := setStage(t, &cloud{known: left}, declared())
			if err := s.kube.Delete(t.Context(), declared()); err != nil {
				t.Fatal(err)
			}
			s.now = s.read().DeletionTimestamp.Add(tc.after)
			if err := s.reconcile(); err != nil {
				t.Fatal(err)
			}
			ready := apimeta.FindStatusCondition(s.read().Status.Conditions, v1alpha1.ConditionReady)
			isNamed := strings.Contains(ready.Message, left[0].ID+" is attached to i-00000000000000001")
			if ready.Reason != tc.want || isNamed != (tc.want == v1alpha1.ReasonUnreported) {
				t.Errorf("Ready is %+v, want reason %s", ready, tc.want)
			}
		})
	}
}
