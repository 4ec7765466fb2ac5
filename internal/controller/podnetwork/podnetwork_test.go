// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podnetwork_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/controllertest"
	"github.com/multieni/multieni/internal/controller/podnetwork"
	"github.com/multieni/multieni/internal/core/netattach"
)

var definitions = schema.GroupVersionKind{Group: "k8s.cni.cncf.io", Version: "v1", Kind: "NetworkAttachmentDefinition"}

// cluster is an API server with namespaces upf and smf, NodeENI n3, and the reconciler.
type cluster struct {
	*testing.T
	client     client.WithWatch
	reconciler *podnetwork.Reconciler
	results    *controller.AttachmentDefinitions
	// refusal, if set, is the error of every request for a definition.
	refusal error
	writes  int
	// deleting, if set, runs once before a deletion.
	deleting func(*unstructured.Unstructured)
}

func newCluster(t *testing.T) *cluster {
	scheme := controllertest.Scheme(t)
	scheme.AddKnownTypeWithName(definitions, &unstructured.Unstructured{})
	scheme.AddKnownTypeWithName(definitions.GroupVersion().WithKind("NetworkAttachmentDefinitionList"), &unstructured.UnstructuredList{})
	nodeENI := &v1alpha1.NodeENI{
		ObjectMeta: metav1.ObjectMeta{Name: "n3", UID: "uid-n3"},
		Spec: v1alpha1.NodeENISpec{SubnetNames: []string{"n3-a", "n3-b"}, Pods: &v1alpha1.NodeENIPods{
			Namespaces: []string{"upf", "smf"}, Attachment: v1alpha1.PodAttachmentIPVLAN, IPv4: &v1alpha1.PodIPv4{},
		}},
	}
	c := &cluster{T: t, results: &controller.AttachmentDefinitions{}}
	about := func(object client.Object, err error) error {
		if _, is := object.(*unstructured.Unstructured); is && c.refusal != nil {
			return c.refusal
		}
		return err
	}
	c.client = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.NodeENI{}).
		WithObjects(nodeENI, namespace("upf", nil), namespace("smf", map[string]string{"team": "core"})).
		WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if _, is := list.(*unstructured.UnstructuredList); is && c.refusal != nil {
					return c.refusal
				}
				return w.List(ctx, list, opts...)
			},
			Create: func(ctx context.Context, w client.WithWatch, object client.Object, opts ...client.CreateOption) error {
				c.writes++
				return about(object, w.Create(ctx, object, opts...))
			},
			Update: func(ctx context.Context, w client.WithWatch, object client.Object, opts ...client.UpdateOption) error {
				c.writes++
				return about(object, w.Update(ctx, object, opts...))
			},
			Delete: func(ctx context.Context, w client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
				c.writes++
				if err := c.meanwhile(ctx, object, opts); err != nil {
					return err
				}
				return about(object, w.Delete(ctx, object, opts...))
			},
		}).Build()
	c.reconciler = podnetwork.New(podnetwork.Options{Client: c.client, Reader: c.client, Results: c.results, Log: slog.New(slog.DiscardHandler)})
	return c
}

// meanwhile runs the change of another client before a deletion, and refuses a deletion of another UID as the API
// server does; the fake client ignores that precondition.
func (c *cluster) meanwhile(ctx context.Context, object client.Object, opts []client.DeleteOption) error {
	definition, is := object.(*unstructured.Unstructured)
	if !is || c.deleting == nil {
		return nil
	}
	change := c.deleting
	c.deleting = nil
	change(definition)
	var options client.DeleteOptions
	options.ApplyOptions(opts)
	now := definition.DeepCopy()
	if err := c.client.Get(ctx, client.ObjectKeyFromObject(definition), now); err != nil {
		return err
	}
	if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != now.GetUID() {
		return apierrors.NewConflict(schema.GroupResource{}, now.GetName(), fmt.Errorf("the UID is %s", now.GetUID()))
	}
	return nil
}

func namespace(name string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// reconcile reconciles n3, and returns the reason in the result.
func (c *cluster) reconcile() string {
	c.Helper()
	_, err := c.reconciler.Reconcile(c.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "n3"}})
	c.must(err)
	result, _ := c.results.Of("n3")
	c.Log(result.Message)
	return result.Reason
}

