// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/observer"
	"github.com/multieni/multieni/internal/aws/resolver"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/controllertest"
	"github.com/multieni/multieni/internal/controller/nodeeni"
	"github.com/multieni/multieni/internal/controller/status"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/era"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/selector"
)

const cluster = "cluster-1"

var start = time.Unix(1_800_000_000, 0)

// cloud returns two subnets, one group, and the interfaces that a test sets.
type cloud struct {
	observer.Reader
	// known are in the list of the cluster, left in the list of the NodeENI.
	known, left []eni.Interface
	err         error
	subnetsErr  error
	listErr     error
}

func (c *cloud) ListOwned(context.Context) ([]eni.Interface, time.Time, error) {
	return c.known, start, c.listErr
}

func (c *cloud) ListByOwner(context.Context, identity.Owner) ([]eni.Interface, error) {
	return c.left, c.err
}

func (c *cloud) Subnets(context.Context, selector.SubnetTerms) ([]eni.Subnet, error) {
	return []eni.Subnet{{ID: "s1", Zone: "a", VPCID: "v"}, {ID: "s2", Zone: "b", VPCID: "v"}}, c.subnetsErr
}

func (c *cloud) SecurityGroups(context.Context, selector.GroupTerms) ([]eni.SecurityGroup, error) {
	return []eni.SecurityGroup{{ID: "g1", VPCID: "v"}}, nil
}

func owned() []eni.Interface {
	m := identity.Member{
		Cluster: cluster, NodeENI: "data", Node: "node-1", InstanceID: "i-00000000000000001", Key: identity.Key{Owner: "uid"}, Generation: 1,
	}
	return []eni.Interface{{ID: "eni-1", Status: eni.Available, Tags: m.Tags(start, nil)}}
}

func declared() *v1alpha1.NodeENI {
	return &v1alpha1.NodeENI{
		ObjectMeta: metav1.ObjectMeta{Name: "data", UID: "uid", Generation: 1, Finalizers: []string{v1alpha1.Finalizer}},
		Spec: v1alpha1.NodeENISpec{
			NodeSelector: map[string]v1alpha1.LabelValue{"eni": "on"}, SubnetIDs: []string{"s1", "s2"}, SecurityGroupIDs: []string{"g1"},
			DeviceIndex: 1, UpdatePolicy: v1alpha1.UpdateInPlace, MaxUnavailable: 2,
		},
	}
}

func selected(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"eni": "on"}},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///a/" + instanceOf(name)},
	}
}

// unselected returns a Node that the NodeENI does not select.
func unselected(name string) *corev1.Node {
	n := selected(name)
	n.Labels = nil
	return n
}

// secondName returns a younger Node with the instance of another one.
func secondName(name string) *corev1.Node {
	n := selected(name)
	n.Name, n.CreationTimestamp = name+"-again", metav1.NewTime(start)
	return n
}

// instanceOf returns the instance of a node.
func instanceOf(node string) string { return fmt.Sprintf("i-%017x", crc32.ChecksumIEEE([]byte(node))) }

// state returns the NodeENIState of a node with its only interface of the NodeENI.
func state(name string, i v1alpha1.InterfaceState) *v1alpha1.NodeENIState {
	i.Member = v1alpha1.Member{NodeENI: "data", NodeENIUID: "uid", Generation: 1}
	return &v1alpha1.NodeENIState{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.NodeENIStateSpec{InstanceID: instanceOf(name), Members: []v1alpha1.Member{i.Member}},
		Status: v1alpha1.NodeENIStateStatus{
			InstanceID: instanceOf(name), Interfaces: []v1alpha1.InterfaceState{i},
			NodeENIs: []v1alpha1.ObservedNodeENI{{NodeENI: "data", NodeENIUID: "uid", ObservedGeneration: 1}},
		},
	}
}

