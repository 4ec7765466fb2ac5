// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestAnEmptySelectorSelectsNothing(t *testing.T) {
	if controller.Selector(v1alpha1.NodeENISpec{}).Matches(labels.Set{"any": "label"}) {
		t.Error("a NodeENI without a selector selects every node")
	}
}

func TestASingleSubnetIsAListOfOne(t *testing.T) {
	cases := map[string]struct {
		spec       v1alpha1.NodeENISpec
		ids, names []string
	}{
		"ID":    {v1alpha1.NodeENISpec{SubnetID: "subnet-1"}, []string{"subnet-1"}, nil},
		"name":  {v1alpha1.NodeENISpec{SubnetName: "a"}, nil, []string{"a"}},
		"IDs":   {v1alpha1.NodeENISpec{SubnetIDs: []string{"subnet-2", "subnet-1"}}, []string{"subnet-2", "subnet-1"}, nil},
		"names": {v1alpha1.NodeENISpec{SubnetNames: []string{"b", "a"}}, nil, []string{"b", "a"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			terms := controller.SubnetTerms(tc.spec)
			if diff := cmp.Diff([][]string{tc.ids, tc.names}, [][]string{terms.IDs, terms.Names}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestASlimNodeIsStillANode(t *testing.T) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n", UID: "u", ResourceVersion: "7", Labels: map[string]string{"k": "v"}, Annotations: map[string]string{"big": "text"},
			CreationTimestamp: metav1.NewTime(start), DeletionTimestamp: &metav1.Time{Time: start},
		},
		Spec: corev1.NodeSpec{
			ProviderID: "aws:///a/i-1", PodCIDR: "10.0.0.0/24",
			Taints: []corev1.Taint{{Key: "other", Effect: corev1.TaintEffectNoSchedule}, {Key: v1alpha1.NotReadyTaint, Effect: corev1.TaintEffectNoSchedule}},
		},
		Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{Names: []string{"big"}}}},
	}
	slim, err := controller.TrimNode(node)
	if err != nil {
		t.Fatal(err)
	}
	want := node.DeepCopy()
	want.Status, want.Spec.PodCIDR = corev1.NodeStatus{}, ""
	got := slim.(*corev1.Node)
	want.Annotations = got.Annotations // The reconcilers decide which of them they need.
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if other, err := controller.TrimNode("a tombstone"); err != nil || other != "a tombstone" {
		t.Errorf("what is no node became %v, %v", other, err)
	}
}

func TestASlimInterfaceSaysTheSame(t *testing.T) {
	o := &v1alpha1.NetworkInterface{
		ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", Labels: map[string]string{"k": "v"}, Finalizers: []string{"f"}},
		Spec: v1alpha1.NetworkInterfaceSpec{
			InstanceID: "i-1", Zone: "z", NodeENI: v1alpha1.NodeENIReference{Name: "data", UID: "u"}, SecurityGroupIDs: []string{"sg"},
			Subnets: append(make([]v1alpha1.InterfaceSubnet, 0, 4), v1alpha1.InterfaceSubnet{ID: "s", CIDR: "10.0.0.0/24"}),
		},
		Status: v1alpha1.NetworkInterfaceStatus{
			Phase: v1alpha1.PhaseAttached, ENIID: "eni-1", SubnetID: "s", SecurityGroupIDs: []string{"sg"},
			Conditions: []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Attached", Message: "all"}},
			Node:       &v1alpha1.NodeReport{Open: true, Link: &v1alpha1.LinkReport{State: v1alpha1.LinkReady, Reason: "Ready"}},
		},
	}
	want := o.DeepCopy()
	o.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "somebody"}}
	trimmed, err := controller.TrimInterface(o)
	if err != nil {
		t.Fatal(err)
	}
	slim := trimmed.(*v1alpha1.NetworkInterface)
	if diff := cmp.Diff(want, slim); diff != "" {
		t.Error(diff)
	}
	if room := cap(slim.Spec.Subnets); room > 1 {
		t.Errorf("there is room for %d subnets", room)
	}
	if other, err := controller.TrimInterface("a tombstone"); err != nil || other != "a tombstone" {
		t.Errorf("what is no interface became %v, %v", other, err)
	}
}

func TestNodeUpdatesThatMatter(t *testing.T) {
	base := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", Labels: map[string]string{"k": "v"}}}
	cases := map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"heartbeat":  {func(n *corev1.Node) { n.ResourceVersion, n.Status.Phase = "8", "x" }, false},
		"label":      {func(n *corev1.Node) { n.Labels = map[string]string{"k": "w"} }, true},
		"no labels":  {func(n *corev1.Node) { n.Labels = nil }, true},
		"providerID": {func(n *corev1.Node) { n.Spec.ProviderID = "aws:///a/i-1" }, true},
		"UID":        {func(n *corev1.Node) { n.UID = "other" }, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			now := base.DeepCopy()
			tc.change(now)
			if got := controller.NodeIdentityChanged().Update(event.UpdateEvent{ObjectOld: base.DeepCopy(), ObjectNew: now}); got != tc.want {
				t.Errorf("passes: %t, want %t", got, tc.want)
			}
		})
	}
}

