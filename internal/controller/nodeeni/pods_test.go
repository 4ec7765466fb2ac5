// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/status"
	"github.com/multieni/multieni/internal/core/plan"
)

var generated = controller.AttachmentResult{Definitions: 2}

func withPods(n *v1alpha1.NodeENI) {
	n.Spec.Pods = &v1alpha1.NodeENIPods{Namespaces: []string{"upf"}, IPv4: &v1alpha1.PodIPv4{}}
}

// reporting adds the report of a node's agent to an object.
func reporting(change func(*v1alpha1.PodsReport)) func(*v1alpha1.NetworkInterface) {
	return func(o *v1alpha1.NetworkInterface) {
		report := &v1alpha1.PodsReport{Ready: true, Reason: "NetworkReady", Used: 3, Free: 13}
		if change != nil {
			change(report)
		}
		o.Status.Pods = &v1alpha1.PodPrefixes{Prefixes: []string{"10.0.4.16/28"}}
		o.Status.Node = &v1alpha1.NodeReport{Open: true, Pods: report}
	}
}

// TestATypeThatTakesFewerPrefixesIsNamed checks that pods can attach, and that the message names the type that does not
// allow pods.ipv4.prefixes.max.
func TestATypeThatTakesFewerPrefixesIsNamed(t *testing.T) {
	n := declared()
	withPods(n)
	const message = "pods.ipv4.prefixes.max of NodeENI data is 40, and an interface of m5.large takes 9 prefixes"
	reported := attached(n, "n1", reporting(nil), saying(v1alpha1.PhaseAttached, plan.PrefixesLimited, message))
	s := setStage(t, &cloud{}, n, selected("n1"), reported)
	s.attachments.Set("data", generated)
	if err := s.reconcile(); err != nil {
		t.Fatal(err)
	}
	c := apimeta.FindStatusCondition(s.read().Status.Conditions, v1alpha1.ConditionPodNetworkReady)
	if c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "node n1: "+message) {
		t.Errorf("the condition is %+v", c)
	}
	if ready := apimeta.FindStatusCondition(s.read().Status.Conditions, v1alpha1.ConditionReady); ready == nil || ready.Status != metav1.ConditionTrue {
		t.Errorf("the NodeENI is %+v", ready)
	}
}