// stage is a reconciler with its inputs.
type stage struct {
	*testing.T
	kube          client.Client
	inFlight      *controller.InFlight
	refusedWrites *controller.RejectedWrites
	attachments   *controller.AttachmentDefinitions
	events        *events.FakeRecorder
	observer      *observer.Observer
	reconciler    *nodeeni.Reconciler
	era           era.Era
	now           time.Time
}

func setStage(t *testing.T, c *cloud, objects ...client.Object) *stage {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	s := &stage{T: t, inFlight: &controller.InFlight{}, refusedWrites: &controller.RejectedWrites{}, attachments: &controller.AttachmentDefinitions{}, events: events.NewFakeRecorder(10), era: era.Era{Since: start.Add(-time.Hour)}, now: start}
	clock := func() time.Time { return s.now }
	watch := observer.New(c, observer.Options{Cluster: cluster, Now: clock, Log: quiet})
	if err := watch.ResyncOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.kube, s.observer = controllertest.API(t, objects...), watch
	s.reconciler = nodeeni.New(nodeeni.Options{
		Client: s.kube, Reader: s.kube, Observer: watch, InFlight: s.inFlight, Era: func() era.Era { return s.era }, RefusedWrites: s.refusedWrites, Attachments: s.attachments, Events: s.events, Reresolve: time.Hour, ReresolveMissing: time.Minute,
		Resolver: resolver.New(c, resolver.Options{Now: clock}), Concurrency: 1, Now: clock, Log: quiet,
	})
	return s
}

func (s *stage) reconcile() error {
	_, err := s.reconciler.Reconcile(s.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "data"}})
	return err
}

// read returns the NodeENI, nil if there is none.
func (s *stage) read() *v1alpha1.NodeENI {
	s.Helper()
	var n v1alpha1.NodeENI
	if err := s.kube.Get(s.Context(), client.ObjectKey{Name: "data"}, &n); err != nil {
		if client.IgnoreNotFound(err) != nil {
			s.Fatal(err)
		}
		return nil
	}
	return &n
}

// TestANodeConcernsWhatSelectsItsInstance checks which changes of Nodes reach a NodeENI: the status names the older Node
// of an instance, even one that the NodeENI does not select.
func TestANodeConcernsWhatSelectsItsInstance(t *testing.T) {
	cases := map[string]struct {
		changed  *corev1.Node
		others   []client.Object
		concerns bool
	}{
		"it is selected":                   {changed: selected("n1"), concerns: true},
		"another Node is selected":         {changed: unselected("n1"), others: []client.Object{selected("n2")}},
		"its instance's other is selected": {changed: unselected("n1"), others: []client.Object{secondName("n1")}, concerns: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := setStage(t, &cloud{}, tc.others...)
			if got := s.reconciler.Concerned(t.Context(), tc.changed)(declared()); got != tc.concerns {
				t.Errorf("the change concerns the NodeENI: %t", got)
			}
		})
	}
}

