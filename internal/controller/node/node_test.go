// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/observer"
	"github.com/multieni/multieni/internal/aws/resolver"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/controllertest"
	"github.com/multieni/multieni/internal/controller/node"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/selector"
)

const (
	cluster  = "cluster-1"
	instance = "i-0123456789abcdef0"
	zone     = "us-west-2a"
)

var start = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// world is an API server, a cache of it, and an EC2 with the subnets of two VPCs and the interfaces that a test sets.
type world struct {
	*testing.T
	observer.Reader
	api, live  client.WithWatch
	reconciler *node.Reconciler
	observer   *observer.Observer
	refused    *controller.RejectedWrites
	events     *events.FakeRecorder
	now        time.Time
	interfaces []eni.Interface
	reads      int
	// unlisted keeps a process that starts from its first list of EC2.
	unlisted bool
}

func (w *world) ListOwned(context.Context) ([]eni.Interface, time.Time, error) {
	return w.interfaces, w.now, nil
}

func (w *world) DescribeInstance(_ context.Context, id string) (eni.InstanceSnapshot, error) {
	w.reads++
	return eni.InstanceSnapshot{At: w.now, Instance: eni.Instance{ID: id, State: eni.InstanceRunning, VPCID: "vpc-1", Zone: zone}, Interfaces: w.interfaces}, nil
}

func (w *world) Subnets(context.Context, selector.SubnetTerms) ([]eni.Subnet, error) {
	return []eni.Subnet{
		{
			ID: "subnet-1", Name: "one", Zone: zone, VPCID: "vpc-1",
			CIDR: netip.MustParsePrefix("10.1.0.0/24"), IPv6CIDR: netip.MustParsePrefix("2001:db8::/64"),
		},
		{ID: "subnet-2", Name: "two", Zone: zone, VPCID: "vpc-1"},
		{ID: "subnet-0", Name: "one", Zone: zone, VPCID: "vpc-0"},
	}, nil
}

func (w *world) SecurityGroups(context.Context, selector.GroupTerms) ([]eni.SecurityGroup, error) {
	return []eni.SecurityGroup{{ID: "sg-0", Name: "group", VPCID: "vpc-0"}, {ID: "sg-1", Name: "group", VPCID: "vpc-1"}}, nil
}

// newWorld starts a process. The cache and the API server have the same objects until a test changes one.
func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{T: t, now: start, refused: &controller.RejectedWrites{}, events: events.NewFakeRecorder(20)}
	made := 0
	w.api = interceptor.NewClient(controllertest.API(t, objects...), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			made++
			o.SetUID(types.UID(fmt.Sprintf("uid-%d", made)))
			return c.Create(ctx, o, opts...)
		},
	})
	w.live = w.api
	w.restart(func(*node.Options) {})
	return w
}