func TestNodeENIUpdatesThatMatter(t *testing.T) {
	cases := map[string]struct {
		change func(*v1alpha1.NodeENI)
		want   bool
	}{
		"status":    {func(n *v1alpha1.NodeENI) { n.ResourceVersion, n.Status.Nodes = "8", 3 }, false},
		"spec":      {func(n *v1alpha1.NodeENI) { n.Generation++ }, true},
		"deletion":  {func(n *v1alpha1.NodeENI) { n.DeletionTimestamp = &metav1.Time{Time: start} }, true},
		"finalizer": {func(n *v1alpha1.NodeENI) { n.Finalizers = []string{"f"} }, true},
		"UID":       {func(n *v1alpha1.NodeENI) { n.UID = "other" }, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var was, now v1alpha1.NodeENI
			tc.change(&now)
			if got := controller.SpecOrLifeChanged().Update(event.UpdateEvent{ObjectOld: &was, ObjectNew: &now}); got != tc.want {
				t.Errorf("passes: %t, want %t", got, tc.want)
			}
		})
	}
}

// lock is a lease whose calls fail on demand and take some time.
type lock struct {
	resourcelock.Interface
	identity string
	call     func() error
}

func (l lock) Identity() string { return l.identity }

func (l lock) Create(context.Context, resourcelock.LeaderElectionRecord) error { return l.call() }

func (l lock) Update(context.Context, resourcelock.LeaderElectionRecord) error { return l.call() }

func TestTheFence(t *testing.T) {
	now := start
	var failure error
	took := 4 * time.Second
	fence := &controller.Fence{Deadline: 10 * time.Second, Now: func() time.Time { return now }}
	guarded := fence.Wrap(lock{identity: "me", call: func() error { now = now.Add(took); return failure }})
	renew := func(holder string) {
		_ = guarded.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: holder})
	}
	open := func() bool { return fence.Check() == nil }

	if open() {
		t.Error("open before the lease was ever held")
	}
	if err := guarded.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"}); err != nil || !open() {
		t.Error("closed with the lease in hand")
	}
	if now = now.Add(6 * time.Second); !open() {
		t.Error("closed within the deadline, counted from before the call")
	}
	if now = now.Add(time.Second); open() {
		t.Error("open past the deadline")
	}
	failure = errors.New("no answer")
	if renew("me"); open() {
		t.Error("a renewal that failed opens it")
	}
	failure = nil
	if renew("me"); !open() {
		t.Error("a renewal does not open it")
	}
	if renew(""); open() {
		t.Error("open after the lease was given up")
	}
}

// TestTheEraBeginsWithTheLease gets the lease, renews it and gives it up.
func TestTheEraBeginsWithTheLease(t *testing.T) {
	now := start
	failure := errors.New("another process holds it")
	fence := &controller.Fence{Deadline: 10 * time.Second, Now: func() time.Time { return now }}
	guarded := fence.Wrap(lock{identity: "me", call: func() error { return failure }})
	steps := []struct {
		what, holder string
		failure      error
		want         time.Time
	}{
		{"another process holds it", "me", failure, time.Time{}},
		{"it got the lease", "me", nil, start.Add(2 * time.Second)},
		{"it renewed the lease", "me", nil, start.Add(2 * time.Second)},
		{"a renewal failed", "me", failure, start.Add(2 * time.Second)},
		{"it gave the lease up", "", nil, start.Add(2 * time.Second)},
	}
	for _, step := range steps {
		now, failure = now.Add(time.Second), step.failure
		_ = guarded.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: step.holder})
		if got := fence.Era().Since; !got.Equal(step.want) {
			t.Errorf("%s: the era began at %s, want %s", step.what, got, step.want)
		}
	}
}

// TestRefusalsThatAreNotRepeatedEnd: a writer that does not need a refused write any more, because the object is gone or
// fits again, settles what is left, and the NodeENI learns of that.
func TestRefusalsThatAreNotRepeatedEnd(t *testing.T) {
	var r controller.RejectedWrites
	refused := apierrors.NewForbidden(schema.GroupResource{}, "", nil)
	for _, of := range []controller.ObjectRef{
		{Kind: "NetworkInterface", Name: "a", NodeENI: "data", Writer: "node-1"},
		{Kind: "NetworkInterface", Name: "b", NodeENI: "data", Writer: "node-1"},
		{Kind: "NetworkInterface", Name: "c", NodeENI: "data", Writer: "node-2"},
		{Kind: "NetworkInterface/status", Name: "a", NodeENI: "data", Writer: "i-1"},
	} {
		r.Note(of, refused)
	}
	r.Changed()
	r.Settle("NetworkInterface", "node-1", map[string]bool{"b": true})
	if names, changed := slices.Sorted(maps.Keys(r.OfNodeENI("data"))), r.Changed(); r.Count() != 3 ||
		!slices.Equal(names, []string{"a", "b", "c"}) || !slices.Equal(changed, []string{"data"}) {
		t.Errorf("%v are refused, %v changed", names, changed)
	}
	r.Settle("NetworkInterface/status", "i-1", nil)
	if names := slices.Sorted(maps.Keys(r.OfNodeENI("data"))); !slices.Equal(names, []string{"b", "c"}) {
		t.Errorf("%v are refused", names)
	}
}