// TestWhatANodeENISays computes the status from the nodes' states.
func TestWhatANodeENISays(t *testing.T) {
	attached := v1alpha1.InterfaceState{Phase: v1alpha1.PhaseAttached, ENIID: "eni-1"}
	drifted := attached
	drifted.Drift = []v1alpha1.Drift{{Field: "subnet", Want: "s2", Have: "s1"}}
	stuck := v1alpha1.InterfaceState{Phase: v1alpha1.PhaseBlocked, Reason: string(plan.SlotTaken), Message: "device 1 is held by eni-9"}
	replace := func(n *v1alpha1.NodeENI) { n.Spec.UpdatePolicy = v1alpha1.UpdateReplace }
	cases := map[string]struct {
		change  func(*v1alpha1.NodeENI)
		cloud   cloud
		objects []client.Object
		reason  string
		counts  string
	}{
		"no node is selected": {reason: v1alpha1.ReasonNoNodes, counts: "0 0 0 0 0"},
		"a node of which nothing is known": {
			objects: []client.Object{selected("n1")}, reason: v1alpha1.ReasonProgressing, counts: "0 0 0 0 0",
		},
		"the instance of a node has an older Node, which is not selected": {
			objects: []client.Object{unselected("n1"), state("n1", v1alpha1.InterfaceState{Phase: v1alpha1.PhaseAttached, Reason: string(plan.Retained), ENIID: "eni-1"}), secondName("n1")},
			reason:  v1alpha1.ReasonInstanceHasAnotherNode, counts: "0 0 0 0 0",
		},
		"the instance of a node has an older Node, of which nothing is known": {
			objects: []client.Object{unselected("n1"), secondName("n1")}, reason: v1alpha1.ReasonInstanceHasAnotherNode, counts: "0 0 0 0 0",
		},
		"both Nodes of an instance are selected": {
			objects: []client.Object{selected("n1"), state("n1", attached), secondName("n1")},
			reason:  v1alpha1.ReasonInstanceHasAnotherNode, counts: "1 1 1 0 0",
		},
		"all is attached": {
			objects: []client.Object{selected("n1"), state("n1", attached)}, reason: v1alpha1.ReasonAttached, counts: "1 1 1 0 0",
		},
		"one is attaching": {
			objects: []client.Object{selected("n1"), state("n1", attached), selected("n2"), state("n2", v1alpha1.InterfaceState{Phase: v1alpha1.PhaseAttaching})},
			reason:  v1alpha1.ReasonProgressing, counts: "2 1 1 0 0",
		},
		"one is blocked": {
			objects: []client.Object{selected("n1"), state("n1", attached), selected("n2"), state("n2", stuck)},
			reason:  string(plan.SlotTaken), counts: "2 1 1 1 0",
		},
		"one is leaving": {
			objects: []client.Object{selected("n1"), state("n1", attached), state("n2", v1alpha1.InterfaceState{Phase: v1alpha1.PhaseDetaching, Reason: string(plan.Removing)})},
			reason:  v1alpha1.ReasonAttached, counts: "1 1 1 0 0",
		},
		"one has drifted": {
			objects: []client.Object{selected("n1"), state("n1", drifted)}, reason: v1alpha1.ReasonDrifted, counts: "1 1 0 0 1",
		},
		"one has drifted and is to be replaced": {
			change: replace, objects: []client.Object{selected("n1"), state("n1", drifted)}, reason: string(plan.Replacing), counts: "1 1 0 0 1",
		},
		"one is blocked while others wait to be replaced": {
			change: replace, objects: []client.Object{selected("n1"), state("n1", drifted), selected("n2"), state("n2", stuck)},
			reason: string(plan.SlotTaken), counts: "2 1 0 1 1",
		},
		"it is paused": {
			change:  func(n *v1alpha1.NodeENI) { n.Annotations = map[string]string{v1alpha1.PausedAnnotation: ""} },
			objects: []client.Object{selected("n1"), state("n1", attached)}, reason: v1alpha1.ReasonPaused, counts: "1 1 1 0 0",
		},
		"it is paused, and deleted": {
			change: func(n *v1alpha1.NodeENI) {
				n.Annotations, n.DeletionTimestamp = map[string]string{v1alpha1.PausedAnnotation: ""}, &metav1.Time{Time: start}
			},
			objects: []client.Object{selected("n1"), state("n1", attached)}, reason: v1alpha1.ReasonPaused, counts: "1 1 1 0 0",
		},
		"a subnet does not exist": {
			change:  func(n *v1alpha1.NodeENI) { n.Spec.SubnetIDs = []string{"s1", "s9"} },
			objects: []client.Object{selected("n1"), state("n1", attached)}, reason: string(plan.SubnetNotFound), counts: "1 1 1 0 0",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := declared()
			if tc.change != nil {
				tc.change(n)
			}
			s := setStage(t, &tc.cloud, append(tc.objects, n)...)
			if err := s.reconcile(); err != nil {
				t.Fatal(err)
			}
			got := s.read().Status
			if counts := fmt.Sprint(got.Desired, got.Attached, got.Ready, got.Blocked, got.Drifted); counts != tc.counts {
				t.Errorf("desired, attached, ready, blocked, drifted: %s, want %s", counts, tc.counts)
			}
			if ready := apimeta.FindStatusCondition(got.Conditions, v1alpha1.ConditionReady); ready == nil || ready.Reason != tc.reason {
				t.Errorf("want the reason %s: %+v", tc.reason, ready)
			}
			for _, fault := range status.Lint(got.Conditions, 1) {
				t.Error(fault)
			}
			version := s.read().ResourceVersion
			if err := s.reconcile(); err != nil || s.read().ResourceVersion != version {
				t.Errorf("the same facts make for another write (%v)", err)
			}
		})
	}
}

