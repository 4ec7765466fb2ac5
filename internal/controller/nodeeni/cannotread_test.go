// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/nodeeni"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/observer"
)

// TestARefusedFirstListingIsTold makes EC2 refuse the list of the cluster's interfaces from the start, so that the
// controller knows nothing else about the NodeENI.
func TestARefusedFirstListingIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := setStage(t, &cloud{}, declared())
		options := s.reconciler.Options
		options.Observer = observer.New(&cloud{}, observer.Options{Cluster: cluster, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		options.Refusals = &controller.Refusals{}
		options.Refusals.Note("DescribeNetworkInterfaces", eni.Unauthorized)
		s.reconciler = nodeeni.New(options)
		if err := s.reconcile(); err != nil {
			t.Fatal(err)
		}
		ready := meta.FindStatusCondition(s.read().Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || ready.Reason != string(plan.Unauthorized) || !strings.Contains(ready.Message, "EC2 refuses ec2:DescribeNetworkInterfaces") {
			t.Errorf("the Ready condition is %+v", ready)
		}
	})
}

// TestAnEmptySelectorSaysSo has a stored NodeENI with an empty nodeSelector, which meant all nodes to an earlier controller.
func TestAnEmptySelectorSaysSo(t *testing.T) {
	n := declared()
	n.Spec.NodeSelector = nil
	s := setStage(t, &cloud{}, n)
	if err := s.reconcile(); err != nil {
		t.Fatal(err)
	}
	ready := meta.FindStatusCondition(s.read().Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || !strings.Contains(ready.Message, "nodeSelector is empty and selects no node; name at least one label") {
		t.Errorf("the Ready condition is %+v", ready)
	}
}