// restart starts a process with other options.
func (w *world) restart(change func(*node.Options)) {
	w.Helper()
	clock, quiet := func() time.Time { return w.now }, slog.New(slog.DiscardHandler)
	seen := observer.New(w, observer.Options{Cluster: cluster, Now: clock, Log: quiet})
	w.observer = seen
	options := node.Options{
		Client: w.api, Reader: w.live, Events: w.events, Observer: seen, Resolver: resolver.New(w, resolver.Options{Now: clock}), RefusedWrites: w.refused,
		Taint: v1alpha1.NotReadyTaint, Concurrency: 1, Now: clock, Log: quiet,
	}
	change(&options)
	if !w.unlisted {
		w.must(seen.ResyncOnce(w.Context()))
	}
	w.reconciler = node.New(options)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// reconcile reconciles a node a few times. It returns when to do so again.
func (w *world) reconcile(name string) (again time.Duration) {
	w.Helper()
	for range 4 {
		again = w.once(name)
	}
	return again
}

// once reconciles a node once.
func (w *world) once(name string) time.Duration {
	w.Helper()
	result, err := w.reconciler.Reconcile(w.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
	w.must(err)
	return result.RequeueAfter
}

// objects returns all objects that are not being deleted.
func (w *world) objects() []v1alpha1.NetworkInterface {
	w.Helper()
	all, err := object.All(w.Context(), w.api)
	w.must(err)
	return slices.DeleteFunc(all, func(o v1alpha1.NetworkInterface) bool { return !o.DeletionTimestamp.IsZero() })
}

// names returns the names of the objects.
func (w *world) names() (names []string) {
	for _, o := range w.objects() {
		names = append(names, o.Name)
	}
	return names
}

// node returns a Node of the API server.
func (w *world) node(name string) *corev1.Node {
	w.Helper()
	var n corev1.Node
	w.must(w.api.Get(w.Context(), client.ObjectKey{Name: name}, &n))
	return &n
}

// declared is a NodeENI for nodes with the label pool: telco.
func declared(name string, subnetNames ...string) *v1alpha1.NodeENI {
	return &v1alpha1.NodeENI{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: 1, Finalizers: []string{v1alpha1.Finalizer}},
		Spec: v1alpha1.NodeENISpec{
			NodeSelector: map[string]v1alpha1.LabelValue{"pool": "telco"}, SubnetNames: subnetNames, SecurityGroupNames: []string{"group"}, DeviceIndex: 1,
		},
	}
}

// nodeNamed is a Node of an instance with the startup taint and another one.
func nodeNamed(name, instanceID string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"pool": "telco"}, CreationTimestamp: metav1.NewTime(start)},
		Spec: corev1.NodeSpec{ProviderID: "aws:///" + zone + "/" + instanceID, Taints: []corev1.Taint{
			{Key: v1alpha1.NotReadyTaint, Effect: corev1.TaintEffectNoSchedule}, {Key: "dedicated", Effect: corev1.TaintEffectNoSchedule},
		}},
	}
}

// name is the name of an object of the instance.
func name(nodeENI string, ordinal int) string {
	return identity.ObjectName(nodeENI, instance, ordinal)
}

// TestANodeGetsItsObjects has a NodeENI whose names mean subnets and groups of two VPCs: those of the node's VPC count.
func TestANodeGetsItsObjects(t *testing.T) {
	w := newWorld(t, declared("n", "one", "two"), nodeNamed("node-1", instance))
	w.reconcile("node-1")
	all := w.objects()
	if diff := cmp.Diff([]string{name("n", 0), name("n", 1)}, w.names()); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	first := all[0]
	if len(first.Spec.Subnets) != 1 || first.Spec.Subnets[0].ID != "subnet-1" || !slices.Equal(first.Spec.SecurityGroupIDs, []string{"sg-1"}) {
		t.Errorf("subnets %v and groups %v, want those of the node's VPC", first.Spec.Subnets, first.Spec.SecurityGroupIDs)
	}
	want := map[string]string{v1alpha1.InstanceLabel: instance, v1alpha1.NodeENILabel: "n"}
	if diff := cmp.Diff(want, first.Labels); diff != "" || !slices.Contains(first.Finalizers, v1alpha1.InterfaceFinalizer) {
		t.Errorf("finalizers %v, labels (-want +got):\n%s", first.Finalizers, diff)
	}
	if w.reads != 1 {
		t.Errorf("the instance was read %d times, want once", w.reads)
	}
}

// TestAnObjectIsDeleted removes the label of a node in the cache and, if the API server agrees, in the API server.
func TestAnObjectIsDeleted(t *testing.T) {
	for title, tc := range map[string]struct {
		live  func(*world) []client.Object
		lives bool
	}{
		"the API server says so, too": {live: func(w *world) []client.Object { return []client.Object{unlabeled(w), declared("n", "one")} }},
		"the node has its label": {live: func(*world) []client.Object {
			return []client.Object{nodeNamed("node-1", instance), declared("n", "one")}
		}, lives: true},
		"the node is paused":               {live: func(w *world) []client.Object { return []client.Object{pausedNode(unlabeled(w)), declared("n", "one")} }, lives: true},
		"the node is gone":                 {live: func(*world) []client.Object { return []client.Object{declared("n", "one")} }, lives: true},
		"the node has another instance":    {live: func(w *world) []client.Object { return []client.Object{elsewhere(unlabeled(w)), declared("n", "one")} }, lives: true},
		"the NodeENI is gone":              {live: func(w *world) []client.Object { return []client.Object{unlabeled(w)} }, lives: true},
		"the NodeENI selects the node now": {live: func(w *world) []client.Object { return []client.Object{unlabeled(w), selectingAll("n")} }, lives: true},
	} {
		t.Run(title, func(t *testing.T) {
			w := newWorld(t, declared("n", "one"), nodeNamed("node-1", instance))
			w.reconcile("node-1")
			w.must(w.api.Update(t.Context(), unlabeled(w)))
			live := tc.live(w)
			for _, o := range w.objects() {
				o.ResourceVersion = ""
				live = append(live, &o)
			}
			w.live = controllertest.API(t, live...)
			w.restart(func(*node.Options) {})
			w.reconcile("node-1")
			if lives := len(w.names()) > 0; lives != tc.lives {
				t.Errorf("the object lives: %t, want %t", lives, tc.lives)
			}
		})
	}
}