// TestANodeENIWithoutNodesNamesWhatStillLeaves checks that Ready without a node does not hide an interface whose removal
// has begun.
func TestANodeENIWithoutNodesNamesWhatStillLeaves(t *testing.T) {
	leaving := v1alpha1.InterfaceState{Phase: v1alpha1.PhaseDetaching, ENIID: "eni-1", Reason: string(plan.Removing),
		Message: "eni-1 is being removed: the node has other labels"}
	cases := map[string]struct {
		objects []client.Object
		want    string
	}{
		"none ever was": {nil, "no node carries the labels of nodeSelector"},
		"one leaves a node that lost its label": {
			[]client.Object{unselected("n1"), state("n1", leaving)},
			"no node carries the labels of nodeSelector; 1 interface not removed yet: node n1: " + leaving.Message,
		},
		"one is retained on a node that is gone": {
			[]client.Object{state("n1", v1alpha1.InterfaceState{Phase: v1alpha1.PhaseAttached, Reason: string(plan.Retained)})},
			"no node carries the labels of nodeSelector; 1 interface not removed yet: node n1: Retained",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := setStage(t, &cloud{}, append(tc.objects, declared())...)
			if err := s.reconcile(); err != nil {
				t.Fatal(err)
			}
			ready := apimeta.FindStatusCondition(s.read().Status.Conditions, v1alpha1.ConditionReady)
			if ready == nil || ready.Reason != v1alpha1.ReasonNoNodes || ready.Message != tc.want {
				t.Errorf("want %q: %+v", tc.want, ready)
			}
		})
	}
}

// TestANodeENIDoesNotGrowWithTheFleet checks that a NodeENI names no more interfaces of a large fleet than of a small
// one, and counts the rest.
func TestANodeENIDoesNotGrowWithTheFleet(t *testing.T) {
	const named, nodes = 100, 120
	objects := []client.Object{declared()}
	for n := range nodes {
		name := fmt.Sprintf("node-%d", n)
		attached := v1alpha1.InterfaceState{Phase: v1alpha1.PhaseAttached, ENIID: fmt.Sprintf("eni-%d", n)}
		objects = append(objects, selected(name), state(name, attached))
	}
	s := setStage(t, &cloud{}, objects...)
	if err := s.reconcile(); err != nil {
		t.Fatal(err)
	}
	got := s.read().Status
	if len(got.Attachments) != named || got.AttachmentsOmitted != nodes-named || got.Attached != nodes {
		t.Errorf("%d attachments named, %d omitted, %d counted; want %d, %d, %d",
			len(got.Attachments), got.AttachmentsOmitted, got.Attached, named, nodes-named, nodes)
	}
}

