// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/readiness"
	"github.com/multieni/multieni/internal/core/hostnet"
)

const (
	mac      = "02:00:00:00:00:0a"
	instance = "i-0123456789abcdef0"
	label    = v1alpha1.InterfaceLabelPrefix + "net-web"
)

// world is a node whose one interface is ready, and what the controller knows about it.
type world struct {
	node     *corev1.Node
	state    *v1alpha1.NodeENIState
	nodeENIs []v1alpha1.NodeENI
}

func ready() *world {
	i := v1alpha1.InterfaceState{
		Member: v1alpha1.Member{NodeENI: "web", NodeENIUID: "uid-web"}, Phase: v1alpha1.PhaseAttached, ENIID: "eni-1",
		MACAddress: mac, SubnetID: "subnet-1",
	}
	return &world{
		node: &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{"pool": "telco"}},
			Spec: corev1.NodeSpec{ProviderID: "aws:///us-west-2a/" + instance, Taints: []corev1.Taint{
				{Key: v1alpha1.NotReadyTaint, Effect: corev1.TaintEffectNoSchedule}, {Key: "dedicated", Effect: corev1.TaintEffectNoSchedule},
			}},
		},
		state: &v1alpha1.NodeENIState{
			ObjectMeta: metav1.ObjectMeta{Name: "node-1", Generation: 3},
			Spec:       v1alpha1.NodeENIStateSpec{InstanceID: instance, Members: []v1alpha1.Member{i.Member}},
			Status: v1alpha1.NodeENIStateStatus{
				ObservedGeneration: 3, Interfaces: []v1alpha1.InterfaceState{i},
				NodeENIs: []v1alpha1.ObservedNodeENI{{NodeENI: "web", NodeENIUID: "uid-web"}},
				Links: []v1alpha1.LinkState{{
					MACAddress: mac, NodeENI: "web", ENIID: "eni-1", State: v1alpha1.LinkReady, Reason: "Why", Message: "because",
					Name: "ens6", PCIAddress: "0000:00:06.0",
				}},
			},
		},
		nodeENIs: []v1alpha1.NodeENI{nodeENI("web", "telco")},
	}
}

func nodeENI(name, pool string) v1alpha1.NodeENI {
	return v1alpha1.NodeENI{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)},
		Spec:       v1alpha1.NodeENISpec{NodeSelector: map[string]v1alpha1.LabelValue{"pool": v1alpha1.LabelValue(pool)}},
	}
}

func (w *world) i() *v1alpha1.InterfaceState { return &w.state.Status.Interfaces[0] }

func phase(phase v1alpha1.Phase) func(*world) { return func(w *world) { w.i().Phase = phase } }

func link(state v1alpha1.LinkPhase) func(*world) {
	return func(w *world) { w.state.Status.Links[0].State = state }
}