func unlabeled(w *world) *corev1.Node {
	n := w.node("node-1")
	n.Labels = map[string]string{"other": "label"}
	return n
}

func pausedNode(n *corev1.Node) *corev1.Node {
	n.Annotations = map[string]string{v1alpha1.PausedAnnotation: ""}
	return n
}

func elsewhere(n *corev1.Node) *corev1.Node {
	n.Spec.ProviderID = "aws:///" + zone + "/i-00000000000000009"
	return n
}

func selectingAll(name string) *v1alpha1.NodeENI {
	n := declared(name, "one")
	n.Generation, n.Spec.NodeSelector = 2, map[string]v1alpha1.LabelValue{"other": "label"}
	return n
}

// TestTwoNodesOfOneInstance has a second Node that names the instance. The objects are those of the older one.
func TestTwoNodesOfOneInstance(t *testing.T) {
	younger := nodeNamed("node-0", instance)
	younger.CreationTimestamp = metav1.NewTime(start.Add(time.Minute))
	w := newWorld(t, declared("n", "one"), nodeNamed("node-1", instance), younger)
	w.reconcile("node-0")
	if names := w.names(); len(names) > 0 || len(w.events.Events) != 1 {
		t.Errorf("objects %v and %d events for the younger Node, want none and 1", names, len(w.events.Events))
	}
	w.reconcile("node-1")
	if all := w.objects(); len(all) != 1 || all[0].Spec.NodeName != "node-1" {
		t.Errorf("objects %+v, want one of node-1", all)
	}
	w.must(w.api.Delete(t.Context(), nodeNamed("node-1", instance)))
	w.reconcile("node-0")
	if all := w.objects(); len(all) != 1 || all[0].Spec.NodeName != "node-0" {
		t.Errorf("objects %+v, want the same one of node-0", all)
	}
}

// TestAnObjectStaysForANodeThatTheCacheLacks has two Nodes of one instance, the older one without the label. The cache
// lacks the one that has it.
func TestAnObjectStaysForANodeThatTheCacheLacks(t *testing.T) {
	older, labeled, later := nodeNamed("node-0", instance), nodeNamed("node-1", instance), nodeNamed("node-2", instance)
	older.Labels, older.CreationTimestamp = nil, metav1.NewTime(start.Add(-time.Minute))
	again, unnamed := older.DeepCopy(), later.DeepCopy()
	again.UID, unnamed.Spec.ProviderID = "again", ""
	for title, tc := range map[string]struct {
		live, cached []*corev1.Node
		stays        bool
	}{
		"the API server has it":      {[]*corev1.Node{older, labeled}, nil, true},
		"the API server has none":    {[]*corev1.Node{older}, nil, false},
		"it has a name unknown here": {[]*corev1.Node{again, later}, nil, true},
		"it had no providerID":       {[]*corev1.Node{older, later}, []*corev1.Node{unnamed}, true},
	} {
		t.Run(title, func(t *testing.T) {
			w := newWorld(t, declared("n", "one"), labeled.DeepCopy())
			w.reconcile("node-1")
			w.must(w.api.Delete(t.Context(), labeled.DeepCopy()))
			cached := older.DeepCopy()
			w.must(w.api.Create(t.Context(), cached))
			for _, n := range tc.cached {
				w.must(w.api.Create(t.Context(), n.DeepCopy()))
			}
			live := []client.Object{declared("n", "one")}
			for _, n := range tc.live {
				o := n.DeepCopy()
				if n == older {
					o.UID = cached.UID
				}
				live = append(live, o)
			}
			for _, o := range w.objects() {
				live = append(live, &o)
			}
			for _, o := range live {
				o.SetResourceVersion("")
			}
			w.live = controllertest.API(t, live...)
			w.restart(func(*node.Options) {})
			w.once("node-0")
			if stays := len(w.names()) > 0; stays != tc.stays {
				t.Errorf("the object stays: %t, want %t", stays, tc.stays)
			}
		})
	}
}