// TestTheFinalizerGoesOnlyWhenEC2Confirms deletes a NodeENI in different circumstances.
func TestTheFinalizerGoesOnlyWhenEC2Confirms(t *testing.T) {
	cases := map[string]struct {
		cloud   cloud
		objects []client.Object
		// undefined means that the CustomResourceDefinition of NodeENIState was deleted.
		undefined bool
		busy      bool
		gone      bool
	}{
		"EC2 shows nothing of it":                          {gone: true},
		"EC2 shows an interface":                           {cloud: cloud{left: owned()}},
		"EC2 does not answer":                              {cloud: cloud{err: errors.New("no answer")}},
		"an interface is known that EC2 does not show now": {cloud: cloud{known: owned()}},
		"a ledger speaks of it":                            {objects: []client.Object{state("n1", v1alpha1.InterfaceState{Phase: v1alpha1.PhasePending})}},
		"a ledger of which the cache alone knows, its definition being gone": {
			objects: []client.Object{state("n1", v1alpha1.InterfaceState{Phase: v1alpha1.PhasePending})}, undefined: true, gone: true,
		},
		"a ledger without definition, and an interface": {
			cloud:   cloud{left: owned()},
			objects: []client.Object{state("n1", v1alpha1.InterfaceState{Phase: v1alpha1.PhasePending})}, undefined: true,
		},
		"a reconciliation from before may still make calls": {busy: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := setStage(t, &tc.cloud, append(tc.objects, declared())...)
			if tc.undefined {
				s.forgetDefinition()
			}
			if tc.busy {
				defer s.inFlight.Enter()()
			}
			if err := s.kube.Delete(t.Context(), declared()); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if err := s.reconcile(); (err != nil) != (tc.cloud.err != nil) {
					t.Fatal(err)
				}
			}
			if gone := s.read() == nil; gone != tc.gone {
				t.Errorf("gone: %t, want %t", gone, tc.gone)
			}
		})
	}
}

// TestTheFinalizerStaysWhileEC2MayHideSomething deletes a NodeENI without any known interface. The process leads since
// the start.
func TestTheFinalizerStaysWhileEC2MayHideSomething(t *testing.T) {
	cases := map[string]struct {
		// accepted means that this process added the finalizer.
		accepted bool
		happens  func(*stage)
		age      time.Duration
		gone     bool
	}{
		"an earlier leader may have made something":      {age: inventory.VisibilityWindow - time.Second},
		"EC2 would show what an earlier leader made":     {age: inventory.VisibilityWindow, gone: true},
		"no earlier leader can have made anything":       {accepted: true, gone: true},
		"a call of this process had no answer":           {accepted: true, happens: func(s *stage) { s.observer.RecordUnansweredCreate(start, "uid") }, age: inventory.VisibilityWindow - time.Second},
		"EC2 would show what a call without answer made": {accepted: true, happens: func(s *stage) { s.observer.RecordUnansweredCreate(start, "uid") }, age: inventory.VisibilityWindow, gone: true},
		"a call for another NodeENI of it had no answer": {accepted: true, happens: func(s *stage) { s.observer.RecordUnansweredCreate(start, "uid-2") }, gone: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := declared()
			if tc.accepted {
				n.Finalizers = nil
			}
			s := setStage(t, &cloud{}, n, selected("n1"))
			for _, err := range []error{s.reconcile(), s.kube.Delete(t.Context(), declared())} {
				if err != nil {
					t.Fatal(err)
				}
			}
			if tc.happens != nil {
				tc.happens(s)
			}
			s.era.Since, s.now = start, start.Add(tc.age)
			if err := s.reconcile(); err != nil {
				t.Fatal(err)
			}
			left := s.read()
			if gone := left == nil; gone != tc.gone {
				t.Errorf("gone: %t, want %t", gone, tc.gone)
			}
			if left != nil {
				for _, fault := range status.Lint(left.Status.Conditions, 1) {
					t.Error(fault)
				}
			}
		})
	}
}

// forgetDefinition makes the API server answer that there is no kind NodeENIState.
func (s *stage) forgetDefinition() {
	options := s.reconciler.Options
	options.Reader = interceptor.NewClient(s.kube.(client.WithWatch), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return &apimeta.NoKindMatchError{GroupKind: v1alpha1.SchemeGroupVersion.WithKind("NodeENIState").GroupKind()}
		},
	})
	s.reconciler = nodeeni.New(options)
}
