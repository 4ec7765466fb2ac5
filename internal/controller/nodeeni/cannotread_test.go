// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/observer"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/nodeeni"
	"github.com/multieni/multieni/internal/controller/status"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// TestARefusedFirstListingIsTold makes EC2 refuse the list of the cluster's interfaces from the start, so that the
// controller knows nothing else about the NodeENI.
func TestARefusedFirstListingIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := setStage(t, &cloud{}, declared())
		options := s.reconciler.Options
		options.Observer = observer.New(&cloud{}, observer.Options{Cluster: cluster, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		options.Refusals = &controller.Refusals{}
		options.Refusals.Note("DescribeNetworkInterfaces", eni.Unauthorized, "UnauthorizedOperation")
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

// TestAFirstListThatFailsIsReported has an EC2 that does not answer, and a cluster with another name, from the start of the
// controller.
func TestAFirstListThatFailsIsReported(t *testing.T) {
	otherName := &identity.OtherNameError{InUse: "prod", Configured: "test", Source: "recorded"}
	works := func(n *v1alpha1.NodeENI) {
		n.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAttached, ObservedGeneration: 1}}
	}
	for name, tc := range map[string]struct {
		change func(*v1alpha1.NodeENI)
		err    error
		after  time.Duration
		reason string
	}{
		"a new NodeENI":           {err: errDown, reason: v1alpha1.ReasonUnreadable},
		"one that works":          {change: works, err: errDown, after: time.Minute, reason: v1alpha1.ReasonAttached},
		"one that works, later":   {change: works, err: errDown, after: 3 * time.Minute, reason: v1alpha1.ReasonUnreadable},
		"one that was changed":    {change: func(n *v1alpha1.NodeENI) { works(n); n.Generation = 2 }, err: errDown, reason: v1alpha1.ReasonUnreadable},
		"another name":            {err: otherName, reason: v1alpha1.ReasonOtherClusterName},
		"another name, one works": {change: works, err: otherName, reason: v1alpha1.ReasonOtherClusterName},
	} {
		t.Run(name, func(t *testing.T) {
			n := declared()
			n.Finalizers = nil
			if tc.change != nil {
				tc.change(n)
			}
			s := setStage(t, &cloud{}, n)
			options := s.reconciler.Options
			options.Observer = observer.New(&cloud{listErr: tc.err}, observer.Options{Cluster: cluster, Now: func() time.Time { return s.now }, Log: slog.New(slog.DiscardHandler)})
			s.reconciler = nodeeni.New(options)
			for range 3 {
				if err := options.Observer.ResyncOnce(t.Context()); !errors.Is(err, tc.err) {
					t.Fatal(err)
				}
			}
			s.now = s.now.Add(tc.after)
			if err := s.reconcile(); err != nil {
				t.Fatal(err)
			}
			got := s.read()
			ready := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionReady)
			if ready == nil || ready.Reason != tc.reason || ready.Status == metav1.ConditionFalse && !strings.Contains(ready.Message, tc.err.Error()) {
				t.Fatalf("the Ready condition is %+v", ready)
			}
			if faults := status.Lint(got.Status.Conditions, got.Generation); ready.Status == metav1.ConditionFalse && len(faults) > 0 {
				t.Error(faults)
			}
			if told := len(s.events.Events); told != 1 && ready.Status == metav1.ConditionFalse {
				t.Errorf("%d events, want 1", told)
			}
			version := got.ResourceVersion
			if err := s.reconcile(); err != nil || s.read().ResourceVersion != version {
				t.Errorf("the status was written again (%v)", err)
			}
		})
	}
}

// TestANodeWithoutInterfacesSaysThatEC2DoesNotAnswer loses EC2 after the first list, before a node got its interfaces.
func TestANodeWithoutInterfacesSaysThatEC2DoesNotAnswer(t *testing.T) {
	s := setStage(t, &cloud{subnetsErr: errDown}, declared(), selected("n1"))
	if err := s.reconcile(); !errors.Is(err, errDown) {
		t.Fatal(err)
	}
	ready := meta.FindStatusCondition(s.read().Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Reason != v1alpha1.ReasonUnreadable || !strings.Contains(ready.Message, errDown.Error()) {
		t.Errorf("the Ready condition is %+v", ready)
	}
}

var errDown = errors.New("DescribeNetworkInterfaces: no answer from EC2")

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