func TestReadiness(t *testing.T) {
	no := false
	for name, tc := range map[string]struct {
		change func(*world)
		status corev1.ConditionStatus
		reason string
	}{
		"no state": {func(w *world) { w.state = nil }, corev1.ConditionUnknown, "NoInterfaces"},
		"nothing is to go or to come": {
			func(w *world) { w.state.Spec.Members, w.state.Status.Interfaces = nil, nil }, corev1.ConditionUnknown, "NoInterfaces",
		},
		"all interfaces are being removed": {phase(v1alpha1.PhaseDetaching), corev1.ConditionUnknown, "NoInterfaces"},
		"a member is new":                  {func(w *world) { w.state.Generation++ }, corev1.ConditionFalse, "StatusPending"},
		"a NodeENI is new": {
			func(w *world) { w.nodeENIs = append(w.nodeENIs, nodeENI("db", "telco")) }, corev1.ConditionFalse, "StatusPending",
		},
		"a NodeENI is new, and the node had none": {
			func(w *world) {
				w.nodeENIs = []v1alpha1.NodeENI{nodeENI("db", "telco")}
				w.state.Spec.Members, w.state.Status = nil, v1alpha1.NodeENIStateStatus{}
			},
			corev1.ConditionFalse, "StatusPending",
		},
		"a new NodeENI selects other nodes": {
			func(w *world) { w.nodeENIs = append(w.nodeENIs, nodeENI("db", "web")) }, corev1.ConditionTrue, "InterfacesReady",
		},
		"a new NodeENI is being deleted": {
			func(w *world) {
				db := nodeENI("db", "telco")
				db.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
				w.nodeENIs = append(w.nodeENIs, db)
			},
			corev1.ConditionTrue, "InterfacesReady",
		},
		"another instance has the name of the node": {
			func(w *world) { w.node.Spec.ProviderID = "aws:///us-west-2a/i-0fffffffffffffff0" }, corev1.ConditionFalse, "StatusPending",
		},
		"being attached": {phase(v1alpha1.PhaseAttaching), corev1.ConditionFalse, "InterfaceAttaching"},
		"blocked":        {phase(v1alpha1.PhaseBlocked), corev1.ConditionFalse, "InterfaceBlocked"},
		"blocked, but not required": {
			func(w *world) { w.i().Phase, w.i().Required = v1alpha1.PhaseBlocked, &no }, corev1.ConditionTrue, "InterfacesReady",
		},
		"one of two has no link": {
			func(w *world) {
				other := *w.i()
				other.MACAddress = "02:00:00:00:00:0b"
				w.state.Status.Interfaces = append(w.state.Status.Interfaces, other)
			},
			corev1.ConditionFalse, hostnet.ReasonNotFound,
		},
		"the agent has not reported": {func(w *world) { w.state.Status.Links = nil }, corev1.ConditionFalse, hostnet.ReasonNotFound},
		"no link":                    {link(v1alpha1.LinkMissing), corev1.ConditionFalse, "Why"},
		"a refused link":             {link(v1alpha1.LinkRefused), corev1.ConditionFalse, "Why"},
		"a link without carrier":     {link(v1alpha1.LinkNoCarrier), corev1.ConditionFalse, "Why"},
		"a device that is not bound": {link(v1alpha1.LinkBinding), corev1.ConditionFalse, "Why"},
		"a link":                     {link(v1alpha1.LinkReady), corev1.ConditionTrue, "InterfacesReady"},
		"a link in a pod":            {link(v1alpha1.LinkMoved), corev1.ConditionTrue, "InterfacesReady"},
		"a bound device":             {link(v1alpha1.LinkBound), corev1.ConditionTrue, "InterfacesReady"},
		"a pod network that lacks a CNI plugin": {
			func(w *world) {
				w.state.Status.PodNetworks = []v1alpha1.PodNetworkState{{Network: "web", ENIID: "eni-1", Reason: "CNIProgramMissing"}}
			},
			corev1.ConditionFalse, "CNIProgramMissing",
		},
		"a pod network that drains": {
			func(w *world) {
				w.state.Status.PodNetworks = []v1alpha1.PodNetworkState{{Network: "web", ENIID: "eni-1", Reason: v1alpha1.ReasonNetworkDraining}}
			},
			corev1.ConditionTrue, "InterfacesReady",
		},
		"no configuration of Multus yet": {
			func(w *world) { w.state.Status.CNI = &v1alpha1.CNIState{Message: "there is none"} }, corev1.ConditionFalse, "MultusNotConfigured",
		},
		"the configuration of Multus": {
			func(w *world) { w.state.Status.CNI = &v1alpha1.CNIState{Ready: true} }, corev1.ConditionTrue, "InterfacesReady",
		},
		"no configuration of Multus, and the node has pods": {
			func(w *world) {
				w.node.Spec.Taints = nil
				w.state.Status.CNI = &v1alpha1.CNIState{Message: "there is none"}
			},
			corev1.ConditionTrue, "InterfacesReady",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := ready()
			tc.change(w)
			node := w.reconcile(t, false)
			conditions := node.Status.Conditions
			if len(conditions) != 1 || conditions[0].Status != tc.status || conditions[0].Reason != tc.reason || conditions[0].Message == "" {
				t.Errorf("the conditions are %+v, want one that is %s (%s)", conditions, tc.status, tc.reason)
			}
			if was := len(w.node.Spec.Taints) > 0; was && tainted(node) != (tc.status != corev1.ConditionTrue) {
				t.Errorf("the condition is %s, and the taints are %v", tc.status, node.Spec.Taints)
			}
		})
	}
}