// TestNetworksOfANode has an interface that a hook made, and no NodeENI.
func TestNetworksOfANode(t *testing.T) {
	w := newWorld(t, nodeNamed("node-1", instance))
	key := identity.Interface{Cluster: cluster, UID: identity.NetworkUID("net", 0, start), Name: name("net", 0), NodeENI: "net", Node: "node-1", InstanceID: instance}
	w.interfaces = []eni.Interface{{
		ID: "eni-1", SubnetID: "subnet-1", VPCID: "vpc-1", Status: eni.InUse, Tags: key.Tags(start, nil),
		Attachment: &eni.Attachment{ID: "at-1", InstanceID: instance, Slot: eni.Slot{Device: 3}, Status: eni.AttachmentAttached},
	}}
	if again := w.reconcile("node-1"); again != 10*time.Second {
		t.Errorf("the instance is read again after %s, want 10 s while hooks can make interfaces", again)
	}
	w.restart(func(*node.Options) {})
	found, err := w.reconciler.WithNewNetworks(t.Context())
	w.must(err)
	all := w.objects()
	if len(all) != 1 || all[0].Name != name("net", 0) || all[0].Spec.Origin != v1alpha1.OriginNetwork || all[0].Spec.Slot.DeviceIndex != 3 {
		t.Errorf("got %+v, want the object of the network", all)
	}
	if diff := cmp.Diff([]string{"node-1"}, found); diff != "" {
		t.Errorf("nodes with an interface that no object records yet (-want +got):\n%s", diff)
	}
	if again, err := w.reconciler.WithNewNetworks(t.Context()); len(again) > 0 || err != nil {
		t.Errorf("%v have the same interface after the next list, %v", again, err)
	}
	w.now = start.Add(time.Hour)
	if again := w.reconcile("node-1"); again != 0 {
		t.Errorf("the instance of an old node is read again after %s", again)
	}
}

// TestDriftIsStated moves an interface of a NodeENI with another subnet.
func TestDriftIsStated(t *testing.T) {
	w := newWorld(t, declared("n", "one"), nodeNamed("node-1", instance))
	w.reconcile("node-1")
	w.attach()
	changed := declared("n", "two")
	w.must(w.api.Get(t.Context(), client.ObjectKeyFromObject(changed), changed))
	changed.Spec.SubnetNames, changed.Generation = []string{"two"}, 2
	w.must(w.api.Update(t.Context(), changed))
	w.reconcile("node-1")
	o := w.objects()[0]
	want := []v1alpha1.Drift{{Field: "subnet", Want: "subnet-2", Have: "subnet-1"}}
	if diff := cmp.Diff(want, o.Status.Drift); diff != "" || !apimeta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionDrifted) {
		t.Errorf("conditions %+v, drift (-want +got):\n%s", o.Status.Conditions, diff)
	}
	if o.Status.ENIID != "eni-0" || o.Spec.NodeENI.Generation != 2 {
		t.Errorf("the object lost its interface, or was not rendered: %+v", o)
	}
}

// attach gives all objects an interface with a link that is ready.
func (w *world) attach() {
	w.Helper()
	for n, o := range w.objects() {
		slot := o.Spec.Slot
		o.Status = v1alpha1.NetworkInterfaceStatus{
			Phase: v1alpha1.PhaseAttached, ENIID: fmt.Sprintf("eni-%d", n), AttachmentID: "at", SubnetID: o.Spec.Subnets[0].ID, MACAddress: "02:00:00:00:00:0a",
			Slot: &slot, Evidence: v1alpha1.EvidenceCreated,
			Node: &v1alpha1.NodeReport{Link: &v1alpha1.LinkReport{State: v1alpha1.LinkReady, Reason: "Why", Message: "because", Name: "ens6"}},
		}
		w.must(w.api.Status().Update(w.Context(), &o))
	}
}

