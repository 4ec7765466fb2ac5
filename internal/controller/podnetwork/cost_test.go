// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podnetwork_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/podnetwork"
)

const tenants, networks = 50, 10

// shared makes a cluster with ten NodeENIs with pods in fifty namespaces, whose definitions exist. The reconciler reads
// metadata from a cache. It returns the number of reads past the cache since the last call.
func shared(t *testing.T) (c *cluster, reads func() int) {
	c = newCluster(t)
	var names []string
	for n := range tenants {
		names = append(names, fmt.Sprintf("tenant-%d", n))
		c.must(c.client.Create(t.Context(), namespace(names[n], nil)))
	}
	c.nodeENI(func(n *v1alpha1.NodeENI) { n.Spec.Pods.Namespaces = names })
	for n := range networks - 1 {
		c.must(c.client.Create(t.Context(), &v1alpha1.NodeENI{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("other-%d", n), UID: types.UID(fmt.Sprintf("uid-%d", n))},
			Spec:       v1alpha1.NodeENISpec{Pods: &v1alpha1.NodeENIPods{Namespaces: names, Attachment: v1alpha1.PodAttachmentIPVLAN, IPv4: &v1alpha1.PodIPv4{}}},
		}))
	}
	count := 0
	options := c.reconciler.Options
	options.Cached = func() client.Reader { return c.client }
	options.Reader = interceptor.NewClient(c.client, interceptor.Funcs{
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			count++
			return w.Get(ctx, key, object, opts...)
		},
		List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			count++
			return w.List(ctx, list, opts...)
		},
	})
	c.reconciler = podnetwork.New(options)
	for range 2 { // the second pass reads what the first one wrote
		c.pass("n3")
		for n := range networks - 1 {
			c.pass(fmt.Sprintf("other-%d", n))
		}
	}
	return c, func() int {
		was := count
		count = 0
		return was
	}
}

func (c *cluster) pass(nodeENIs ...string) {
	c.Helper()
	for _, name := range nodeENIs {
		_, err := c.reconciler.Reconcile(c.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
		c.must(err)
	}
}

// TestAChangeOfADefinitionCostsLittle counts the reads past the cache for a change of one definition by its tenant.
func TestAChangeOfADefinitionCostsLittle(t *testing.T) {
	c, reads := shared(t)
	reads()
	c.pass("n3")
	if n := reads(); n > 0 {
		t.Errorf("%d reads where nothing changed", n)
	}
	edited := c.get("tenant-7", "n3")
	edited.SetAnnotations(map[string]string{"poke": "1"})
	c.must(c.client.Update(t.Context(), edited))
	reads()
	c.writes = 0
	concerned := c.reconciler.OfDefinition(t.Context(), edited)
	if diff := cmp.Diff([]string{"n3"}, concerned); diff != "" {
		t.Fatalf("the change concerns (-want +got):\n%s", diff)
	}
	c.pass(concerned...)
	if n := reads(); n > 2 || c.writes > 0 {
		t.Errorf("%d reads and %d writes because of one change, want at most 2 and none", n, c.writes)
	}

	edited = c.get("tenant-7", "n3")
	edited.Object["spec"] = map[string]any{"config": "{}"}
	c.must(c.client.Update(t.Context(), edited))
	c.writes = 0
	c.pass(concerned...)
	if config(t, c.get("tenant-7", "n3")) != config(t, c.get("tenant-8", "n3")) || c.writes != 1 {
		t.Errorf("after %d writes the edited definition is not as before", c.writes)
	}
}

func TestChangesConcernFewNodeENIs(t *testing.T) {
	c := newCluster(t)
	c.must(c.client.Create(t.Context(), &v1alpha1.NodeENI{
		ObjectMeta: metav1.ObjectMeta{Name: "core", UID: "uid-core"},
		Spec:       v1alpha1.NodeENISpec{Pods: &v1alpha1.NodeENIPods{NamespaceSelector: map[string]v1alpha1.LabelValue{"team": "core"}}},
	}))
	c.must(c.client.Create(t.Context(), &v1alpha1.NodeENI{ObjectMeta: metav1.ObjectMeta{Name: "hosts", UID: "uid-hosts"}}))
	definition := func(name string, change func(*metav1.ObjectMeta)) []string {
		object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "upf", Name: name}}
		if change != nil {
			change(&object.ObjectMeta)
		}
		return c.reconciler.OfDefinition(t.Context(), object)
	}
	for name, tc := range map[string]struct{ got, want []string }{
		"a definition of somebody else": {definition("macvlan", nil), nil},
		"one with the name":             {definition("n3", nil), []string{"n3"}},
		"one with the label":            {definition("x", func(m *metav1.ObjectMeta) { m.Labels = map[string]string{podnetwork.NodeENILabel: "n3"} }), []string{"n3"}},
		"one with the owner": {definition("x", func(m *metav1.ObjectMeta) {
			m.OwnerReferences = []metav1.OwnerReference{{Kind: "NodeENI", UID: "uid-n3"}}
		}), []string{"n3"}},
		"one of a NodeENI without pods": {definition("hosts", nil), nil},
		"a namespace in the list":       {c.reconciler.OfNamespace(t.Context(), namespace("upf", nil)), []string{"n3"}},
		"one that a label selects":      {c.reconciler.OfNamespace(t.Context(), namespace("amf", map[string]string{"team": "core"})), []string{"core"}},
		"any other namespace":           {c.reconciler.OfNamespace(t.Context(), namespace("amf", map[string]string{"team": "x"})), nil},
	} {
		if diff := cmp.Diff(tc.want, tc.got); diff != "" {
			t.Errorf("%s concerns (-want +got):\n%s", name, diff)
		}
	}
}

func TestNamespaceChanged(t *testing.T) {
	was := namespace("upf", map[string]string{"team": "core"})
	for name, tc := range map[string]struct {
		change func(*metav1.ObjectMeta)
		passes bool
	}{
		"an annotation":           {func(m *metav1.ObjectMeta) { m.Annotations = map[string]string{"poke": "1"}; m.ResourceVersion = "2" }, false},
		"a label":                 {func(m *metav1.ObjectMeta) { m.Labels = nil }, true},
		"its deletion begins":     {func(m *metav1.ObjectMeta) { m.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, true},
		"it was created again":    {func(m *metav1.ObjectMeta) { m.UID = "another" }, true},
		"a resync shows the same": {func(*metav1.ObjectMeta) {}, false},
	} {
		now := was.DeepCopy()
		tc.change(&now.ObjectMeta)
		if got := podnetwork.NamespaceChanged().Update(event.UpdateEvent{ObjectOld: was, ObjectNew: now}); got != tc.passes {
			t.Errorf("%s passes: %t, want %t", name, got, tc.passes)
		}
	}
}