func (c *cluster) nodeENI(change func(*v1alpha1.NodeENI)) {
	c.Helper()
	var n v1alpha1.NodeENI
	c.must(c.client.Get(c.Context(), client.ObjectKey{Name: "n3"}, &n))
	change(&n)
	c.must(c.client.Update(c.Context(), &n))
	c.writes = 0
}

// has returns the existing definitions as namespace/name.
func (c *cluster) has() []string {
	c.Helper()
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(definitions)
	c.must(c.client.List(c.Context(), &list))
	var names []string
	for _, item := range list.Items {
		names = append(names, item.GetNamespace()+"/"+item.GetName())
	}
	slices.Sort(names)
	return names
}

func (c *cluster) expect(want ...string) {
	c.Helper()
	if diff := cmp.Diff(want, c.has()); diff != "" {
		c.Errorf("definitions (-want +got):\n%s", diff)
	}
}

func (c *cluster) get(namespace, name string) *unstructured.Unstructured {
	c.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(definitions)
	c.must(c.client.Get(c.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object))
	return object
}

func config(t *testing.T, object *unstructured.Unstructured) string {
	t.Helper()
	text, _, err := unstructured.NestedString(object.Object, "spec", "config")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestDefinitionsAreGeneratedOnce(t *testing.T) {
	c := newCluster(t)
	if reason := c.reconcile(); reason != "" {
		t.Errorf("reason %s", reason)
	}
	c.expect("smf/n3", "upf/n3")
	definition := c.get("upf", "n3")
	if owners := definition.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != "uid-n3" {
		t.Errorf("owners: %+v", owners)
	}
	if config(t, definition) != config(t, c.get("smf", "n3")) {
		t.Error("the definitions of two namespaces differ")
	}
	c.writes = 0
	c.reconcile()
	if c.writes != 0 {
		t.Errorf("%d writes where nothing changed", c.writes)
	}
}

func TestDefinitionsFollowTheNodeENI(t *testing.T) {
	cases := map[string]struct {
		change func(*v1alpha1.NodeENI)
		want   []string
	}{
		"a namespace leaves the list": {func(n *v1alpha1.NodeENI) { n.Spec.Pods.Namespaces = []string{"upf"} }, []string{"upf/n3"}},
		"namespaces by a label": {func(n *v1alpha1.NodeENI) {
			n.Spec.Pods.Namespaces, n.Spec.Pods.NamespaceSelector = nil, map[string]v1alpha1.LabelValue{"team": "core"}
		}, []string{"smf/n3"}},
		"no namespaces":                   {func(n *v1alpha1.NodeENI) { n.Spec.Pods.Namespaces = nil }, nil},
		"the network is for pods no more": {func(n *v1alpha1.NodeENI) { n.Spec.Pods = nil }, nil},
		"its deletion begins":             {func(n *v1alpha1.NodeENI) { n.Finalizers = []string{v1alpha1.Finalizer} }, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.reconcile()
			c.nodeENI(tc.change)
			var n v1alpha1.NodeENI
			c.must(c.client.Get(t.Context(), client.ObjectKey{Name: "n3"}, &n))
			n.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionPodNetworkReady}}
			c.must(c.client.Status().Update(t.Context(), &n))
			if len(n.Finalizers) > 0 {
				c.must(c.client.Delete(t.Context(), &n))
			}
			if reason := c.reconcile(); reason != "" {
				t.Errorf("reason %s", reason)
			}
			c.expect(tc.want...)
		})
	}
}

func TestASecondSubnetOfAZoneIsASecondNetwork(t *testing.T) {
	c := newCluster(t)
	var n v1alpha1.NodeENI
	c.must(c.client.Get(t.Context(), client.ObjectKey{Name: "n3"}, &n))
	n.Status.Subnets = []v1alpha1.ResolvedSubnet{{ID: "subnet-a", Zone: "a"}, {ID: "subnet-b", Zone: "a"}, {ID: "subnet-c", Zone: "b"}}
	c.must(c.client.Status().Update(t.Context(), &n))
	c.reconcile()
	c.expect("smf/n3", "smf/n3--1", "upf/n3", "upf/n3--1")
}

