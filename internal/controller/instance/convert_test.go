// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package instance_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/instance"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/controller/status"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

var created = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// podded returns an object with a network for pods.
func podded() *v1alpha1.NetworkInterface {
	s := spec(instanceID, nodeName, 0)
	s.Pods = &render.Pods{Attachment: "IPVLAN", IPv4: &render.PodPrefixes{Min: 2, Max: 4, Spare: 8}, IPv6Prefixes: 1}
	o := object.New(identity.ObjectName("data", instanceID, 0), s)
	o.UID, o.Generation, o.CreationTimestamp = "uid", 3, metav1.NewTime(created)
	return o
}

func TestAnObjectIsPlanned(t *testing.T) {
	o := podded()
	o.Status = v1alpha1.NetworkInterfaceStatus{
		ENIID: "eni-1", Evidence: v1alpha1.EvidenceTakenOver, Requested: []string{"10.0.1.9", "10.0.1.16/28"},
		Pods: &v1alpha1.PodPrefixes{Prefixes: []string{"10.0.1.16/28"}},
		Node: &v1alpha1.NodeReport{Open: true, Pods: &v1alpha1.PodsReport{Wanted: 3}},
	}
	i := instance.Interface(cluster, o)
	want := plan.PrefixDemand{Pods: true, Wanted: 3, Max: 4, Granted: []netip.Prefix{netip.MustParsePrefix("10.0.1.16/28")}}
	if diff := cmp.Diff(want, i.Prefixes, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("the demand of pods (-want +got):\n%s", diff)
	}
	if i.Goal != plan.Serve || !i.Held || i.ENIID != "eni-1" || !i.Since.Equal(created) || i.Settings.IPv4Prefixes != 2 || i.Settings.IPv6Prefixes != 1 ||
		len(i.Requested.SecondaryIPv4) != 1 || len(i.Requested.IPv4Prefixes) != 1 {
		t.Errorf("the interface is %+v", i)
	}
	if i.Key.Token() != "uid" || i.Tags[identity.TagInterface] != o.Name || i.Tags[identity.TagCreatedAt] != "1767323045" {
		t.Errorf("its key is %+v, and its tags are %v", i.Key, i.Tags)
	}
	o.DeletionTimestamp = &metav1.Time{Time: created}
	if i := instance.Interface(cluster, o); i.Goal != plan.Release || !i.Held {
		t.Errorf("while it is being deleted the interface is %+v", i)
	}
}