// TestAReadyNodeIsDescribed has the labels and the annotation of its interfaces, and keeps what others wrote.
func TestAReadyNodeIsDescribed(t *testing.T) {
	w := ready()
	node := w.reconcile(t, false)
	if diff := cmp.Diff(map[string]string{"pool": "telco", label: "eni-1"}, node.Labels); diff != "" {
		t.Errorf("the labels (-want +got):\n%s", diff)
	}
	const want = `{"net-web":{"nodeENI":"web","eniID":"eni-1","mac":"02:00:00:00:00:0a","name":"ens6","subnetID":"subnet-1","pciAddress":"0000:00:06.0"}}`
	if diff := cmp.Diff(want, node.Annotations[v1alpha1.InterfacesAnnotation]); diff != "" {
		t.Errorf("the annotation (-want +got):\n%s", diff)
	}
	if !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "dedicated" }) {
		t.Error("the taint of others is gone")
	}

	w.node = node
	link(v1alpha1.LinkMissing)(w)
	node = w.reconcile(t, false)
	if _, labelled := node.Labels[label]; labelled || node.Annotations[v1alpha1.InterfacesAnnotation] != "" {
		t.Errorf("without a link there are labels %v and annotations %v", node.Labels, node.Annotations)
	}
}

func TestALostInterfaceBringsTheTaintBackOnRequest(t *testing.T) {
	for reapply, want := range map[bool]bool{false: false, true: true} {
		w := ready()
		w.node = w.reconcile(t, reapply)
		link(v1alpha1.LinkMissing)(w)
		if got := tainted(w.reconcile(t, reapply)); got != want {
			t.Errorf("with --reapply-taint=%t the node has the taint: %t", reapply, got)
		}
	}
}

// TestANodeThatNoAgentServesIsLeftAlone has interfaces for other purposes than pods, and no agent that could say more.
func TestANodeThatNoAgentServesIsLeftAlone(t *testing.T) {
	w := ready()
	w.node.Spec.Taints, w.state.Status.Links = nil, nil
	before := w.node.DeepCopy()
	node := w.reconcile(t, true)
	node.ResourceVersion = before.ResourceVersion
	if diff := cmp.Diff(before, node); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTheTimeOfTheTransitionChangesWithTheStatusOnly writes another reason a minute later.
func TestTheTimeOfTheTransitionChangesWithTheStatusOnly(t *testing.T) {
	w := ready()
	phase(v1alpha1.PhaseCreating)(w)
	w.node = w.reconcile(t, false)
	before := w.node.Status.Conditions[0]
	phase(v1alpha1.PhaseAttaching)(w)
	after := w.reconcile(t, false).Status.Conditions[0]
	if !after.LastTransitionTime.Equal(&before.LastTransitionTime) || after.Reason == before.Reason {
		t.Errorf("%+v became %+v", before, after)
	}
}

var clock = time.Unix(1_800_000_000, 0)

// reconcile reconciles the node until nothing changes, and returns it.
func (w *world) reconcile(t *testing.T, reapply bool) *corev1.Node {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	objects := []client.Object{w.node.DeepCopy()}
	objects[0].SetResourceVersion("")
	if w.state != nil {
		objects = append(objects, w.state.DeepCopy())
	}
	for n := range w.nodeENIs {
		w.nodeENIs[n].Finalizers = []string{v1alpha1.Finalizer}
		objects = append(objects, w.nodeENIs[n].DeepCopy())
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&corev1.Node{}).Build()
	r := readiness.New(readiness.Options{Client: api, Taint: v1alpha1.NotReadyTaint, ReapplyTaint: reapply, Now: func() time.Time {
		clock = clock.Add(time.Minute)
		return clock
	}})
	key := types.NamespacedName{Name: w.node.Name}
	var node, before corev1.Node
	for range 3 {
		if result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil || result.RequeueAfter > 0 {
			t.Fatalf("%+v, %v", result, err)
		}
		before = *node.DeepCopy()
		if err := api.Get(t.Context(), key, &node); err != nil {
			t.Fatal(err)
		}
	}
	if before.ResourceVersion != node.ResourceVersion {
		t.Error("the reconciler writes again although nothing changes")
	}
	return &node
}

func tainted(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.NotReadyTaint })
}