func TestAnEditedDefinitionIsRestored(t *testing.T) {
	edits := map[string]func(*unstructured.Unstructured){
		"another configuration": func(d *unstructured.Unstructured) { d.Object["spec"] = map[string]any{"config": "{}"} },
		"no owner":              func(d *unstructured.Unstructured) { d.SetOwnerReferences(nil) },
		"no owner, and an annotation": func(d *unstructured.Unstructured) {
			d.SetOwnerReferences(nil)
			d.SetAnnotations(map[string]string{"team": "core"})
		},
	}
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.reconcile()
			before := c.get("upf", "n3")
			edited := before.DeepCopy()
			edit(edited)
			c.must(c.client.Update(t.Context(), edited))
			c.reconcile()
			after := c.get("upf", "n3")
			if config(t, after) != config(t, before) || len(after.GetOwnerReferences()) != 1 {
				t.Errorf("the definition is now %v", after.Object)
			}
			if edited.GetAnnotations()["team"] != after.GetAnnotations()["team"] {
				t.Error("an annotation of somebody else is gone")
			}
		})
	}
}

func TestADefinitionOfSomebodyElseIsNotTouched(t *testing.T) {
	c := newCluster(t)
	theirs := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"config": `{"type":"macvlan"}`}}}
	theirs.SetGroupVersionKind(definitions)
	theirs.SetNamespace("upf")
	theirs.SetName("n3")
	c.must(c.client.Create(t.Context(), theirs))
	if reason := c.reconcile(); reason != v1alpha1.ReasonAttachmentDefinitionTaken {
		t.Errorf("reason %q", reason)
	}
	if result, _ := c.results.Of("n3"); !strings.Contains(result.Message, "upf/n3") {
		t.Errorf("the message does not name it: %s", result.Message)
	}
	if got := config(t, c.get("upf", "n3")); got != `{"type":"macvlan"}` {
		t.Errorf("it is now %s", got)
	}
	c.nodeENI(func(n *v1alpha1.NodeENI) { n.Spec.Pods.Namespaces = []string{"smf"} })
	c.reconcile()
	c.expect("smf/n3", "upf/n3")
}

// The controller deletes only what has its owner reference: definitions that a user applied stay, those that kubectl eni
// nads prints and those with a copied label.
func TestDefinitionsThatAUserAppliedStay(t *testing.T) {
	own := func(*v1alpha1.NodeENI) []*unstructured.Unstructured {
		return []*unstructured.Unstructured{podnetwork.Object("", netattach.Definition{Name: "n3-us-east-1a", Config: `{"type":"ipvlan"}`})}
	}
	render := func(n *v1alpha1.NodeENI) []*unstructured.Unstructured { return podnetwork.Render(n, "") }
	labelled := func(n *v1alpha1.NodeENI) []*unstructured.Unstructured {
		all := render(n)
		all[0].SetLabels(map[string]string{podnetwork.NodeENILabel: "n3"})
		return all
	}
	cases := map[string]struct {
		change  func(*v1alpha1.NodeENIPods)
		printed func(*v1alpha1.NodeENI) []*unstructured.Unstructured
		want    []string
	}{
		"one of the user, with attachment Observed": {
			func(p *v1alpha1.NodeENIPods) { *p = v1alpha1.NodeENIPods{Attachment: v1alpha1.PodAttachmentObserved} },
			own, []string{"upf/n3-us-east-1a"},
		},
		"without namespaces":             {func(p *v1alpha1.NodeENIPods) { p.Namespaces = nil }, render, []string{"upf/n3"}},
		"in a namespace that it names":   {func(*v1alpha1.NodeENIPods) {}, render, []string{"smf/n3", "upf/n3"}},
		"with a copied label":            {func(p *v1alpha1.NodeENIPods) { p.Namespaces = nil }, labelled, []string{"upf/n3"}},
		"in another namespace, labelled": {func(p *v1alpha1.NodeENIPods) { p.Namespaces = []string{"smf"} }, labelled, []string{"smf/n3", "upf/n3"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			var printed []*unstructured.Unstructured
			c.nodeENI(func(n *v1alpha1.NodeENI) { tc.change(n.Spec.Pods); printed = tc.printed(n) })
			for _, definition := range printed {
				definition.SetNamespace("upf")
				c.must(c.client.Create(t.Context(), definition))
			}
			if reason := c.reconcile(); reason != "" {
				t.Errorf("reason %s", reason)
			}
			c.expect(tc.want...)
			if owners := c.get("upf", printed[0].GetName()).GetOwnerReferences(); len(owners) > 0 {
				t.Errorf("the user's definition is now that of %v", owners)
			}
		})
	}
}