func TestWhatANodeENISaysOfPods(t *testing.T) {
	reports := func(change func(*v1alpha1.PodsReport)) []func(*v1alpha1.NetworkInterface) {
		return []func(*v1alpha1.NetworkInterface){reporting(change)}
	}
	releasing := func(o *v1alpha1.NetworkInterface) {
		reporting(func(n *v1alpha1.PodsReport) {
			n.Ready, n.Reason, n.Message = false, "NotFound", "no physical link has the MAC address"
		})(o)
		o.Status.Pods.Prefixes = append(o.Status.Pods.Prefixes, "10.0.4.32/28")
		o.Status.Node.Released = []string{"10.0.4.32/28"}
	}
	closed := func(o *v1alpha1.NetworkInterface) { o.Spec.Pods = &v1alpha1.PodSettings{Closed: true} }
	one := &v1alpha1.PodNetworkCounts{Networks: 1, Ready: 1, Prefixes: 1, Used: 3, Free: 13}
	cases := map[string]struct {
		change      func(*v1alpha1.NodeENI)
		definitions *controller.AttachmentResult
		detached    bool
		reports     []func(*v1alpha1.NetworkInterface)
		reason      string // empty for no condition
		counts      *v1alpha1.PodNetworkCounts
		opened      bool
		event       bool
	}{
		"without pods, whatever is reported": {
			change: func(n *v1alpha1.NodeENI) { n.Spec.Pods = nil }, reports: reports(nil), definitions: &generated,
		},
		"all is well": {definitions: &generated, reports: reports(nil), reason: v1alpha1.ReasonNetworkReady, counts: one},
		"the definitions were not looked at": {
			reports: reports(nil), reason: v1alpha1.ReasonAttachmentDefinitionsPending, counts: one,
		},
		"there are no definitions": {
			definitions: &controller.AttachmentResult{Reason: v1alpha1.ReasonAttachmentDefinitionsUnavailable, Message: "no kind"},
			reports:     reports(nil), reason: v1alpha1.ReasonAttachmentDefinitionsUnavailable, counts: one,
		},
		"nothing is attached": {
			definitions: &generated, detached: true, reason: v1alpha1.ReasonNoInterfaces, counts: &v1alpha1.PodNetworkCounts{},
		},
		"an agent says nothing of pods": {definitions: &generated, reason: v1alpha1.ReasonNetworkPending, counts: &v1alpha1.PodNetworkCounts{}},
		"an agent without pod networks": {
			definitions: &generated, reports: reports(func(n *v1alpha1.PodsReport) {
				n.Ready, n.Reason, n.Message = false, v1alpha1.ReasonPodNetworksDisabled, "set pods.enabled=true"
			}), reason: v1alpha1.ReasonPodNetworksDisabled, event: true,
			counts: &v1alpha1.PodNetworkCounts{Networks: 1, Prefixes: 1, Used: 3, Free: 13},
		},
		"the report of an open network is gone": {
			definitions: &generated, opened: true, reason: v1alpha1.ReasonNetworkReportMissing, event: true,
			counts: &v1alpha1.PodNetworkCounts{},
		},
		"an agent waits for the link": {
			definitions: &generated, reports: []func(*v1alpha1.NetworkInterface){releasing}, reason: "NotFound",
			counts: &v1alpha1.PodNetworkCounts{Networks: 1, Prefixes: 2, Draining: 1, Used: 3, Free: 13},
		},
		"it is being deleted": {
			change: func(n *v1alpha1.NodeENI) {
				now := metav1.Now()
				n.DeletionTimestamp, n.Finalizers = &now, []string{v1alpha1.Finalizer}
			},
			definitions: &controller.AttachmentResult{}, reports: reports(nil), reason: v1alpha1.ReasonNetworkDraining, counts: one,
		},
		"it is being deleted, and an agent without pod networks cannot tell when": {
			change: func(n *v1alpha1.NodeENI) {
				now := metav1.Now()
				n.DeletionTimestamp, n.Finalizers = &now, []string{v1alpha1.Finalizer}
			},
			definitions: &controller.AttachmentResult{}, reports: reports(func(n *v1alpha1.PodsReport) {
				n.Ready, n.Reason, n.Message = false, v1alpha1.ReasonPodNetworksDisabled, "set pods.enabled=true"
			}), reason: v1alpha1.ReasonPodNetworksDisabled, event: true,
			counts: &v1alpha1.PodNetworkCounts{Networks: 1, Prefixes: 1, Used: 3, Free: 13},
		},
		"all its interfaces will be removed": {
			definitions: &generated, reports: append(reports(func(n *v1alpha1.PodsReport) {
				n.Ready, n.Reason = false, v1alpha1.ReasonNetworkDraining
			}), closed), reason: v1alpha1.ReasonNetworkDraining,
			counts: &v1alpha1.PodNetworkCounts{Networks: 1, Prefixes: 1, Draining: 1, Used: 3, Free: 13},
		},
		"a pod has lost its link": {
			definitions: &generated, reports: reports(func(n *v1alpha1.PodsReport) {
				n.Reason, n.Message = v1alpha1.ReasonPodsWithoutLink, "delete upf/a"
			}), reason: v1alpha1.ReasonPodsWithoutLink, event: true, counts: one,
		},
		"no agent follows the declared addresses": {
			definitions: &generated, reports: reports(func(n *v1alpha1.PodsReport) {
				n.Reason, n.Message = v1alpha1.ReasonAddressesNotObserved, "set pods.observeAddresses=true"
			}), reason: v1alpha1.ReasonAddressesNotObserved, counts: one,
		},
		"an agent waits for the record of its report": {
			definitions: &generated, reports: reports(func(n *v1alpha1.PodsReport) {
				n.Ready, n.Reason, n.Message = false, v1alpha1.ReasonNetworkPending, "pods can attach once the controller has recorded this report"
			}), reason: v1alpha1.ReasonNetworkPending, counts: &v1alpha1.PodNetworkCounts{Networks: 1, Prefixes: 1, Used: 3, Free: 13},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := declared()
			withPods(n)
			if tc.change != nil {
				tc.change(n)
			}
			changes := tc.reports
			if tc.opened {
				changes = append(changes, func(o *v1alpha1.NetworkInterface) { o.Status.Node = &v1alpha1.NodeReport{Open: true} })
			}
			if tc.detached {
				changes = append(changes, saying(v1alpha1.PhaseCreating, plan.InProgress, "it is being created"))
			}
			s := setStage(t, &cloud{}, n, selected("n1"), attached(n, "n1", changes...))
			if tc.definitions != nil {
				s.attachments.Set("data", *tc.definitions)
			}
			if err := s.reconcile(); err != nil {
				t.Fatal(err)
			}
			got := s.read().Status
			reason := ""
			if c := apimeta.FindStatusCondition(got.Conditions, v1alpha1.ConditionPodNetworkReady); c != nil {
				reason = c.Reason
				t.Log(c.Message)
			}
			if reason != tc.reason {
				t.Errorf("reason %q, want %q", reason, tc.reason)
			}
			if diff := cmp.Diff(tc.counts, got.PodNetworks); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
			if len(s.events.Events) > 0 != tc.event {
				t.Errorf("%d events, want some: %t", len(s.events.Events), tc.event)
			}
			for _, fault := range status.Lint(got.Conditions, 1) {
				t.Error(fault)
			}
		})
	}
}