// TestAnObjectGetsTheSubnetOfItsInterface has an interface that was created before its NodeENI named another subnet.
func TestAnObjectGetsTheSubnetOfItsInterface(t *testing.T) {
	w := newWorld(t, declared("n", "two"), nodeNamed("node-1", instance))
	w.reconcile("node-1")
	o := w.objects()[0]
	slot := o.Spec.Slot
	o.Status = v1alpha1.NetworkInterfaceStatus{ENIID: "eni-1", SubnetID: "subnet-1", Slot: &slot, Evidence: v1alpha1.EvidenceCreated}
	w.must(w.api.Status().Update(w.Context(), &o))
	w.reconcile("node-1")
	want := []v1alpha1.InterfaceSubnet{{ID: "subnet-2"}, {ID: "subnet-1", CIDR: "10.1.0.0/24", IPv6CIDR: "2001:db8::/64"}}
	if diff := cmp.Diff(want, w.objects()[0].Spec.Subnets); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestARefusedObjectIsTold has an API server that refuses an object.
func TestARefusedObjectIsTold(t *testing.T) {
	w := newWorld(t, declared("n", "one"), nodeNamed("node-1", instance))
	refuses := true
	w.restart(func(o *node.Options) {
		o.Client = interceptor.NewClient(w.api, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if refuses {
				return apierrors.NewInvalid(v1alpha1.SchemeGroupVersion.WithKind("NetworkInterface").GroupKind(), o.GetName(), nil)
			}
			return c.Create(ctx, o, opts...)
		}})
	})
	if _, err := w.reconciler.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "node-1"}}); !apierrors.IsInvalid(err) {
		t.Fatal(err)
	}
	if len(w.refused.OfNodeENI("n")) != 1 || len(w.events.Events) != 1 {
		t.Errorf("%d objects are refused, %d events", len(w.refused.OfNodeENI("n")), len(w.events.Events))
	}
	refuses = false
	w.reconcile("node-1")
	if len(w.refused.OfNodeENI("n")) != 0 {
		t.Error("the object counts as refused after it was stored")
	}
}

// TestARefusedObjectOfAGoneNodeIsForgotten has an API server that refuses an object until its Node is gone.
func TestARefusedObjectOfAGoneNodeIsForgotten(t *testing.T) {
	one := nodeNamed("node-1", instance)
	w := newWorld(t, declared("n", "one"), one)
	w.restart(func(o *node.Options) {
		o.Client = interceptor.NewClient(w.api, interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return apierrors.NewForbidden(v1alpha1.SchemeGroupVersion.WithResource("networkinterfaces").GroupResource(), "", nil)
		}})
	})
	request := reconcile.Request{NamespacedName: client.ObjectKey{Name: "node-1"}}
	if _, err := w.reconciler.Reconcile(t.Context(), request); !apierrors.IsForbidden(err) || w.refused.Count() != 1 {
		t.Fatal(err, w.refused.Count())
	}
	w.must(w.api.Delete(t.Context(), one))
	w.reconcile("node-1")
	if w.refused.Count() != 0 {
		t.Error("the object of a Node that is gone counts as refused")
	}
}

// TestWritesOfAFleetArePaced edits a NodeENI of 120 nodes.
func TestWritesOfAFleetArePaced(t *testing.T) {
	const nodes = 120
	n := declared("n", "one")
	objects := []client.Object{n}
	for i := range nodes {
		objects = append(objects, nodeNamed(fmt.Sprintf("node-%d", i), fmt.Sprintf("i-%017x", i)))
	}
	w := newWorld(t, objects...)
	all := func() (longest time.Duration) {
		for i := range nodes {
			longest = max(longest, w.once(fmt.Sprintf("node-%d", i)))
		}
		return longest
	}
	all()
	w.must(w.api.Get(t.Context(), client.ObjectKeyFromObject(n), n))
	n.Spec.Description, n.Generation = "other", 2
	w.must(w.api.Update(t.Context(), n))
	longest := all()
	if longest < 300*time.Millisecond || longest > 500*time.Millisecond {
		t.Errorf("the last node waits %s, want about 0.4 s for 20 writes at 50 per second", longest)
	}
	w.now = w.now.Add(longest)
	all()
	for _, o := range w.objects() {
		if o.Spec.Description != "other" {
			t.Fatalf("%s was not written in its turn", o.Name)
		}
	}
}