// A deletion names the UID: what another client created under the name meanwhile stays.
func TestADeletionSparesASuccessorOfTheName(t *testing.T) {
	c := newCluster(t)
	c.reconcile()
	c.nodeENI(func(n *v1alpha1.NodeENI) { n.Spec.Pods.Namespaces = []string{"smf"} })
	old := c.get("upf", "n3")
	old.SetUID("uid-old")
	c.must(c.client.Update(t.Context(), old))
	c.deleting = func(definition *unstructured.Unstructured) {
		successor := definition.DeepCopy()
		successor.SetUID("uid-successor")
		successor.SetOwnerReferences(nil)
		c.must(c.client.Update(t.Context(), successor))
	}
	_, err := c.reconciler.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "n3"}})
	if !apierrors.IsConflict(err) {
		t.Errorf("got %v, want a conflict, which is tried again", err)
	}
	c.expect("smf/n3", "upf/n3")
}

func TestWhatKeepsDefinitionsFromBeingGenerated(t *testing.T) {
	cases := map[string]struct {
		refusal error
		change  func(*v1alpha1.NodeENI)
		reason  string
		want    []string
	}{
		"a namespace does not exist": {
			change: func(n *v1alpha1.NodeENI) { n.Spec.Pods.Namespaces = []string{"upf", "amf"} },
			reason: v1alpha1.ReasonNamespaceNotFound, want: []string{"upf/n3"},
		},
		"Multus is not installed": {
			refusal: fmt.Errorf("list: %w", &meta.NoKindMatchError{GroupKind: definitions.GroupKind()}),
			reason:  v1alpha1.ReasonAttachmentDefinitionsUnavailable,
		},
		"Multus was uninstalled": {
			refusal: apierrors.NewNotFound(schema.GroupResource{}, ""), reason: v1alpha1.ReasonAttachmentDefinitionsUnavailable,
		},
		"the controller has no permission": {
			refusal: apierrors.NewForbidden(schema.GroupResource{}, "", nil), reason: v1alpha1.ReasonAttachmentDefinitionsForbidden,
		},
		"Multus is not installed and no namespace is named": {
			refusal: &meta.NoKindMatchError{GroupKind: definitions.GroupKind()},
			change:  func(n *v1alpha1.NodeENI) { n.Spec.Pods.Namespaces = nil },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			if tc.change != nil {
				c.nodeENI(tc.change)
			}
			c.refusal = tc.refusal
			if reason := c.reconcile(); reason != tc.reason {
				t.Errorf("reason %q, want %q", reason, tc.reason)
			}
			c.refusal = nil
			c.expect(tc.want...)
			c.nodeENI(func(n *v1alpha1.NodeENI) { n.Spec.Pods.Namespaces = []string{"upf", "smf"} })
			if reason := c.reconcile(); reason != "" {
				t.Errorf("reason %q after the cause is gone", reason)
			}
			c.expect("smf/n3", "upf/n3")
		})
	}
}

func TestANodeENIWithoutPodsAsksForNothing(t *testing.T) {
	c := newCluster(t)
	c.nodeENI(func(n *v1alpha1.NodeENI) { n.Spec.Pods = nil })
	c.refusal = apierrors.NewInternalError(fmt.Errorf("a request for definitions"))
	c.reconcile()
	if _, known := c.results.Of("n3"); known || c.writes != 0 {
		t.Errorf("%d writes, and a result: %v", c.writes, known)
	}
}