// stateOf is the state of an attached interface.
func stateOf(change func(*plan.State)) plan.State {
	s := plan.State{
		Goal: plan.Serve, Phase: plan.Attached, Evidence: plan.Created,
		Interface: &eni.Interface{
			ID: "eni-1", SubnetID: data, MAC: "02:00:00:00:00:01", Groups: []string{"sg-2", "sg-1"},
			Addresses:  eni.Addresses{PrimaryIPv4: netip.MustParseAddr("10.0.1.4"), IPv4Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.1.16/28")}},
			Attachment: &eni.Attachment{ID: "attach-1", InstanceID: instanceID, Slot: eni.Slot{Device: 1}, Status: eni.AttachmentAttached},
		},
		Granted: []netip.Prefix{netip.MustParsePrefix("10.0.1.16/28")},
	}
	change(&s)
	return s
}

func TestTheStatusSaysWhatEC2Shows(t *testing.T) {
	st := instance.Status(podded(), stateOf(func(*plan.State) {}))
	if st.ENIID != "eni-1" || st.Evidence != v1alpha1.EvidenceCreated || st.AttachmentID != "attach-1" || st.Slot == nil || st.Slot.DeviceIndex != 1 ||
		st.Addresses.PrivateIP != "10.0.1.4" || st.SubnetID != data || st.ObservedGeneration != 3 || !cmp.Equal(st.SecurityGroupIDs, []string{"sg-1", "sg-2"}) ||
		!cmp.Equal(st.Pods.Prefixes, []string{"10.0.1.16/28"}) {
		t.Errorf("the status is %+v", st)
	}
}

// TestAStatusOnlyEverRecordsOneInterface has a state of another interface than the recorded one.
func TestAStatusOnlyEverRecordsOneInterface(t *testing.T) {
	o := podded()
	o.Status.ENIID, o.Status.MACAddress = "eni-0", "02:00:00:00:00:00"
	if st := instance.Status(o, stateOf(func(*plan.State) {})); st.ENIID != "eni-0" || st.MACAddress != o.Status.MACAddress {
		t.Errorf("the status is %+v", st)
	}
}

func TestAGrantedPrefixStays(t *testing.T) {
	o := podded()
	o.Status.Pods = &v1alpha1.PodPrefixes{Prefixes: []string{"10.0.1.32/28"}, Returning: []string{"10.0.1.16/28"}}
	st := instance.Status(o, stateOf(func(*plan.State) {}))
	if diff := cmp.Diff(o.Status.Pods, st.Pods); diff != "" {
		t.Errorf("the prefixes (-want +got):\n%s", diff)
	}
	if st := instance.Status(o, stateOf(func(s *plan.State) { s.Granted = nil })); !cmp.Equal(st.Pods, o.Status.Pods) {
		t.Errorf("without pods they are %+v", st.Pods)
	}
}

func TestTheConditionsOfAnInterface(t *testing.T) {
	ready := func(o *v1alpha1.NetworkInterface) {
		o.Status.Conditions = status.Summarize(nil, 2, status.Outcome{State: status.Ready, Reason: v1alpha1.ReasonAttached, Message: "m"})
		o.Status.ObservedGeneration = 2
	}
	problem := func(reason plan.Reason) func(*plan.State) {
		return func(s *plan.State) { s.Problem = plan.Problem{Reason: reason, Message: "m"} }
	}
	for name, tc := range map[string]struct {
		before     func(*v1alpha1.NetworkInterface)
		state      func(*plan.State)
		ready      bool
		stalled    bool
		reason     string
		generation int64
	}{
		"attached":                         {state: func(*plan.State) {}, ready: true, reason: "Attached", generation: 3},
		"attached with a limit":            {state: problem(plan.PrefixesLimited), ready: true, reason: "PrefixesLimited", generation: 3},
		"a change is on its way":           {before: ready, state: problem(plan.InProgress), ready: true, reason: "Attached", generation: 2},
		"a first change is on its way":     {state: problem(plan.InProgress), reason: "InProgress", generation: 3},
		"another program reverts a change": {before: ready, state: problem(plan.Reverted), stalled: true, reason: "Reverted", generation: 3},
		"it is paused": {before: ready, state: func(s *plan.State) {
			s.Goal, s.Problem = plan.Keep, plan.Problem{Reason: v1alpha1.ReasonPaused, Message: "m"}
		}, ready: true, reason: "Attached", generation: 2},
		"it is paused, and attached elsewhere": {before: ready, state: func(s *plan.State) {
			s.Goal, s.Phase, s.Problem = plan.Keep, plan.Blocked, plan.Problem{Reason: v1alpha1.ReasonPaused, Message: "m"}
		}, stalled: true, reason: "Paused", generation: 3},
		"it is being attached": {state: func(s *plan.State) {
			s.Phase, s.Problem = plan.Attaching, plan.Problem{Reason: plan.InProgress, Message: "m"}
		}, reason: "InProgress", generation: 3},
		"it waits for its pods": {before: func(o *v1alpha1.NetworkInterface) {
			ready(o)
			o.DeletionTimestamp = &metav1.Time{Time: created}
		}, state: func(s *plan.State) {
			s.Goal, s.Problem = plan.Release, plan.Problem{Reason: plan.InUseByPods, Message: "m"}
		}, reason: "InUseByPods", generation: 3},
		"a hook made it": {state: func(s *plan.State) {
			s.Goal, s.Problem = plan.Keep, plan.Problem{Reason: plan.Retained, Message: "m"}
		}, ready: true, reason: "Retained", generation: 3},
	} {
		t.Run(name, func(t *testing.T) {
			o := podded()
			if tc.before != nil {
				tc.before(o)
			}
			st := instance.Status(o, stateOf(tc.state))
			c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionReady)
			if (c.Status == metav1.ConditionTrue) != tc.ready || c.Reason != tc.reason || st.ObservedGeneration != tc.generation ||
				meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionStalled) != tc.stalled {
				t.Errorf("of generation %d: %+v", st.ObservedGeneration, st.Conditions)
			}
			for _, fault := range status.Lint(st.Conditions, o.Generation) {
				t.Error(fault)
			}
		})
	}
}

// TestOtherConditionsStay has conditions that other reconcilers write.
func TestOtherConditionsStay(t *testing.T) {
	o := podded()
	o.Status.Conditions = append(status.Summarize(nil, 3, status.Outcome{State: status.Progressing, Reason: "R", Message: "m"}),
		metav1.Condition{Type: v1alpha1.ConditionDrifted, Status: metav1.ConditionTrue, Reason: "R", Message: "m"})
	st := instance.Status(o, stateOf(func(*plan.State) {}))
	if !meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionDrifted) || len(st.Conditions) != 2 {
		t.Errorf("the conditions are %+v", st.Conditions)
	}
}
