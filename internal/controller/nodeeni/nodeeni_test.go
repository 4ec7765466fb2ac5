// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni_test

import (
	"context"
	"fmt"
	"hash/crc32"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/observer"
	"github.com/multieni/multieni/internal/aws/resolver"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/controllertest"
	"github.com/multieni/multieni/internal/controller/nodeeni"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/controller/status"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
	"github.com/multieni/multieni/internal/core/selector"
)

const cluster = "cluster-1"

var start = time.Unix(1_800_000_000, 0)

// cloud returns two subnets and one group.
type cloud struct {
	observer.Reader
	subnetsErr, listErr error
}

func (c *cloud) ListOwned(context.Context) ([]eni.Interface, time.Time, error) {
	return nil, start, c.listErr
}

func (c *cloud) Subnets(context.Context, selector.SubnetTerms) ([]eni.Subnet, error) {
	return subnets, c.subnetsErr
}

var (
	subnets = []eni.Subnet{{ID: "s1", Zone: "a", VPCID: "v"}, {ID: "s2", Zone: "b", VPCID: "v"}, {ID: "s3", Zone: "a", VPCID: "v"}}
	groups  = []eni.SecurityGroup{{ID: "g1", VPCID: "v"}}
)

func (c *cloud) SecurityGroups(context.Context, selector.GroupTerms) ([]eni.SecurityGroup, error) {
	return groups, nil
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

// unborn returns a selected Node for which the cloud provider has not yet set the instance.
func unborn(name string) *corev1.Node {
	n := selected(name)
	n.Spec.ProviderID = ""
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

// declaredOn returns the object of a NodeENI on a node, as it was rendered, without a status.
func declaredOn(n *v1alpha1.NodeENI, node string) *v1alpha1.NetworkInterface {
	converted := controller.NodeENI(n)
	converted.Deleting, converted.Paused = false, false
	converted.Found = &selector.Found{
		Subnets: selector.MatchSubnets(controller.SubnetTerms(n.Spec), subnets), Groups: selector.MatchGroups(controller.GroupTerms(n.Spec), groups),
	}
	writes := render.Node(render.In{
		Instance: eni.InstanceRef{ID: instanceOf(node), Zone: "a"}, VPCID: "v", NodeENIs: []render.NodeENI{converted},
		Nodes: []render.Registration{{Name: node, Labels: converted.Selector}},
	})
	o := object.New(writes[0].Name, writes[0].Spec)
	o.UID, o.Generation, o.Finalizers = types.UID("uid-"+o.Name), 1, []string{v1alpha1.InterfaceFinalizer}
	return o
}

// attached returns the object of a NodeENI on a node with an interface that is ready.
func attached(n *v1alpha1.NodeENI, node string, changes ...func(*v1alpha1.NetworkInterface)) *v1alpha1.NetworkInterface {
	o := declaredOn(n, node)
	slot := o.Spec.Slot
	o.Status = v1alpha1.NetworkInterfaceStatus{
		ObservedGeneration: 1, Phase: v1alpha1.PhaseAttached, ENIID: "eni-" + node, AttachmentID: "eni-attach-" + node, SubnetID: o.Spec.Subnets[0].ID,
		Slot: &slot, Evidence: v1alpha1.EvidenceCreated,
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAttached, ObservedGeneration: 1}},
	}
	for _, change := range changes {
		change(o)
	}
	return o
}

// saying changes the condition Ready of an object.
func saying(phase v1alpha1.Phase, reason plan.Reason, message string) func(*v1alpha1.NetworkInterface) {
	return func(o *v1alpha1.NetworkInterface) {
		o.Status.Phase = phase
		c := &o.Status.Conditions[0]
		if c.Reason, c.Message = string(reason), message; phase != v1alpha1.PhaseAttached {
			c.Status = metav1.ConditionFalse
			o.Status.ENIID, o.Status.AttachmentID, o.Status.SubnetID, o.Status.Slot = "", "", "", nil
		}
	}
}

// drifted puts the interface of an object into another subnet.
func drifted(o *v1alpha1.NetworkInterface) { o.Status.SubnetID = "s2" }

// leaving deletes an object.
func leaving(o *v1alpha1.NetworkInterface) { o.DeletionTimestamp = &metav1.Time{Time: start} }

// stage is a reconciler with its inputs.
type stage struct {
	*testing.T
	kube          client.Client
	refusedWrites *controller.RejectedWrites
	attachments   *controller.AttachmentDefinitions
	events        *events.FakeRecorder
	observer      *observer.Observer
	reconciler    *nodeeni.Reconciler
	now           time.Time
}