// TestTheConditionStaysUntilDefinitionsAreDeleted checks the condition, which shows a restarted controller that
// definitions exist.
func TestTheConditionStaysUntilDefinitionsAreDeleted(t *testing.T) {
	n := declared()
	withPods(n)
	s := setStage(t, &cloud{}, n)
	if err := s.reconcile(); err != nil {
		t.Fatal(err)
	}
	n = s.read()
	n.Spec.Pods = nil
	if err := s.kube.Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	has := func() bool {
		if err := s.reconcile(); err != nil {
			t.Fatal(err)
		}
		return apimeta.FindStatusCondition(s.read().Status.Conditions, v1alpha1.ConditionPodNetworkReady) != nil
	}
	if !has() {
		t.Error("the condition is gone before the definitions")
	}
	s.attachments.Set("data", controller.AttachmentResult{})
	if has() {
		t.Error("the condition stays after the definitions")
	}
}

// TestPodsThatComeAndGoAreWrittenSeldom changes the number of used addresses, which the status counts.
func TestPodsThatComeAndGoAreWrittenSeldom(t *testing.T) {
	n := declared()
	withPods(n)
	reported := attached(n, "n1", reporting(nil))
	s := setStage(t, &cloud{}, n, selected("n1"), reported)
	s.attachments.Set("data", generated)
	if err := s.reconcile(); err != nil {
		t.Fatal(err)
	}
	writes, version := 0, s.read().ResourceVersion
	const minutes, churn = 2, time.Second
	for second := range minutes * 60 {
		s.now = s.now.Add(churn)
		var current v1alpha1.NetworkInterface
		if err := s.kube.Get(t.Context(), client.ObjectKey{Name: reported.Name}, &current); err != nil {
			t.Fatal(err)
		}
		current.Status.Node.Pods.Used = int32(second % 16)
		if err := s.kube.Status().Update(t.Context(), &current); err != nil {
			t.Fatal(err)
		}
		if err := s.reconcile(); err != nil {
			t.Fatal(err)
		}
		if now := s.read().ResourceVersion; now != version {
			writes, version = writes+1, now
		}
	}
	if writes == 0 || writes > 6*minutes {
		t.Errorf("%d writes in %d minutes of pods that come and go each second", writes, minutes)
	}
}

// TestOnlyPodsThatAnAgentNamesAreTriedAgain has a closed interface, whose pods are to be evicted. Without their names the
// next report of the agent is awaited, and not polled.
func TestOnlyPodsThatAnAgentNamesAreTriedAgain(t *testing.T) {
	for name, pods := range map[string][]v1alpha1.PodReference{
		"no pod is named": nil, "a pod is named": {{Namespace: "upf", Name: "upf-0", UID: "uid-pod"}},
	} {
		n := declared()
		withPods(n)
		closed := func(o *v1alpha1.NetworkInterface) {
			o.Spec.Pods = &v1alpha1.PodSettings{Closed: true, OnRemoval: v1alpha1.PodsEvict}
		}
		s := setStage(t, &cloud{}, n, selected("n1"), attached(n, "n1", closed,
			reporting(func(r *v1alpha1.PodsReport) { r.Pods = pods })))
		result, err := s.reconciler.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "data"}})
		if soon := result.RequeueAfter <= 10*time.Second; err != nil || soon != (pods != nil) {
			t.Errorf("%s: %v, and the next attempt is after %v", name, err, result.RequeueAfter)
		}
	}
}

// TestAnInterfaceThatGoesNamesItsPods has two interfaces that the NodeENI no longer declares, and that pods use.
func TestAnInterfaceThatGoesNamesItsPods(t *testing.T) {
	const wait = "delete or move the pods, or set pods.onRemoval: Evict"
	for onRemoval, want := range map[v1alpha1.PodsOnRemoval][]string{
		v1alpha1.PodsWait:  {wait, wait},
		v1alpha1.PodsEvict: {"multieni evicts pods on no more than 1 node at a time (maxUnavailable)", "multieni evicts them"},
	} {
		n := declared()
		withPods(n)
		n.Spec.MaxUnavailable = 1
		closed := func(o *v1alpha1.NetworkInterface) {
			o.Spec.Pods = &v1alpha1.PodSettings{Closed: true, OnRemoval: onRemoval}
		}
		using := reporting(func(r *v1alpha1.PodsReport) {
			r.Pods = []v1alpha1.PodReference{{Namespace: "upf", Name: "a", UID: "u"}}
		})
		s := setStage(t, &cloud{}, n, unselected("n1"), attached(n, "n1", using, closed), unselected("n2"), attached(n, "n2", using, closed))
		if err := s.reconcile(); err != nil {
			t.Fatal(err)
		}
		var steps []string
		for _, a := range s.read().Status.Attachments {
			cause, step, _ := strings.Cut(a.Message, "; ")
			if want := a.ENIID + " will be removed, and is not detached while pods have addresses of it: upf/a and 2 more"; cause != want ||
				a.Reason != string(plan.InUseByPods) {
				t.Errorf("%s: %s: %s, want %s", a.NodeID, a.Reason, cause, want)
			}
			steps = append(steps, step)
		}
		slices.Sort(steps)
		if diff := cmp.Diff(want, steps); diff != "" {
			t.Errorf("%s: the next steps (-want +got):\n%s", onRemoval, diff)
		}
	}
}