func setStage(t *testing.T, c *cloud, objects ...client.Object) *stage {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	s := &stage{T: t, refusedWrites: &controller.RejectedWrites{}, attachments: &controller.AttachmentDefinitions{}, events: events.NewFakeRecorder(10), now: start}
	clock := func() time.Time { return s.now }
	watch := observer.New(c, observer.Options{Cluster: cluster, Now: clock, Log: quiet})
	if err := watch.ResyncOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.kube, s.observer = controllertest.API(t, objects...), watch
	s.reconciler = nodeeni.New(nodeeni.Options{
		Client: s.kube, Reader: s.kube, Observer: watch, RefusedWrites: s.refusedWrites, Attachments: s.attachments, Events: s.events, Reresolve: time.Hour, ReresolveMissing: time.Minute,
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

// TestWhatANodeENISays computes the status from the objects.
func TestWhatANodeENISays(t *testing.T) {
	n := declared()
	stuck := saying(v1alpha1.PhaseBlocked, plan.SlotTaken, "device 1 is held by eni-9")
	replace := func(n *v1alpha1.NodeENI) { n.Spec.UpdatePolicy, n.Spec.MaxUnavailable = v1alpha1.UpdateReplace, 1 }
	cases := map[string]struct {
		change  func(*v1alpha1.NodeENI)
		objects []client.Object
		reason  string
		counts  string
	}{
		"no node is selected":              {reason: v1alpha1.ReasonNoNodes, counts: "0 0 0 0 0"},
		"a node of which nothing is known": {objects: []client.Object{selected("n1")}, reason: v1alpha1.ReasonProgressing, counts: "0 0 0 0 0"},
		"a node has no providerID yet": {
			objects: []client.Object{selected("n1"), attached(n, "n1"), unborn("n2")}, reason: v1alpha1.ReasonProgressing, counts: "1 1 1 0 0",
		},
		"the instance of a node has an older Node, which is not selected": {
			objects: []client.Object{unselected("n1"), secondName("n1")}, reason: v1alpha1.ReasonInstanceHasAnotherNode, counts: "0 0 0 0 0",
		},
		"both Nodes of an instance are selected": {
			objects: []client.Object{selected("n1"), attached(n, "n1"), secondName("n1")}, reason: v1alpha1.ReasonInstanceHasAnotherNode, counts: "1 1 1 0 0",
		},
		"all is attached": {objects: []client.Object{selected("n1"), attached(n, "n1")}, reason: v1alpha1.ReasonAttached, counts: "1 1 1 0 0"},
		"the status is about an earlier spec": {
			objects: []client.Object{selected("n1"), attached(n, "n1", func(o *v1alpha1.NetworkInterface) { o.Generation = 2 })},
			reason:  v1alpha1.ReasonProgressing, counts: "1 1 0 0 0",
		},
		"the object was rendered from an earlier NodeENI": {
			objects: []client.Object{selected("n1"), attached(n, "n1", func(o *v1alpha1.NetworkInterface) { o.Spec.Revision = "before" })},
			reason:  v1alpha1.ReasonProgressing, counts: "1 1 1 0 0",
		},
		"the object is that of an earlier NodeENI": {
			objects: []client.Object{selected("n1"), attached(n, "n1", func(o *v1alpha1.NetworkInterface) { o.Spec.NodeENI.UID = "before" })},
			reason:  v1alpha1.ReasonProgressing, counts: "1 1 1 0 0",
		},
		"one is attaching": {
			objects: []client.Object{selected("n1"), attached(n, "n1"), selected("n2"), attached(n, "n2", saying(v1alpha1.PhaseAttaching, plan.InProgress, ""))},
			reason:  v1alpha1.ReasonProgressing, counts: "2 1 1 0 0",
		},
		"one has no status yet": {objects: []client.Object{selected("n1"), declaredOn(n, "n1")}, reason: v1alpha1.ReasonProgressing, counts: "1 0 0 0 0"},
		"one is blocked": {
			objects: []client.Object{selected("n1"), attached(n, "n1"), selected("n2"), attached(n, "n2", stuck)}, reason: string(plan.SlotTaken), counts: "2 1 1 1 0",
		},
		"one is leaving": {
			objects: []client.Object{selected("n1"), attached(n, "n1"), unselected("n2"), attached(n, "n2", leaving)}, reason: v1alpha1.ReasonAttached, counts: "1 1 1 0 0",
		},
		"one has drifted": {objects: []client.Object{selected("n1"), attached(n, "n1", drifted)}, reason: v1alpha1.ReasonDrifted, counts: "1 1 0 0 1"},
		"one is to be replaced, and another is not ready": {
			change: replace, objects: []client.Object{selected("n1"), attached(n, "n1", drifted), selected("n2"), declaredOn(n, "n2")},
			reason: string(plan.Replacing), counts: "2 1 0 0 1",
		},
		"one is blocked while others wait to be replaced": {
			change: replace, objects: []client.Object{selected("n1"), attached(n, "n1", drifted), selected("n2"), attached(n, "n2", stuck)},
			reason: string(plan.SlotTaken), counts: "2 1 0 1 1",
		},
		"it is paused": {
			change:  func(n *v1alpha1.NodeENI) { n.Annotations = map[string]string{v1alpha1.PausedAnnotation: ""} },
			objects: []client.Object{selected("n1"), attached(n, "n1")}, reason: v1alpha1.ReasonPaused, counts: "1 1 1 0 0",
		},
		"a subnet does not exist": {
			change:  func(n *v1alpha1.NodeENI) { n.Spec.SubnetIDs = []string{"s1", "s9"} },
			objects: []client.Object{selected("n1"), attached(n, "n1")}, reason: string(plan.SubnetNotFound), counts: "1 1 1 0 0",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := declared()
			if tc.change != nil {
				tc.change(n)
			}
			s := setStage(t, &cloud{}, append(tc.objects, n)...)
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
	n := declared()
	going := saying(v1alpha1.PhaseDetaching, plan.Removing, "eni-1 is being removed: the node has other labels")
	cases := map[string]struct {
		objects []client.Object
		want    string
	}{
		"none ever was": {nil, "no node carries the labels of nodeSelector"},
		"one leaves a node that lost its label": {
			[]client.Object{unselected("n1"), attached(n, "n1", leaving, going)},
			"no node carries the labels of nodeSelector; 1 interface not removed yet: node n1: eni-1 is being removed: the node has other labels",
		},
		"one is on a node that is gone": {
			[]client.Object{attached(n, "n1")}, "no node carries the labels of nodeSelector; 1 interface not removed yet: node n1: it is being removed",
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

// TestTheAttachmentOfAnInterface checks what users read of one interface.
func TestTheAttachmentOfAnInterface(t *testing.T) {
	n := declared()
	s := setStage(t, &cloud{}, n, selected("n1"), attached(n, "n1", func(o *v1alpha1.NetworkInterface) {
		o.Status.MACAddress, o.Status.Addresses.PrivateIP = "02:00:00:00:00:01", "10.0.0.5"
	}))
	if err := s.reconcile(); err != nil {
		t.Fatal(err)
	}
	want := []v1alpha1.Attachment{{
		NodeID: "n1", InstanceID: instanceOf("n1"), ENIID: "eni-n1", AttachmentID: "eni-attach-n1", SubnetID: "s1", DeviceIndex: 1,
		MACAddress: "02:00:00:00:00:01", PrivateIP: "10.0.0.5", Status: v1alpha1.AttachmentAttached,
	}}
	if diff := cmp.Diff(want, s.read().Status.Attachments); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestANodeENIDoesNotGrowWithTheFleet checks that a NodeENI names no more interfaces of a large fleet than of a small
// one, and counts the rest. Interfaces that exist come first, in the order of the nodes.
func TestANodeENIDoesNotGrowWithTheFleet(t *testing.T) {
	n := declared()
	const named, nodes = 100, 120
	objects := []client.Object{n}
	for i := range nodes {
		name := fmt.Sprintf("node-%03d", i)
		o := attached(n, name)
		if i < 110 {
			o = attached(n, name, saying(v1alpha1.PhaseBlocked, plan.InstanceFull, "full"))
		}
		objects = append(objects, selected(name), o)
	}
	s := setStage(t, &cloud{}, objects...)
	if err := s.reconcile(); err != nil {
		t.Fatal(err)
	}
	got := s.read().Status
	if len(got.Attachments) != named || got.AttachmentsOmitted != nodes-named || got.Desired != nodes {
		t.Fatalf("%d attachments named, %d omitted, %d counted; want %d, %d, %d",
			len(got.Attachments), got.AttachmentsOmitted, got.Desired, named, nodes-named, nodes)
	}
	if all := got.Attachments; all[89].NodeID != "node-089" || all[90].NodeID != "node-110" || all[99].ENIID != "eni-node-119" {
		t.Errorf("around the gap: %s, %s", all[89].NodeID, all[90].NodeID)
	}
}

// TestMetricsOfInterfaces counts interfaces from objects.
func TestMetricsOfInterfaces(t *testing.T) {
	n := declared()
	with := attached(n, "n1", func(o *v1alpha1.NetworkInterface) { o.Status.MACAddress = "02:00:00:00:00:01" })
	s := setStage(t, &cloud{}, n, with, attached(n, "n2", saying(v1alpha1.PhaseBlocked, plan.SlotTaken, "taken")), declaredOn(n, "n3"))
	want := []nodeeni.AttachedInterface{{Node: "n1", NodeENI: "data", MAC: "02:00:00:00:00:01", ENI: "eni-n1"}}
	if got := s.reconciler.Attached(); !slices.Equal(got, want) {
		t.Errorf("attached are %v, want %v", got, want)
	}
	if got := s.reconciler.Blocked(); len(got) != 1 || got[string(plan.SlotTaken)] != 1 {
		t.Errorf("blocked are %v", got)
	}
}
